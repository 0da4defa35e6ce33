"""Options that several commands share, and how they become records."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from sdgar.errors import UsageError, unknown_name

Reading = Any
"""A ``ReadOptions``; the name is not imported here, to keep ``sdgar --help`` quick."""

DEFAULT_SYSTEM = "sdsoftmax"
"""What is trained when nobody says what."""

_COLUMNS = "Columns"

User = Annotated[
    str | None, typer.Option("--user", help="Column of users.", rich_help_panel=_COLUMNS)
]
Item = Annotated[
    str | None, typer.Option("--item", help="Column of items.", rich_help_panel=_COLUMNS)
]
Weight = Annotated[
    str | None, typer.Option("--weight", help="Column of weights.", rich_help_panel=_COLUMNS)
]
Time = Annotated[
    str | None, typer.Option("--time", help="Column of times.", rich_help_panel=_COLUMNS)
]
Rating = Annotated[
    str | None, typer.Option("--rating", help="Column of ratings.", rich_help_panel=_COLUMNS)
]
MinRating = Annotated[
    str | None,
    typer.Option(
        "--min-rating",
        help="Keep ratings of at least this; 'none' counts every row.",
        rich_help_panel=_COLUMNS,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        help="Field separator of text files: one character, tab or ::.",
        rich_help_panel=_COLUMNS,
    ),
]
Header = Annotated[
    str | None,
    typer.Option(
        "--columns",
        help="Column names of files without a header: user,item,time.",
        rich_help_panel=_COLUMNS,
    ),
]
Duplicates = Annotated[
    str,
    typer.Option(
        "--duplicates",
        help="Repeated pairs with different weights: error, sum, max or last.",
        rich_help_panel=_COLUMNS,
    ),
]
Context = Annotated[
    str,
    typer.Option(
        "--context",
        help="What is recommended for: user, or user and more fields, as user,city; hour, weekday "
        "and daypart come from the time.",
        rich_help_panel=_COLUMNS,
    ),
]
AllowBadRows = Annotated[
    bool,
    typer.Option(
        "--allow-bad-rows",
        help="Leave malformed rows out, counted, instead of refusing the load.",
        rich_help_panel=_COLUMNS,
    ),
]
MaxUncompressed = Annotated[
    str | None,
    typer.Option(
        "--max-uncompressed",
        metavar="BYTES",
        help="What a gz, zst or Parquet file may unpack to, as 2000000000 or 8G; default: the "
        "memory of this machine, at most 64G.",
        rich_help_panel=_COLUMNS,
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        parser=lambda text: _seed(text),
        metavar="INTEGER",
        help="Fixes everything that is drawn.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object as the last line of stdout.")]
Ks = Annotated[
    list[str] | None, typer.Option("--k", help="Length of the lists; repeatable, or 10,20,50.")
]
Train = Annotated[list[Path], typer.Argument(metavar="TRAIN…", help="Files of events.")]
Test = Annotated[list[Path] | None, typer.Option("--test", help="Held-out events.")]
Valid = Annotated[list[Path] | None, typer.Option("--valid", help="Validation events.")]
Protocol = Annotated[
    str, typer.Option("--protocol", help="validated, or paper (chooses its epoch on test).")
]
Split = Annotated[
    str | None,
    typer.Option(
        "--split",
        help="Without --test: time (default with a time column), paper, leave-last-out, none.",
    ),
]
Engine = Annotated[str, typer.Option("--engine", help="auto, or an engine by name.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A hyper-parameter.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a saved model.")]

DEFAULT_KS = (10, 20, 50)


def _reading(
    user: User = None,
    item: Item = None,
    weight: Weight = None,
    time: Time = None,
    rating: Rating = None,
    min_rating: MinRating = None,
    delimiter: Delimiter = None,
    columns: Header = None,
    duplicates: Duplicates = "error",
    fields: Context = "user",
    allow_bad_rows: AllowBadRows = False,
    max_uncompressed: MaxUncompressed = None,
) -> Reading:
    """Turn the options of one command into the record that readers take."""
    from sdgar.data.readers import ReadOptions

    rules = ("error", "sum", "max", "last")
    if duplicates not in rules:
        raise unknown_name("duplicates rule", duplicates, rules)
    return ReadOptions(
        user=user,
        item=item,
        weight=weight,
        time=time,
        rating=rating,
        min_rating="unset" if min_rating is None else _threshold(min_rating),
        delimiter=delimiter,
        header_columns=None if columns is None else tuple(columns.split(",")),
        duplicates=duplicates,  # type: ignore[arg-type]
        context=tuple(fields.split(",")),
        allow_bad_rows=allow_bad_rows,
        max_uncompressed=None if max_uncompressed is None else _bytes(max_uncompressed),
    )


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


def require_new(file: Path, *, overwrite: bool) -> None:
    """Refuse a file that is there already, before any work is spent on it."""
    if file.exists() and not overwrite:
        raise UsageError(f"{file} exists. Choose another file, or --overwrite.", code="out_exists")


def settings_of(texts: list[str] | None, common: Collection[str]) -> dict[str, str]:
    """KEY=VALUE pairs as a table; settings that have an option of their own are refused."""
    settings = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"--set takes KEY=VALUE, got {text!r}.", code="bad_setting")
        name = key.rpartition(".")[2]
        if name in common:
            raise UsageError(f"use --{name} rather than --set {key}=…", code="bad_setting")
        settings[key] = value
    return settings


def lists_of(texts: list[str] | None) -> tuple[int, ...]:
    """Lengths of the lists, each an integer of at least 1."""
    if not texts:
        return DEFAULT_KS
    words = ",".join(texts).split(",")
    wrong = [w for w in words if not w.isdecimal() or int(w) < 1]
    if wrong:
        raise UsageError(f"--k takes integers of at least 1, got {wrong[0]!r}.", code="bad_k")
    return tuple(dict.fromkeys(map(int, words)))


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if found is None:
        raise UsageError(
            f"--max-uncompressed must be a number of bytes, such as 8G, got {text!r}.",
            code="bad_option",
        )
    number, unit = found.groups()
    return int(number) << 10 * " KMGT".index(unit.upper() or " ")


def _seed(text: str | int) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(
            f"seed must be an integer from 0 to 2^64 - 1, got {text!r}.", code="bad_seed"
        ) from None


def _threshold(text: str) -> float | None:
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise UsageError(
            f"--min-rating must be a number or 'none', got {text!r}.", code="bad_min_rating"
        ) from None
