"""``sdgar recommend``: lists for some users, for all, or for someone new who has some items."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdgar.cli import options
from sdgar.cli.console import Screen
from sdgar.errors import UsageError

if TYPE_CHECKING:
    import polars as pl


def recommend(
    run: options.RunFolder,
    user: Annotated[list[str] | None, typer.Option("--user", help="A user; repeatable.")] = None,
    everyone: Annotated[bool, typer.Option("--all", help="All users of the model.")] = False,
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--context",
            metavar="FIELD=VALUE",
            help="Another field of the context, such as daypart=evening; repeatable.",
        ),
    ] = None,
    history: Annotated[
        list[str] | None,
        typer.Option("--history", help="A new user's items, as a,b,c; repeatable, one user each."),
    ] = None,
    k: Annotated[
        int,
        typer.Option(
            "-k", parser=options.number("-k", int), metavar="INTEGER", help="Items a user."
        ),
    ] = 10,
    allow: Annotated[
        list[str] | None, typer.Option("--allow", help="Only these items; repeatable.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", help="Not these items; repeatable.")
    ] = None,
    include_seen: Annotated[
        bool, typer.Option("--include-seen", help="Items the user has may come back.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            parser=options.new_file,
            metavar="FILE",
            help="Write .csv, .tsv, .jsonl or .parquet.",
        ),
    ] = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Recommend items that a user does not have yet."""
    from sdgar.recommender import load

    if bool(user) + everyone + bool(history) != 1:
        raise UsageError(
            "say either --user ID (repeatable), --all or --history ITEM,ITEM,… (repeatable).",
            code="whom",
        )
    if out is not None:
        options.require_new_table(out, overwrite=overwrite)
    screen = Screen(as_json=as_json)
    model = load(run)
    if user and not fields and model.fields is not None:
        others = " ".join(f"--context {name}=…" for name in model.fields.names if name != "user")
        raise UsageError(
            f"a context of this model is {', '.join(model.fields.names)}: say {others} too.",
            code="bad_context",
        )
    if history:
        model = model.fold_in(named(history))
    frame = model.recommend(
        contexts_of(user, fields) or None,
        k,
        items=allow,
        exclude=exclude,
        exclude_seen=not include_seen,
    )
    who = model.about.get("context", ["user"])
    if out is not None:
        from sdgar.data.tables import write_table

        write_table(frame, out)
        screen.say("saved", f"{frame.height:,} rows to {out}")
    else:
        show(screen, frame, who)
    screen.result({"run": str(run), "k": k, "recommendations": lists(frame, who)})


def contexts_of(users: list[str] | None, fields: list[str] | None) -> list[Any]:
    """The users; with other fields of their context, mappings."""
    if not fields:
        return list(users or [])
    named: dict[str, str] = {}
    for text in fields:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"--context takes FIELD=VALUE, got {text!r}.", code="bad_context")
        if name == "user" or name in named:
            raise UsageError(
                f"--context {text}: {name} is said already"
                f"{', by --user' if name == 'user' else ''}. Ask about one context at a time.",
                code="bad_context",
            )
        named[name] = value
    if not users:
        raise UsageError("--context goes with --user.", code="whom")
    return [{"user": user, **named} for user in users]


def named(histories: list[str]) -> dict[str, list[str]]:
    """Items of each new user: ``new``, or ``new 1``, ``new 2``, … if there are several."""
    lists = [[item for item in text.split(",") if item] for text in histories]
    if len(lists) == 1:
        return {"new": lists[0]}
    return {f"new {number}": items for number, items in enumerate(lists, 1)}


def show(screen: Screen, frame: pl.DataFrame, keys: Sequence[str]) -> None:
    """A table for people; the first columns are what was asked about."""
    if screen.as_json:
        return
    rows = [
        (
            *(str(row[key]) for key in keys),
            "-" if row["rank"] is None else str(row["rank"]),
            "nothing left" if row["item"] is None else str(row["item"]),
            "" if row["score"] is None else f"{row['score']:.4f}",
        )
        for row in frame.iter_rows(named=True)
    ]
    screen.table((*keys, "rank", "item", "score"), rows)


def lists(frame: pl.DataFrame, keys: Sequence[str]) -> list[dict[str, Any]]:
    """The frame as one object a question, for JSON."""
    answers = []
    for asked, rows in groupby(
        frame.iter_rows(named=True), lambda row: {key: row[key] for key in keys}
    ):
        chosen = list(rows)
        items = [{"item": r["item"], "score": r["score"]} for r in chosen if r["item"] is not None]
        answers.append({**asked, "items": items, "short": chosen[0]["short"]})
    return answers
