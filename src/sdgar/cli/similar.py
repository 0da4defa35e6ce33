"""``sdgar similar``: items, or users, whose vectors point the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sdgar.cli import options
from sdgar.cli.answers import show
from sdgar.cli.console import Screen
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.models.model import Side


def similar(
    run: options.RunFolder,
    item: Annotated[
        list[str] | None, typer.Option("--item", help="Ask for this item; repeatable.")
    ] = None,
    user: Annotated[
        list[str] | None, typer.Option("--user", help="Ask for this user; repeatable.")
    ] = None,
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
    side: Side = "user" if user else "item"
    lists = model.similar_lists(side, user or item or [], k, fallback=fallback)
    show(screen, lists, ["like"], titles)
    screen.result({"run": str(run), "k": k, "similar": lists.dicts(titles)})
