"""The README is true: its Python runs, and its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sdgar.cli.commands import registered

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block {i}" for i in range(len(BLOCKS))])
def test_the_python_in_the_readme_runs(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, str(README), "exec"), {})
    assert float(capsys.readouterr().out.splitlines()[0]) > 0.2
    assert (tmp_path / "runs" / "readme" / "model.safetensors").exists()


def test_there_is_python_in_the_readme():
    assert BLOCKS
    assert max(len(block.splitlines()) for block in BLOCKS) <= 12


def test_every_command_in_the_readme_exists():
    for line in re.findall(r"^sdgar (.*)$", README.read_text(), re.MULTILINE):
        words = line.split()
        assert words[0] in registered(), line
        if words[0] == "data":
            assert f"data {words[1]}" in registered(), line


def test_every_command_shown_is_described_and_every_link_leads_somewhere():
    text = README.read_text()
    for name in registered():
        if set(name) & {" ", ":"}:
            continue
        assert f"sdgar {name}" in text or f"make {name}" in text, name
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert (README.parent / target).exists(), target
