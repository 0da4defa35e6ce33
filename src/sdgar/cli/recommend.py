"""``sdgar recommend``: lists for some users, for all, or for new ones who have some items."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdgar.cli import options
from sdgar.cli.console import Screen
from sdgar.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

    from sdgar.data.interactions import Interactions
    from sdgar.data.readers import ReadOptions
    from sdgar.recommend.histories import Histories
    from sdgar.recommend.lists import Lists
    from sdgar.recommend.recommender import Recommender

_FILES = "Files of users"
_WHOM = (
    "say one of --user ID (repeatable), --users FILE, --all, --history ITEM,ITEM,… (repeatable) or "
    "--histories FILE."
)
_OF_FILES = (
    "user_column", "item_column", "time", "rating", "min_rating", "delimiter", "columns",
    "allow_bad_rows",
)  # fmt: skip
"""Options that only files of users look at."""


def recommend(
    context: typer.Context,
    run: options.RunFolder,
    user: Annotated[list[str] | None, typer.Option("--user", help="A user; repeatable.")] = None,
    users: Annotated[
        Path | None,
        typer.Option(
            "--users",
            metavar="FILE",
            help="A file of users: .txt with one a line, or a table with a column of users.",
        ),
    ] = None,
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
    histories: Annotated[
        list[Path] | None,
        typer.Option(
            "--histories",
            metavar="FILE",
            help="Events of new users, read as `sdgar train` reads them; repeatable.",
        ),
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
    fallback: Annotated[
        str,
        typer.Option(
            "--fallback",
            help="Users whom the model does not know get the popular items, or: skip, error.",
        ),
    ] = "popular",
    names: options.Names = None,
    name_column: options.NameColumn = None,
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
    user_column: Annotated[
        str | None,
        typer.Option("--user-column", help="Column of users.", rich_help_panel=_FILES),
    ] = None,
    item_column: Annotated[
        str | None,
        typer.Option("--item-column", help="Column of items.", rich_help_panel=_FILES),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option("--time-column", help="Column of times.", rich_help_panel=_FILES),
    ] = None,
    rating: Annotated[
        str | None,
        typer.Option("--rating-column", help="Column of ratings.", rich_help_panel=_FILES),
    ] = None,
    min_rating: options.MinRating = None,
    delimiter: options.Delimiter = None,
    columns: options.Header = None,
    allow_bad_rows: options.AllowBadRows = False,
    as_json: options.Json = False,
) -> None:
    """Recommend items that a user does not have yet."""
    from sdgar.arguments import one_of
    from sdgar.recommend.recommender import load
    from sdgar.recommend.unknown import FALLBACKS

    said = [bool(user), users is not None, everyone, bool(history), bool(histories)]
    if sum(said) != 1:
        raise UsageError(_WHOM, code="whom")
    one_of("fallback", fallback, FALLBACKS)
    given = options.given(context)
    unused = [given[name] for name in _OF_FILES if name in given]
    if unused and users is None and not histories:
        raise UsageError(
            f"{', '.join(unused)} goes with --users or --histories, which are files. Leave it out.",
            code="unused_option",
        )
    if out is not None:
        options.require_new_table(out, overwrite=overwrite)
    screen = Screen(as_json=as_json)
    model = load(run)
    titles = options.names_of(names, name_column)
    reading = options.reading_of(
        user=user_column, item=item_column, time=time, rating=rating, min_rating=min_rating,
        by_rule=False, delimiter=delimiter, columns=columns, allow_bad_rows=allow_bad_rows,
        duplicates="last",
    )  # fmt: skip
    new: Histories | None = named(history) if history else None
    if histories:
        new = _events(screen, histories, reading)
    asked = _asked(screen, model, user, users, fields, reading)
    who = ["user"] if new is not None else model.about.get("context", ["user"])
    pieces = model.lists_in_pieces(
        asked, k, histories=new, items=allow, exclude=exclude, exclude_seen=not include_seen,
        fallback=fallback,
    )  # fmt: skip
    told: list[dict[str, Any]] = []
    if out is not None:
        n_users = _number(model, asked, new)
        told = _write(screen, pieces, out, titles, n_users)
    else:
        for lists in pieces:
            show(screen, lists, who, titles)
            told += lists.dicts(titles) if as_json else []
    screen.result({"run": str(run), "k": k, "recommendations": told})


def _asked(
    screen: Screen,
    model: Recommender,
    user: list[str] | None,
    file: Path | None,
    fields: list[str] | None,
    reading: ReadOptions,
) -> list[Any] | None:
    """The users or contexts to answer; None for all of them, or for new ones."""
    from dataclasses import replace

    from sdgar.data.readers.id_tables import read_users

    names = () if model.fields is None else model.fields.names
    if file is not None:
        context = names if names and not fields else ("user",)
        with columns_named_here():
            found = read_users(file, replace(reading, context=context))
        screen.say("users", f"{file.name}: {len(found):,} users")
        return contexts_of(found, fields)
    if user and not fields and names:
        others = " ".join(f"--context {name}=…" for name in names if name != "user")
        raise UsageError(
            f"a context of this model is {', '.join(names)}: say {others} too.",
            code="bad_context",
        )
    return contexts_of(user, fields) or None


def _events(screen: Screen, files: list[Path], reading: ReadOptions) -> Interactions:
    """What new users have, from files of events."""
    from sdgar.data.readers import read_files

    with columns_named_here():
        loaded = read_files(files, reading)
    screen.loaded("new", loaded, ", ".join(file.name for file in files))
    return loaded.interactions


@contextmanager
def columns_named_here() -> Iterator[None]:
    """Let errors name the options that columns have where --user and --item are ids."""
    try:
        yield
    except UsageError as error:
        text = re.sub(r", --weight \S+ uses the rating as the weight", "", str(error))
        text = re.sub(r"--(user|item|time|rating)\b(?!-)", r"--\1-column", text)
        raise UsageError(text, code=error.code) from error


def _write(
    screen: Screen,
    pieces: Iterator[Lists],
    out: Path,
    titles: Mapping[str, str] | None,
    n_users: int,
) -> list[dict[str, Any]]:
    """Write one piece after the other; the lists are kept only where JSON is to show them."""
    from sdgar.data.tables import write_pieces

    told: list[dict[str, Any]] = []
    rows = 0

    def watched(advance: Callable[[int], None]) -> Iterator[pl.DataFrame]:
        nonlocal rows
        for lists in pieces:
            frame = lists.frame()
            rows += frame.height
            if screen.as_json:
                told.extend(lists.dicts(titles))
            yield with_names(frame, titles)
            advance(len(lists))

    with screen.counting("users", n_users) as advance:
        write_pieces(watched(advance), out)
    screen.say("saved", f"{rows:,} rows to {out}")
    return told


def _number(model: Recommender, asked: list[Any] | None, new: Any) -> int:
    """How many users are answered."""
    if new is not None:
        return len(new.users) if hasattr(new, "users") else len(new)
    return len(model.users) if asked is None else len(asked)


def contexts_of(users: list[Any] | None, fields: list[str] | None) -> list[Any]:
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
        raise UsageError("--context goes with --user or --users.", code="whom")
    return [{"user": user, **named} for user in users]


def named(histories: list[str]) -> dict[str, list[str]]:
    """Items of each new user: ``new``, or ``new 1``, ``new 2``, … if there are several."""
    lists = [[item for item in text.split(",") if item] for text in histories]
    if len(lists) == 1:
        return {"new": lists[0]}
    return {f"new {number}": items for number, items in enumerate(lists, 1)}


def show(
    screen: Screen,
    lists: Lists,
    keys: Sequence[str],
    titles: Mapping[str, str] | None = None,
) -> None:
    """Print a table for people, whose first columns are what was asked about."""
    if screen.as_json:
        return
    frame, what = lists.frame(), lists.what
    others = set(frame["basis"]) - {"model"}
    rows = [
        (
            *(str(row[key]) for key in keys),
            "-" if row["rank"] is None else str(row["rank"]),
            _found(row, what),
            *(() if titles is None else (_title(titles, row[what]),)),
            "" if row["score"] is None else f"{row['score']:.4f}",
            *((row["basis"],) if others else ()),
        )
        for row in frame.iter_rows(named=True)
    ]
    name = () if titles is None else ("name",)
    screen.table((*keys, "rank", what, *name, "score", *(("basis",) if others else ())), rows)


def with_names(frame: pl.DataFrame, titles: Mapping[str, str] | None) -> pl.DataFrame:
    """The frame with a column of names behind the items, if there are names."""
    if titles is None:
        return frame
    import polars as pl

    if "name" in frame.columns:
        raise UsageError(
            "a context of this model has a field called 'name', so that names of items cannot "
            "stand beside it. Leave out --names.",
            code="bad_option",
        )
    found = [_title(titles, item) or None for item in frame["item"].to_list()]
    place = frame.columns.index("item") + 1
    return frame.insert_column(place, pl.Series("name", found, dtype=pl.String))


def _found(row: Mapping[str, Any], what: str) -> str:
    if row[what] is not None:
        return str(row[what])
    return "unknown" if row["basis"] == "unknown" else "nothing left"


def _title(titles: Mapping[str, str], item: Any) -> str:
    """What an item is called; one without a name goes by its id."""
    return "" if item is None else titles.get(str(item), str(item))
