"""``sdgar similar``: items whose vectors point the same way."""

from __future__ import annotations

from typing import Annotated

import typer

from sdgar.cli import options
from sdgar.cli.console import Screen
from sdgar.cli.recommend import lists, show


def similar(
    run: options.RunFolder,
    item: Annotated[list[str], typer.Option("--item", help="An item; repeatable.")],
    k: Annotated[
        int,
        typer.Option(
            "-k", parser=options.number("-k", int), metavar="INTEGER", help="Items to show."
        ),
    ] = 10,
    as_json: options.Json = False,
) -> None:
    """Find the items most similar to an item."""
    from sdgar.recommender import load

    screen = Screen(as_json=as_json)
    frame = load(run).similar_items(item, k)
    show(screen, frame, ["like"])
    screen.result({"run": str(run), "k": k, "similar": lists(frame, ["like"])})
