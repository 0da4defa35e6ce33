"""The README is short and true: its Python runs, and its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sdgar.cli.commands import registered

README = Path(__file__).parents[1] / "README.md"
GUIDE = README.parent / "docs" / "guide.md"
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


def test_it_is_short():
    assert len(README.read_text().split()) <= 1000


def test_every_command_is_described():
    text = README.read_text() + GUIDE.read_text()
    for name in registered():
        if not set(name) & {" ", ":"}:
            assert f"sdgar {name}" in text, name


@pytest.mark.parametrize("page", [README, GUIDE], ids=lambda page: page.name)
def test_every_link_and_picture_is_there(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target
