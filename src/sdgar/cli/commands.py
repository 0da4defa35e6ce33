"""The commands of ``sdgar`` by name: built-in ones, and ones that other packages register.

A package adds commands with an entry point of the group ``sdgar.commands`` whose value is a table
like ``COMMANDS``. A command's module is imported when that command runs: ``sdgar --help`` imports
only the tables.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

import typer
from typer.core import TyperGroup

from sdgar.cli.options.option import command_from
from sdgar.cli.pages import SETTINGS, Command, with_page, write_options, write_page, write_panel
from sdgar.errors import UsageError, unknown_name

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
        "sdgar.cli.systems:info",
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

    def load(self) -> Any:
        """Import and return what is at the place."""
        module, _, name = str(self.place).partition(":")
        return getattr(import_module(module), name)


_registered: dict[str, Registered] = {}


def register(source: str, table: Table) -> None:
    """Add the commands of a table, as an entry point called ``source`` does.

    A name that is taken already is refused, unless it is the same function, or a group.
    """
    for name, (line, place) in table.items():
        known = _registered.setdefault(name, Registered(line, place, source))
        if known.place != place:
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
            try:
                table = point.load()
            except Exception as error:
                raise UsageError(
                    f"the commands of the entry point {point.name!r} ({point.value}) cannot be "
                    f"loaded: {type(error).__name__}: {error}. Correct or uninstall that package.",
                    code="broken_entry_point",
                ) from error
            register(point.name, table)
    return _registered


def extensions_of(name: str) -> list[Any]:
    """Import and return the extensions of a command that other packages have registered."""
    return [one.load() for key, one in registered().items() if key.startswith(f"{name}:")]


class CommandGroup(TyperGroup):
    """A group with all registered commands whose names begin with the name of the group."""

    prefix = ""

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option --help, which shows the page as ``write_page`` does."""
        return with_page(super().get_help_option(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Take the options of the group; without any word the page is the answer."""
        if not args and not ctx.resilient_parsing:
            write_page(ctx)
            raise typer.Exit(2)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is named first, or raise with the nearest one."""
        known = self.list_commands(ctx)
        if args[0] not in known and not ctx.resilient_parsing:
            raise unknown_name("command", args[0], known)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        names = [n.removeprefix(self.prefix) for n in registered() if n.startswith(self.prefix)]
        return [name for name in names if not set(name) & {" ", ":"}]

    def get_command(self, ctx: Any, name: str) -> Any:
        """Import a command, or return None for an unknown name."""
        return command_of(self.prefix + name) if name in self.list_commands(ctx) else None

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options of the group, and then its commands, each with its line.

        Commands of other packages are listed apart from our own.
        """
        write_options(ctx, formatter, self.get_params(ctx))
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            one = registered()[self.prefix + name]
            title = f"Commands of {one.source}" if one.source and not self.prefix else "Commands"
            panels.setdefault(title, []).append((name, one.line))
        for title, lines in panels.items():
            write_panel(formatter, title, lines)


def command_of(name: str) -> Any:
    """Import the command of this name, and return it in the form that Typer runs."""
    one = registered().get(name)
    if one is None:
        raise unknown_name("command", name, registered())
    word = name.rpartition(" ")[2]
    if one.place is None:
        kind = type("Group", (CommandGroup,), {"prefix": f"{name} "})
        app = typer.Typer(cls=kind, add_completion=False, help=one.line, **SETTINGS)
        app.callback()(lambda: None)
    else:
        function = one.load()
        takes_more = "extended" in inspect.signature(function).parameters
        extensions = extensions_of(name) if takes_more else []
        app = typer.Typer(add_completion=False, **SETTINGS)
        app.command(word, cls=Command)(command_from(function, extensions))
    found = typer.main.get_command(app)
    found.name = word
    return found
