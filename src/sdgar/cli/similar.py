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

_SAID = {
    "vectors": "cosines of vectors",
    "weights": "weights between items: how much having the one speaks for the other",
}
"""What similarity goes by, in words for people."""


def similar(
    run: options.RunFolder,
    item: Annotated[
        list[str] | None, typer.Option("--item", help="Ask for this item; repeatable.")
    ] = None,
    user: Annotated[
        list[str] | None, typer.Option("--user", help="Ask for this user; repeatable.")
    ] = None,
    by: Annotated[
        str,
        typer.Option("--by", help="Compare by vectors or by weights between items; default: auto."),
    ] = "auto",
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
    lists = model.similar_lists(side, user or item or [], k, by=by, fallback=fallback)
    show(screen, lists, ["like"], titles)
    found = str(model.similar_by(side, by))
    screen.say("by", _SAID[found])
    screen.result({"run": str(run), "k": k, "by": found, "similar": lists.dicts(titles)})
