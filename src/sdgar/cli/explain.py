"""``sdgar explain``: the items of a history that speak most for each recommendation."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sdgar.cli import asked, options
from sdgar.cli.console import Screen
from sdgar.errors import UsageError

_NOTES = {
    "by_weights": "Shares by weights between items are exact.",
    "by_vectors": "Shares by vectors say how close an item of the history is to both the user and "
    "the item.",
}
"""The kinds of shares, and what each of them means."""


def explain(
    run: options.RunFolder,
    user: Annotated[str | None, typer.Option("--user", help="Explain it for this user.")] = None,
    fields: options.Fields = None,
    history: Annotated[
        str | None, typer.Option("--history", help="Explain it for a new user with items a,b,c.")
    ] = None,
    item: Annotated[
        list[str] | None,
        typer.Option("--item", help="Explain this item instead of the best ones; repeatable."),
    ] = None,
    k: options.ItemsEach = 5,
    reasons: options.HowManyReasons = 3,
    names: options.Names = None,
    name_column: options.NameColumn = None,
    as_json: options.Json = False,
) -> None:
    """Say which items of a user's history speak for each item, and how much."""
    from sdgar.recommend.recommender import load

    if (user is None) == (history is None):
        raise UsageError("say either --user ID or --history ITEM,ITEM,….", code="whom")
    screen = Screen(as_json=as_json)
    model = load(run)
    titles = options.names_of(names, name_column)
    whom: Any = None if user is None else asked.contexts_of([user], fields)[0]
    new = None if history is None else asked.named([history])["new"]
    found = model.explain_reasons(whom, item, history=new, k=k, reasons=reasons).dicts(titles)
    kinds = [k for k in _NOTES if any(r[k] for one in found for r in one["because"])]
    shown = kinds if len(kinds) > 1 else []  # one kind alone is the whole share
    for one in found:
        screen.say("item", f"{_said(one)}, score {one['score']:.4f}, because of")
        rows = [
            (_said(r), f"{r['share']:+.4f}", *(f"{r[kind]:+.4f}" for kind in shown))
            for r in one["because"]
        ]
        rows.append(("(all the rest)", f"{one['rest']:+.4f}", *("" for _ in shown)))
        if not as_json:
            screen.table(("history", "share", *(k.replace("_", " ") for k in shown)), rows)
    screen.say("note", " ".join(("shares add up to the score.", *(_NOTES[k] for k in kinds))))
    screen.result({"run": str(run), "explained": found})


def _said(one: dict[str, Any]) -> str:
    """Return the name of an item, or its id if there are no names."""
    return str(one.get("name", one["item"]))
