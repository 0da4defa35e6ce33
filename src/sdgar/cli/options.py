"""Options that several commands share, and how they become records."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from sdgar.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from sdgar.cli.console import Screen
    from sdgar.systems.base import Estimator

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
    str | None,
    typer.Option(
        "--weight",
        help="Column of weights; without it every row counts once.",
        rich_help_panel=_COLUMNS,
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="HOW",
        help="What is made of them: log, bm25, raw, or auto (raw, or log if they range widely).",
        rich_help_panel=_COLUMNS,
    ),
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
        help="Learn from ratings of at least this (default: 70% of the highest one); 'none' "
        "counts every row.",
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
SeenBy = Annotated[
    str,
    typer.Option(
        "--seen-by",
        help="With fields in the context: items that a user has are left out in all contexts "
        "(user), or only where they have them (context).",
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
        metavar="RULE",
        help="Without --test: time (default with a time column), paper, leave-last-out, "
        "date:2024-03-01, users:0.1 (new users, folded in), none.",
    ),
]
Folds = Annotated[
    str | None,
    typer.Option(
        "--split",
        metavar="RULE",
        help="Without --test: time (default with a time column), paper, leave-last-out, "
        "date:2024-03-01, users:0.1 (new users, folded in), or several folds: windows:7d:3 (three "
        "windows of 7 days), folds:5.",
    ),
]
Engine = Annotated[str, typer.Option("--engine", help="auto, or an engine by name.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A hyper-parameter.")
]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="KIND@K",
        help="What is chosen by, such as recall@20: precision, recall, ndcg, mrr, map or hit; "
        "default ndcg@50.",
    ),
]
Dislikes = Annotated[
    bool,
    typer.Option(
        "--dislikes",
        help="Learn from rows below --min-rating too, as negatives; --set dislikes=0.2 says how "
        "often they are drawn.",
    ),
]
Explain = Annotated[
    bool, typer.Option("--explain-metrics", help="Say below the table what each metric means.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
Names = Annotated[
    Path | None,
    typer.Option(
        "--names",
        metavar="TABLE",
        help="A table of what items are called; names are shown beside their ids.",
    ),
]
NameColumn = Annotated[
    str | None, typer.Option("--name-column", help="Which column of --names holds the names.")
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a saved model.")]

DEFAULT_KS = (10, 20, 50)
_LONGEST_NAME = 220
"""Bytes of a name to which a run can add its own endings, of the 255 that file systems take."""
_MOST_SEEDS = 10_000
_DIGITS = 18
"""Those of numbers that fit into 64 bits."""
_LOOP = ("epochs", "evaluate_every", "patience", "early_stopping")
"""Settings of the loop, which the paper's protocol has its own of."""


def _reading(
    user: User = None,
    item: Item = None,
    weight: Weight = None,
    weights: Weights = None,
    time: Time = None,
    rating: Rating = None,
    min_rating: MinRating = None,
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
        delimiter=delimiter,
        columns=columns,
        duplicates=duplicates,
        context=tuple(fields.split(",")),
        seen_by=seen_by,
        allow_bad_rows=allow_bad_rows,
        max_uncompressed=None if max_uncompressed is None else _bytes(max_uncompressed),
    )


def reading_of(
    *, min_rating: str | None, columns: str | None, by_rule: bool = True, **others: Any
) -> Reading:
    """The record that readers take, from options as they are written on a command line.

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
    """What items are called, if a table says it."""
    from sdgar.data.readers import ReadOptions
    from sdgar.data.readers.id_tables import read_names

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


def folder_for_files(text: str | Path) -> Path:
    """The place of a folder that a command writes files into; it may be there already."""
    place = _place(text)
    if not place.is_dir() and place.exists():
        raise UsageError(
            f"--out {place} is a file, and a folder is needed. Choose another.", code="bad_out"
        )
    return place


def new_file(text: str | Path) -> Path:
    """The place of a file that a command writes."""
    place = _place(text)
    if place.is_dir():
        raise UsageError(
            f"{place} is a folder, and a file is needed. Add a name, such as "
            f"{place / 'lists.parquet'}.",
            code="bad_out",
        )
    return place


def _place(text: str | Path) -> Path:
    """A path in folders that are there or can be made; it is checked before any work is done."""
    place = Path(text)
    if not str(text).strip() or place == Path(place.anchor) != Path():
        raise UsageError(
            f"{str(text)!r} is no place to write to. Name one, such as runs/mine.", code="bad_out"
        )
    longest = max((part for part in (*place.parts, "")), key=lambda part: len(os.fsencode(part)))
    size = len(os.fsencode(longest))
    if size > _LONGEST_NAME or "\0" in str(place):
        raise UsageError(
            f"{longest[:40] + '…'!r} is too long for the name of a file or folder: it has {size:,} "
            f"bytes, and there is room for {_LONGEST_NAME}.",
            code="bad_out",
        )
    there = next((parent for parent in place.parents if parent.exists()), Path())
    if not there.is_dir():
        raise UsageError(
            f"{there} is a file, so that {place} cannot be in it. Choose another place.",
            code="bad_out",
        )
    return place


def require_new(file: Path, *, overwrite: bool) -> None:
    """Refuse a file that is there already, before any work is spent on it."""
    if file.exists() and not overwrite:
        raise UsageError(f"{file} exists. Choose another file, or --overwrite.", code="out_exists")


def require_new_table(file: Path, *, overwrite: bool) -> None:
    """The same for a table, whose format its name must tell."""
    from sdgar.data.tables import require_format

    require_format(file)
    require_new(file, overwrite=overwrite)


def given(context: typer.Context) -> dict[str, str]:
    """Options that were written out, by parameter: how they are called."""
    return {
        str(p.name): p.opts[0] if p.opts[0].startswith("-") else "TRAIN"
        for p in context.command.params
        if (source := context.get_parameter_source(str(p.name))) and source.name == "COMMANDLINE"
    }


def require_one_test(test: list[Path] | None, split: str | None) -> None:
    """Refuse test rows that are given and split off at the same time."""
    if test and split not in (None, "none"):
        raise UsageError(
            f"--split {split} splits test rows off, and --test gives some: leave one of them out.",
            code="split_and_test",
        )


def require_one_split(split: str | None, command: str, then: str) -> None:
    """Refuse a rule that gives several splits, where there is one model."""
    from sdgar.data.splits import is_several

    if is_several(split):
        raise UsageError(
            f"--split {split} gives several folds, and {command} {then} one. Measure on all of "
            f"them with sdgar compare --split {split}, or use a split such as date:2024-03-01.",
            code="several_folds",
        )


def require_heeded(
    said: Mapping[str, str],
    estimators: Sequence[Estimator],
    *,
    protocol: str = "validated",
    settings: Collection[str] = (),
    valid_is_searched: bool = False,
    metric_is_searched: bool = False,
) -> None:
    """Refuse options that no part of the command would look at."""
    systems = ", ".join(estimator.system_name for estimator in estimators)
    looked_at = () if metric_is_searched else ("metric",)
    for name in ("engine", "device", "checkpoint_every", *looked_at):
        asked = "epochs" if name == "checkpoint_every" else name
        if name in said and not any(asked in one.get_params() for one in estimators):
            raise UsageError(
                f"{said[name]} has no meaning for {systems}, which is computed at once. Leave it "
                "out.",
                code="unused_option",
            )
    if protocol != "paper":
        return
    if "valid" in said and not valid_is_searched:
        raise UsageError(
            "--valid has no meaning with --protocol paper, which chooses its epoch on test rows. "
            "Leave one of them out.",
            code="unused_option",
        )
    if "metric" in said and not metric_is_searched:
        raise UsageError(
            "--metric has no meaning with --protocol paper, which chooses its epoch by ndcg@50. "
            "Leave one of them out.",
            code="unused_option",
        )
    for key in settings:
        if key.rpartition(".")[2] in _LOOP:
            raise UsageError(
                f"--set {key} has no meaning with --protocol paper, which looks at test rows every "
                "5 epochs, 75 in all. Leave one of them out.",
                code="unused_option",
            )


def drawn_dislikes(dislikes: bool) -> dict[str, float]:
    """The setting that the option stands for, for systems that have it."""
    from sdgar.samplers.dislikes import DISLIKES

    return {"dislikes": DISLIKES} if dislikes else {}


def require_draws(screen: Screen, dislikes: bool, estimators: Sequence[Estimator]) -> None:
    """Refuse dislikes if no system draws negatives, and name those that pass them over."""
    ignore = [one.system_name for one in estimators if "dislikes" not in one.get_params()]
    if dislikes and len(ignore) == len(estimators):
        raise UsageError(
            f"--dislikes has no meaning for {', '.join(ignore)}, which draws no negatives. Leave "
            "it out.",
            code="unused_option",
        )
    if dislikes and ignore:
        screen.say("note", f"{', '.join(ignore)} draw no negatives and ignore dislikes")


def seeds_of(first: int, n: int) -> tuple[int, ...]:
    """The seeds from ``first`` upwards."""
    if not 1 <= n <= _MOST_SEEDS:
        raise UsageError(
            f"--seeds must be at least 1, got {n}."
            if n < 1
            else f"--seeds must be at most {_MOST_SEEDS:,}, got {n:,}.",
            code="no_seeds",
        )
    return tuple(range(first, first + n))


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
    wrong = [w for w in words if not w.isdecimal() or len(w) > _DIGITS or int(w) < 1]
    if wrong:
        raise UsageError(
            f"--k takes integers of at least 1 and {_DIGITS} digits, got {wrong[0][:40]!r}.",
            code="bad_k",
        )
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


def number(option: str, kind: type[int] | type[float]) -> Callable[[str | float], Any]:
    """How an option reads its number, and names what is none."""
    what = "an integer" if kind is int else "a number"

    def parse(text: str | float) -> Any:
        try:
            return kind(text)
        except ValueError:
            raise UsageError(
                f"{option} must be {what}, got {str(text)[:40]!r}.", code="bad_number"
            ) from None

    return parse


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
