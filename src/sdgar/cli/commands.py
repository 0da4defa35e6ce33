"""The commands of ``sdgar`` by name: built-in ones, and ones that other packages register.

A package adds commands with an entry point of the group ``sdgar.commands`` whose value is a table
like ``COMMANDS``. A command's module is imported when that command runs: ``sdgar --help`` imports
only the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

import typer

from sdgar.cli.pages import Command, Commands, shown_as
from sdgar.errors import UsageError, did_you_mean

GROUP = "sdgar.commands"
"""The group of entry points that name tables of commands."""

Table = Mapping[str, tuple[str, str | None]]
"""The one-line help and ``module:function`` of each command.

``group name`` is a command of a group, and a group itself has no function. ``name:part`` is no
command but an extension of one: ``extensions_of(name)`` returns what is at its place.
"""

COMMANDS: Table = {
    "demo": (
        "Make data, train, compare with most-popular, save, draw, recommend.",
        "sdgar.cli.demo:demo",
    ),
    "train": (
        "Train a model on files of (user, item) events and measure it.",
        "sdgar.cli.train:train",
    ),
    "evaluate": (
        "Rank all items for every test user and compare with the test events.",
        "sdgar.cli.evaluate:evaluate",
    ),
    "add-items": (
        "Add new items to a saved model, by their events, their features, or both.",
        "sdgar.cli.saved_models:add_items",
    ),
    "recommend": (
        "Recommend items that a user does not have yet.",
        "sdgar.cli.recommend:recommend",
    ),
    "explain": (
        "Show how much each item of a user's history contributes to each recommendation.",
        "sdgar.cli.explain:explain",
    ),
    "similar": (
        "Find the items most similar to an item, or the users most similar to a user.",
        "sdgar.cli.explain:similar",
    ),
    "export": (
        "Write a model for other programs: tables, arrays, an index, a graph, or SQL.",
        "sdgar.cli.saved_models:export",
    ),
    "import": (
        "Make a model of vectors that implicit or another library has learned.",
        "sdgar.cli.saved_models:import_",
    ),
    "info": (
        "Describe a saved model, after verifying its files.",
        "sdgar.cli.info:info",
    ),
    "data": ("Look at data, prepare it, make it up, move it in and out of a store.", None),
    "data stats": (
        "Print the columns of the paper's Table 1 for one data set in one or several files.",
        "sdgar.cli.data:stats",
    ),
    "data split": (
        "Write train.parquet and test.parquet, so that several runs share one split.",
        "sdgar.cli.data:split",
    ),
    "systems": (
        "Show the systems there are; with a name, its settings and what it can do.",
        "sdgar.cli.systems:systems",
    ),
    "doctor": ("Show versions, devices, engines and what is missing.", "sdgar.cli.systems:doctor"),
}
"""The commands that need none of ``sdgar.serve``, ``sdgar.scale`` and ``sdgar.lab``."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A command or group in the table of everything that is registered."""

    line: str
    """The one-line help."""
    place: str | None
    """The function as ``module:function``; None for a group."""
    source: str
    """The name of the entry point of the command; empty for the commands of this file."""


_registered: dict[str, Registered] = {}


def register(source: str, table: Table) -> None:
    """Add the commands of a table, as an entry point called ``source`` does.

    A name that is taken already is refused, unless it is the same function, or a group.
    """
    for name, (line, place) in table.items():
        known = _registered.get(name)
        if known is None:
            _registered[name] = Registered(line, place, source)
        elif known.place != place:
            raise UsageError(
                f"the command {name!r} of {source!r} ({place}) is registered already "
                f"({known.place}). Choose another name.",
                code="command_exists",
            )


def registered() -> Mapping[str, Registered]:
    """Return all commands, groups and extensions; entry points are read once."""
    if not _registered:
        register("", COMMANDS)
        for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
            register(point.name, _table_of(point))
    return _registered


def _table_of(point: Any) -> Table:
    """Load the table of an entry point; the error of a broken package names it."""
    try:
        table: Table = point.load()
    except Exception as error:
        raise UsageError(
            f"the commands of the entry point {point.name!r} ({point.value}) cannot be loaded: "
            f"{type(error).__name__}: {error}. Correct or uninstall that package.",
            code="broken_entry_point",
        ) from error
    return table


def extensions_of(name: str) -> list[Any]:
    """Import and return the extensions of a command that other packages have registered."""
    found = (one.place for key, one in registered().items() if key.startswith(f"{name}:"))
    return [_at(place) for place in found if place is not None]


class Registry(Commands):
    """A group with all registered commands whose names begin with the name of the group."""

    prefix = ""

    def _below(self) -> Iterator[tuple[str, Registered]]:
        for name, one in registered().items():
            word = name.removeprefix(self.prefix)
            if name.startswith(self.prefix) and not set(word) & {" ", ":"}:
                yield word, one

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [word for word, _ in self._below()]

    def get_command(self, ctx: Any, name: str) -> Any:
        """Import a command, or return None for an unknown name."""
        return command_of(self.prefix + name) if name in self.list_commands(ctx) else None

    def line_of(self, ctx: Any, name: str) -> str:
        """Return the one-line help of a command."""
        return registered()[self.prefix + name].line

    def panel_of(self, ctx: Any, name: str) -> str:
        """Return the heading that a command is listed under: its package, if it is not ours."""
        source = registered()[self.prefix + name].source
        return f"Commands of {source}" if source and not self.prefix else "Commands"


def command_of(name: str) -> Any:
    """Import the command of this name, and return it in the form that Typer runs."""
    one = registered().get(name)
    if one is None:
        guess = did_you_mean(name, registered())
        raise UsageError(f"unknown command {name!r}.{guess}", code="unknown_command")
    word = name.rpartition(" ")[2]
    if one.place is None:
        kind = type("Group", (Registry,), {"prefix": f"{name} "})
        app = typer.Typer(**shown_as(cls=kind, add_completion=False, help=one.line))
        app.callback()(_no_options)
    else:
        app = typer.Typer(**shown_as(add_completion=False))
        app.command(word, cls=Command)(_at(one.place))
    found = typer.main.get_command(app)
    found.name = word
    return found


def _no_options() -> None:
    """Take no options: a group only has commands."""


def _at(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
