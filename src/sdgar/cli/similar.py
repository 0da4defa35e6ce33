"""``sdgar similar``: items, or users, whose vectors point the same way."""

from __future__ import annotations

from typing import Annotated

import typer

from sdgar.cli import options
from sdgar.cli.answers import lists, show
from sdgar.cli.console import Screen
from sdgar.errors import UsageError


def similar(
    run: options.RunFolder,
    item: Annotated[list[str] | None, typer.Option("--item", help="An item; repeatable.")] = None,
    user: Annotated[list[str] | None, typer.Option("--user", help="Or a user; repeatable.")] = None,
    k: options.HowMany = 10,
    fallback: options.Marking = "mark",
    names: options.Names = None,
    name_column: options.NameColumn = None,
    as_json: options.Json = False,
) -> None:
    """Find the items most similar to an item, or the users most similar to a user."""
    from sdgar.recommend.recommender import load

    if bool(item) == bool(user):
        raise UsageError("say either --item ID or --user ID (repeatable).", code="whom")
    if user and names is not None:
        raise UsageError("--names are names of items, and goes with --item.", code="unused_option")
    screen = Screen(as_json=as_json)
    model = load(run)
    titles = options.names_of(names, name_column)
    what = "user" if user else "item"
    frame = (
        model.similar_users(user, k, fallback=fallback)
        if user
        else model.similar_items(item or [], k, fallback=fallback)
    )
    show(screen, frame, ["like"], titles, what=what)
    found = lists(frame, ["like"], titles, what=what)
    screen.result({"run": str(run), "k": k, "similar": found})
