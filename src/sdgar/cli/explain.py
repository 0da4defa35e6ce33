"""``sdgar explain`` and ``similar``: reasons for recommendations, and nearest items or users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from sdgar.cli.answers import show
from sdgar.cli.console import Screen
from sdgar.cli.options.option import Option
from sdgar.cli.options.shared import Json, NameOptions, RunFolder
from sdgar.cli.recommend import contexts_of, new_users
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.models.model import Side

_NOTES = {
    "by_weights": "Shares by weights between items are exact.",
    "by_vectors": "Shares by vectors are how close an item of the history is to both the user and "
    "the item.",
}
"""The kinds of shares, and what each of them means."""
_BY = {
    "vectors": "cosines of vectors",
    "weights": "weights between items: how much having one of them adds to the score of the other",
}
"""The kinds of similarity, in words for people."""


def explain(
    run: RunFolder,
    user: Annotated[str | None, Option("Explain it for this user.", "ID")] = None,
    context: Annotated[
        list[str] | None,
        Option(
            "Set another field of the context, such as daypart=evening; repeatable.", "FIELD=VALUE"
        ),
    ] = None,
    history: Annotated[
        str | None, Option("Explain it for a new user with these items.", "ITEM,ITEM,…")
    ] = None,
    item: Annotated[
        list[str] | None, Option("Explain this item instead of the best ones; repeatable.", "ID")
    ] = None,
    k: Annotated[int, Option("Explain so many items.", flag="-k")] = 5,
    reasons: Annotated[int, Option("Name so many items of the history for each item.")] = 3,
    *,
    names: NameOptions,
    as_json: Json = False,
) -> None:
    """Show how much each item of a user's history contributes to each recommendation."""
    from sdgar.recommend.recommender import load

    if (user is None) == (history is None):
        raise UsageError("say either --user ID or --history ITEM,ITEM,….", code="which_users")
    screen = Screen(as_json=as_json)
    model = load(run)
    titles = names.read()
    query: Any = None if user is None else contexts_of([user], context)[0]
    new = None if history is None else new_users([history])["new"]
    found = model.explain_reasons(query, item, history=new, k=k, reasons=reasons).dicts(titles)
    kinds = [k for k in _NOTES if any(r[k] for one in found for r in one["because"])]
    shown = kinds if len(kinds) > 1 else []  # one kind alone is the whole share
    for one in found:
        screen.say("item", f"{_name(one)}, score {one['score']:.4f}, because of")
        rows = [(_name(r), *(f"{r[k]:+.4f}" for k in ("share", *shown))) for r in one["because"]]
        rows.append(("(all the rest)", f"{one['rest']:+.4f}", *("" for _ in shown)))
        if not as_json:
            screen.table(("history", "share", *(k.replace("_", " ") for k in shown)), rows)
    screen.say("note", " ".join(("shares add up to the score.", *(_NOTES[k] for k in kinds))))
    screen.result({"run": str(run), "explained": found})


def _name(one: dict[str, Any]) -> str:
    """Return the name of an item, or its id if there are no names."""
    return str(one.get("name", one["item"]))


def similar(
    run: RunFolder,
    item: Annotated[
        list[str] | None, Option("Find items similar to this one; repeatable.", "ID")
    ] = None,
    user: Annotated[
        list[str] | None, Option("Find users similar to this one; repeatable.", "ID")
    ] = None,
    by: Annotated[
        str, Option("Compare vectors, or weights between items.", "auto|vectors|weights")
    ] = "auto",
    k: Annotated[int, Option("Show so many.", flag="-k")] = 10,
    fallback: Annotated[
        str,
        Option("Mark unknown ids, skip them, or refuse them with an error.", "mark|skip|error"),
    ] = "mark",
    *,
    names: NameOptions,
    as_json: Json = False,
) -> None:
    """Find the items most similar to an item, or the users most similar to a user."""
    from sdgar.recommend.recommender import load

    if bool(item) == bool(user):
        raise UsageError("say either --item ID or --user ID (repeatable).", code="which_users")
    if user and names.names is not None:
        raise UsageError("--names are names of items, and goes with --item.", code="unused_option")
    screen = Screen(as_json=as_json)
    model = load(run)
    titles = names.read()
    side: Side = "user" if user else "item"
    lists = model.similar_lists(side, user or item or [], k, by=by, fallback=fallback)
    show(screen, lists, ["like"], titles)
    found = str(model.similar_by(side, by))
    screen.say("by", _BY[found])
    screen.result({"run": str(run), "k": k, "by": found, "similar": lists.dicts(titles)})
