"""Commands are registered in tables, by this package and by others."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import pytest

import sdgar
from sdgar.cli import commands, main
from sdgar.errors import UsageError

PAGE = Path(__file__).parents[2] / "docs" / "bring-your-own.md"


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(commands, "_registered", dict(commands.registered()))
    return commands


class Point:
    """An entry point of a broken package."""

    name, value = "broken", "nowhere:COMMANDS"

    def load(self):
        raise ModuleNotFoundError("No module named 'nowhere'")


def test_the_command_in_the_documentation_runs(registry, tmp_path, monkeypatch, capsys):
    (code,) = re.findall(r"```python\n(# my_commands.py\n.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "my_commands.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    data = sdgar.synthetic("demo")
    sdgar.MostPopular().fit(data, verbose=False).save(tmp_path / "run")
    import my_commands

    registry.register("mine", my_commands.COMMANDS)
    for words in (["--help"], ["count", str(tmp_path / "run")]):
        monkeypatch.setattr(sys, "argv", ["sdgar", *words])
        with pytest.raises(SystemExit) as end:
            main.run()
        assert end.value.code == 0
    shown = capsys.readouterr().out
    assert "Commands of mine:\n  count" in shown
    assert shown.endswith(f"{data.n_users} users, {data.n_items} items\n")


def test_every_sub_package_has_registered_its_commands():
    sources = {name: one.source for name, one in commands.registered().items()}
    assert {"serve", "scale", "lab", ""} == set(sources.values())
    assert (sources["serve"], sources["data shard"], sources["tune"]) == ("serve", "scale", "lab")


def test_a_name_that_is_taken_is_refused(registry):
    with pytest.raises(UsageError, match=r"'train'.*is registered already"):
        registry.register("mine", {"train": ("Train.", "mine:train")})


def test_a_package_with_a_table_that_cannot_be_loaded_is_named(monkeypatch):
    monkeypatch.setattr(commands, "_registered", {})
    monkeypatch.setattr(commands, "entry_points", lambda group: [Point()])
    with pytest.raises(UsageError, match=r"'broken' \(nowhere:COMMANDS\).*ModuleNotFoundError"):
        commands.registered()


def test_train_has_few_parameters_and_a_short_first_page():
    from sdgar.cli.train import train

    command = commands.command_of("train")
    assert len(inspect.signature(inspect.unwrap(train), follow_wrapped=False).parameters) <= 24
    listed = [p for p in command.params if p.opts[0].startswith("-") and command.is_listed(p)]
    assert len(listed) + 1 <= 20  # and --help
    assert {"--help-all", "--user-column"} <= {p.opts[0] for p in listed}


@pytest.mark.parametrize("name", ["train", "recommend", "evaluate", "compare", "similar"])
def test_no_type_of_python_is_in_a_help_page(name, monkeypatch, capsys):
    words = {"train": "--help-all", "recommend": "--help-all"}
    monkeypatch.setattr(sys, "argv", ["sdgar", name, words.get(name, "--help")])
    with pytest.raises(SystemExit):
        main.run()
    shown = capsys.readouterr().out
    assert not re.search(r"<\w+>|\| None|list\[|Path\b|\bstr\b", shown)
