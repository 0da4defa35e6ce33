"""``sdgar systems``: what can be trained, and what its settings mean."""

from __future__ import annotations

from typing import Annotated

import typer

from sdgar.cli import options
from sdgar.cli.console import Screen
from sdgar.systems.names import SYSTEMS

_NAMES = 15
"""The width of the column of names in the list of systems."""


def systems(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show this one; without it, all.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show the systems there are; with a name, its settings and what it can do."""
    from sdgar.systems.description import described

    screen = Screen(as_json=as_json)
    if name is None:
        all_of_them = SYSTEMS.titles()
        for system, summary in all_of_them.items():
            screen.lines(f"{system:<{_NAMES}}{summary}", further=_NAMES)
        screen.say("next", f"sdgar systems {options.DEFAULT_SYSTEM}")
        screen.result({"systems": all_of_them})
        return
    found = described(name)
    screen.line(f"{name}, in Python {found['class']}", style="bold")
    for paragraph in found["about"].split("\n\n"):
        if paragraph.startswith(" "):  # an equation
            for line in paragraph.split("\n"):
                screen.line(line)
        else:
            screen.lines(" ".join(paragraph.split()))
        screen.line("")
    for setting in found["settings"]:
        search = f"; a search tries {setting['search']}" if setting["search"] else ""
        screen.line(
            f"{setting['name']}: {setting['kind']} = {setting['default']!r}{search}", "cyan"
        )
        screen.lines(f"    {setting['meaning']}", further=4)
    screen.line("")
    for what, answer in found["can"].items():
        screen.lines(f"{what}: {answer}", further=4)
    screen.result(found)
