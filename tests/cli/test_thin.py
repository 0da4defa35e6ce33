"""Commands are small files that know nothing of each other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import sdgar.cli

FOLDER = Path(sdgar.cli.__file__).parent
COMMANDS = ("demo", "train", "compare", "tune", "paper", "evaluate", "recommend", "explain",
            "blend", "similar", "info", "data", "data_files", "data_sets", "data_shards",
            "data_store", "keys", "systems", "compile", "doctor", "export",
            "import_")  # fmt: skip
LONGEST = 160
"""Lines of a command; each of its options is one."""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_small_and_imports_no_other(name):
    text = (FOLDER / f"{name}.py").read_text()
    assert len(text.splitlines()) <= LONGEST
    if name == "data":  # the group of data_files and data_sets
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found = {node.module.removeprefix("sdgar.cli.")}
            found |= {one.name for one in node.names} if node.module == "sdgar.cli" else set()
            assert not found & set(COMMANDS)


def test_no_file_of_the_command_line_is_long():
    for path in FOLDER.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 350, path.name
