"""The commands of ``sdgar`` by name, in the order in which people are shown them.

A command's module is imported when that command runs: ``sdgar --help`` needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from keyword import iskeyword
from typing import Any

import typer

from sdgar.cli.pages import Command, Commands, shown_as

LINES = {
    "demo": "Make data, train, compare with most-popular, save, draw, recommend.",
    "train": "Train a model on files of (user, item) events and measure it.",
    "compare": (
        "Compare systems on the same rows, with the same seeds, and by a paired test over users."
    ),
    "tune": "Search a system's settings for the best --metric on validation rows.",
    "paper": (
        "Regenerate a table or a figure of the paper: data first, then Markdown and PNG from it."
    ),
    "evaluate": "Rank all items for every test user and compare with the test events.",
    "blend": (
        "Add the scores of two models of the same events: the sum is a model like any other."
    ),
    "add-items": "Add new items to a saved model, by their events, their features, or both.",
    "recommend": "Recommend items that a user does not have yet.",
    "explain": "Say which items of a user's history speak for each item, and how much.",
    "similar": "Find the items most similar to an item, or the users most similar to a user.",
    "serve": "Answer over HTTP: recommendations, similar items, reasons, feedback, and a page.",
    "ab": "Compare the variants of a server by what users did with their lists.",
    "export": "Write a model for other programs: tables, arrays, an index, a graph, or SQL.",
    "import": "Make a model of vectors that implicit or another library has learned.",
    "info": "Say what a saved model is, after verifying its files.",
    "data": "Look at data, prepare it, make it up, move it in and out of a store.",
    "keys": "Make, list and revoke the API keys of a store.",
    "systems": "Show the systems there are; with a name, its settings and what it can do.",
    "compile": "Compile what systems need, so that their first training waits for nothing.",
    "doctor": "Show versions, devices, engines and what is missing.",
}
"""The one line of each command; ``x-y`` is the function, or group, ``x_y`` in ``cli/x_y.py``.

A word that Python keeps for itself has ``_`` behind it there.
"""


_PACKAGES = {
    "ab": "sdgar.serve.commands",
    "compare": "sdgar.lab.commands",
    "keys": "sdgar.serve.commands",
    "paper": "sdgar.lab.commands",
    "serve": "sdgar.serve.commands",
    "tune": "sdgar.lab.commands",
}


class ByName(Commands):
    """The commands of ``LINES``."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return list(LINES)

    def get_command(self, ctx: Any, name: str) -> Any:
        """Import a command, or return none if there is none of this name."""
        return command_of(name) if name in LINES else None

    def line_of(self, ctx: Any, name: str) -> str:
        """Return the one line that says what a command does."""
        return LINES[name]


def command_of(name: str) -> Any:
    """Import the command of this name, and return it in the form that Typer runs."""
    home = f"{name}_" if iskeyword(name) else name.replace("-", "_")
    made = getattr(import_module(f"{_PACKAGES.get(name, 'sdgar.cli')}.{home}"), home)
    if not isinstance(made, typer.Typer):
        app = typer.Typer(**shown_as(add_completion=False))
        app.command(name, cls=Command)(made)
        made = app
    found = typer.main.get_command(made)
    found.name = name
    return found
