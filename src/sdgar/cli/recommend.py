"""``sdgar recommend``: lists for some users, for all, or for someone new who has some items."""

from __future__ import annotations

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
    history: Annotated[
        list[str] | None,
        typer.Option("--history", help="A new user's items, as a,b,c; repeatable, one user each."),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Items a user.")] = 10,
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
        Path | None, typer.Option("-o", "--out", help="Write .csv, .tsv, .jsonl or .parquet.")
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
        options.require_new(out, overwrite=overwrite)
    screen = Screen(as_json=as_json)
    model = load(run)
    if history:
        model = model.fold_in(named(history))
    frame = model.recommend(
        user or None, k, items=allow, exclude=exclude, exclude_seen=not include_seen
    )
    if out is not None:
        from sdgar.data.tables import write_table

        write_table(frame, out)
        screen.say("saved", f"{frame.height:,} rows to {out}")
    else:
        show(screen, frame, "user")
    screen.result({"run": str(run), "k": k, "recommendations": lists(frame, "user")})


def named(histories: list[str]) -> dict[str, list[str]]:
    """Items of each new user: ``new``, or ``new 1``, ``new 2``, … if there are several."""
    lists = [[item for item in text.split(",") if item] for text in histories]
    if len(lists) == 1:
        return {"new": lists[0]}
    return {f"new {number}": items for number, items in enumerate(lists, 1)}


def show(screen: Screen, frame: pl.DataFrame, key: str) -> None:
    """A table for people."""
    if screen.as_json:
        return
    rows = [
        (
            str(row[key]),
            "-" if row["rank"] is None else str(row["rank"]),
            "nothing left" if row["item"] is None else str(row["item"]),
            "" if row["score"] is None else f"{row['score']:.4f}",
        )
        for row in frame.iter_rows(named=True)
    ]
    screen.table((key, "rank", "item", "score"), rows)


def lists(frame: pl.DataFrame, key: str) -> list[dict[str, Any]]:
    """The frame as one object a question, for JSON."""
    answers = []
    for asked, rows in groupby(frame.iter_rows(named=True), lambda row: row[key]):
        chosen = list(rows)
        items = [{"item": r["item"], "score": r["score"]} for r in chosen if r["item"] is not None]
        answers.append({key: asked, "items": items, "short": chosen[0]["short"]})
    return answers
