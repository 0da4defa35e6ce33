"""Options that say how files of events are read, and the record that readers take."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from sdgar.errors import UsageError, unknown_name

Reading = Any
"""The type ``ReadOptions``, which is not imported here, to keep ``sdgar --help`` quick."""

_COLUMNS = "Columns"

User = Annotated[
    str | None,
    typer.Option("--user-column", help="Name the column of users.", rich_help_panel=_COLUMNS),
]
Item = Annotated[
    str | None,
    typer.Option("--item-column", help="Name the column of items.", rich_help_panel=_COLUMNS),
]
Weight = Annotated[
    str | None,
    typer.Option(
        "--weight-column",
        help="Name the column of weights; without it every row counts once.",
        rich_help_panel=_COLUMNS,
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="HOW",
        help="Transform the weights: log, bm25, raw, or auto (raw, or log if they range widely).",
        rich_help_panel=_COLUMNS,
    ),
]
Time = Annotated[
    str | None,
    typer.Option("--time-column", help="Name the column of times.", rich_help_panel=_COLUMNS),
]
Rating = Annotated[
    str | None,
    typer.Option("--rating-column", help="Name the column of ratings.", rich_help_panel=_COLUMNS),
]
MinRating = Annotated[
    str | None,
    typer.Option(
        "--min-rating",
        help="Learn from ratings of at least this (default: 70% of the highest one); 'none' "
        "counts every row.",
        rich_help_panel=_COLUMNS,
    ),
]
Kind = Annotated[
    str | None,
    typer.Option(
        "--kind-column",
        help="Name the column of kinds of events, such as view and buy; 'none' looks at none.",
        rich_help_panel=_COLUMNS,
    ),
]
Kinds = Annotated[
    str | None,
    typer.Option(
        "--kinds",
        metavar="A,B",
        help="Learn from events of these kinds only; without it, from all but dislike, skip, hide, "
        "return and their like.",
        rich_help_panel=_COLUMNS,
    ),
]
DislikeKinds = Annotated[
    str | None,
    typer.Option(
        "--dislike-kinds",
        metavar="A,B",
        help="Take events of these kinds as dislikes too, beside dislike, skip, hide, return and "
        "their like.",
        rich_help_panel=_COLUMNS,
    ),
]
DislikeBelow = Annotated[
    float | None,
    typer.Option(
        "--dislike-below",
        metavar="NUMBER",
        help="Take ratings below this as dislikes, and those up to --min-rating as neither; "
        "without ratings, weights below this.",
        rich_help_panel=_COLUMNS,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        help="Set the separator of fields in text files: one character, tab or ::.",
        rich_help_panel=_COLUMNS,
    ),
]
Header = Annotated[
    str | None,
    typer.Option(
        "--columns",
        help="Name the columns of files without a header, as user,item,time.",
        rich_help_panel=_COLUMNS,
    ),
]
Duplicates = Annotated[
    str,
    typer.Option(
        "--duplicates",
        help="Choose what repeated pairs with different weights become: error, sum, max or last.",
        rich_help_panel=_COLUMNS,
    ),
]
Context = Annotated[
    str,
    typer.Option(
        "--context",
        help="Choose what lists are made for: user, or user and more fields, as user,city; hour, "
        "weekday and daypart come from the time.",
        rich_help_panel=_COLUMNS,
    ),
]
SeenBy = Annotated[
    str,
    typer.Option(
        "--seen-by",
        help="With fields in the context, leave out items that a user has in all contexts (user), "
        "or only in the context that has them (context).",
        rich_help_panel=_COLUMNS,
    ),
]
AllowBadRows = Annotated[
    bool,
    typer.Option(
        "--allow-bad-rows",
        help="Leave malformed rows out and count them, instead of refusing the file.",
        rich_help_panel=_COLUMNS,
    ),
]
MaxUncompressed = Annotated[
    str | None,
    typer.Option(
        "--max-uncompressed",
        metavar="BYTES",
        help="Limit what a gz, zst or Parquet file may unpack to, as 2000000000 or 8G; the default "
        "is the memory of this machine, at most 64G.",
        rich_help_panel=_COLUMNS,
    ),
]
Names = Annotated[
    Path | None,
    typer.Option(
        "--names",
        metavar="TABLE",
        help="Read what items are called from this table, and show names beside ids.",
    ),
]
NameColumn = Annotated[
    str | None,
    typer.Option("--name-column", help="Name the column of --names that holds the names."),
]


def _reading(
    user: User = None,
    item: Item = None,
    weight: Weight = None,
    weights: Weights = None,
    time: Time = None,
    rating: Rating = None,
    min_rating: MinRating = None,
    kind: Kind = None,
    kinds: Kinds = None,
    dislike_kinds: DislikeKinds = None,
    dislike_below: DislikeBelow = None,
    delimiter: Delimiter = None,
    columns: Header = None,
    duplicates: Duplicates = "error",
    fields: Context = "user",
    seen_by: SeenBy = "user",
    allow_bad_rows: AllowBadRows = False,
    max_uncompressed: MaxUncompressed = None,
) -> Reading:
    """Turn the options of one command into the record that readers take."""
    rules = ("error", "sum", "max", "last")
    if duplicates not in rules:
        raise unknown_name("duplicates rule", duplicates, rules)
    return reading_of(
        user=user,
        item=item,
        weight=weight,
        weights=weights,
        time=time,
        rating=rating,
        min_rating=min_rating,
        kind=kind,
        kinds=None if kinds is None else tuple(kinds.split(",")),
        dislike_kinds=None if dislike_kinds is None else tuple(dislike_kinds.split(",")),
        dislike_below=dislike_below,
        delimiter=delimiter,
        columns=columns,
        duplicates=duplicates,
        context=tuple(fields.split(",")),
        seen_by=seen_by,
        allow_bad_rows=allow_bad_rows,
        max_uncompressed=(
            None if max_uncompressed is None else bytes_of("--max-uncompressed", max_uncompressed)
        ),
    )


def reading_of(
    *, min_rating: str | None, columns: str | None, by_rule: bool = True, **others: Any
) -> Reading:
    """Make the record that readers take from options as they are written on a command line.

    Without ``by_rule``, ratings that no threshold is given for are refused.
    """
    from sdgar.data.readers import ReadOptions

    unsaid: Literal["auto", "unset"] = "auto" if by_rule else "unset"
    return ReadOptions(
        min_rating=unsaid if min_rating is None else _threshold(min_rating),
        header_columns=None if columns is None else tuple(columns.split(",")),
        **others,
    )


def names_of(table: Path | None, column: str | None) -> dict[str, str] | None:
    """Read what items are called, if a table says it."""
    from sdgar.data.readers import ReadOptions
    from sdgar.data.readers.tables import read_names

    if table is None:
        if column is not None:
            raise UsageError("--name-column goes with --names TABLE.", code="unused_option")
        return None
    return read_names(table, column, ReadOptions())


def reads_files(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of ``_reading``; it receives them as one record, ``reading``."""
    own = [p for p in inspect.signature(command).parameters.values() if p.name != "reading"]
    shared = list(inspect.signature(_reading).parameters.values())

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        reading = _reading(**{p.name: values.pop(p.name) for p in shared})
        command(reading=reading, **values)

    hints = get_type_hints(command, include_extras=True) | get_type_hints(
        _reading, include_extras=True
    )
    parameters = [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[p.name])
        for p in (*own, *shared)
    ]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapper


def bytes_of(option: str, text: str) -> int:
    """Return a number of bytes that is written as 2000000000, 8G or 800MiB."""
    found = re.fullmatch(r"(\d+)([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if found is None:
        raise UsageError(
            f"{option} must be a number of bytes, such as 8G, got {text!r}.",
            code="bad_option",
        )
    number, unit = found.groups()
    return int(number) << 10 * " KMGT".index(unit.upper() or " ")


def _threshold(text: str) -> float | None:
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise UsageError(
            f"--min-rating must be a number or 'none', got {text!r}.", code="bad_min_rating"
        ) from None
