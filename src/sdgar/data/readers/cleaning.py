"""Check the rows of an input: every row is kept, filtered or rejected for one reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sdgar.data import feedback
from sdgar.data.building import RowAccount
from sdgar.data.ids import MAX_BYTES
from sdgar.data.read_options import ReadOptions
from sdgar.data.readers.chunks import Table
from sdgar.data.readers.columns import FIELD, Columns, Role, threshold_required
from sdgar.data.readers.problems import MAX_PLACES, BadRows, ProblemLog, RowPlace
from sdgar.data.readers.times import TimeForm, parse_times
from sdgar.errors import DataError

_FLOAT32 = np.finfo(np.float32)
_FLAGS = {"true": 1.0, "false": 0.0}
"""The values that a rating may have besides numbers."""


def ratings_of(frame: pl.DataFrame) -> NDArray[np.float64]:
    """Return the ratings of a frame that are numbers."""
    return frame.select(_number(frame, "rating"))["rating"].drop_nulls().to_numpy()


def with_threshold(
    columns: Columns,
    options: ReadOptions,
    rating_E: NDArray[np.float64],
    count_E: NDArray[np.int64] | None = None,
) -> ReadOptions:
    """Return the options with the least positive rating, found from the ratings.

    ``count_E`` is the number of times that each rating was given; None stands for once.
    """
    if len(rating_E) == 0:  # every rating is missing or no number, which is refused row by row
        return replace(options, min_rating=max(0.0, options.dislike_below or 0.0))
    least = feedback.rating_threshold(rating_E, count_E)
    if least is None:
        raise threshold_required(
            str(columns.rating),
            f"its highest value, {rating_E.max():g}, does not show which are positive",
        )
    return replace(options, min_rating=least)


def needs_threshold(columns: Columns, options: ReadOptions) -> bool:
    """Return whether the least positive rating is found from the ratings."""
    return options.min_rating == "auto" and columns.rating is not None


@dataclass(frozen=True, slots=True)
class _Check:
    """A reason to leave out a row, the column at fault, and the rows it applies to."""

    reason: str
    role: str
    applies: pl.Expr
    rejects: bool = True
    known: bool = False  # the item is not recommended to the user again
    dislikes: bool = False  # it also counts against the item


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of some rows for one reason."""

    reason: str
    """The reason, a stable word for machines."""
    count: int
    """The number of rows."""
    rejects: bool
    """True if such rows cannot be used, False if they are left out on request."""
    places: tuple[RowPlace, ...] = ()
    """The first places, of rows that cannot be used."""


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """Rows with the numbers that their columns mean, and what becomes of each."""

    frame: pl.DataFrame
    """The rows; ``weight_number`` and ``time_us`` are what weights and times mean."""
    is_kept: pl.Series
    """True for the rows to learn from."""
    is_seen: pl.Series
    """True for the rows of items that are known to the user and disliked."""
    is_neutral: pl.Series
    """True for the rows of ``is_seen`` that do not count against the item."""
    verdicts: dict[int, Verdict]
    """The rows that are left out, by the number of the reason, which ascends."""


def check_rows(
    table: Table, columns: Columns, options: ReadOptions, form: TimeForm | None = None
) -> CheckedRows:
    """Return what becomes of each row.

    ``form`` is the form of all times, if the table has only some rows of an input.
    """
    frame = _with_parsed(table.frame, form)
    checks = list(_checks(frame, options))
    verdict = _verdicts(frame, checks)
    known = [at for at, check in enumerate(checks) if check.known]
    neutral = [at for at in known if not checks[at].dislikes]
    return CheckedRows(
        frame,
        verdict.is_null(),
        verdict.is_in(known).fill_null(value=False),
        verdict.is_in(neutral).fill_null(value=False),
        dict(_left_out(verdict, checks, table, columns)),
    )


def _verdicts(frame: pl.DataFrame, checks: list[_Check]) -> pl.Series:
    """Return the number of the first check that applies to each row; it is missing if none does."""
    # To ask if any row is at fault costs next to nothing, and most often none is.
    found = frame.select(check.applies.any().alias(str(at)) for at, check in enumerate(checks))
    at_fault = [at for at in range(len(checks)) if found[str(at)].item()]
    if not at_fault:
        return pl.repeat(None, frame.height, dtype=pl.UInt8, eager=True).alias("verdict")
    first = pl.coalesce(pl.when(checks[at].applies).then(pl.lit(at, pl.UInt8)) for at in at_fault)
    return frame.select(first.alias("verdict"))["verdict"]


def account_of(
    n_rows: int, verdicts: Iterable[Verdict], log: ProblemLog, *, allow_bad_rows: bool
) -> RowAccount:
    """Return the account of rows that were read; raise if some cannot be used and that is not fine.

    ``log`` has what could not be read as a row.
    """
    n_read = n_rows + sum(log.counts.values())
    filtered: dict[str, int] = {}
    for verdict in verdicts:
        if verdict.rejects:
            log.add(verdict.reason, verdict.places, verdict.count)
        else:
            filtered[verdict.reason] = filtered.get(verdict.reason, 0) + verdict.count
    if log.counts and not allow_bad_rows:
        raise BadRows(log.problems(), n_read)
    kept = n_read - sum(filtered.values()) - sum(log.counts.values())
    account = RowAccount(n_read, kept, filtered=filtered, rejected=dict(log.counts))
    if not kept:
        raise DataError(f"there is no row to learn from: {account.sentence()}.", code="no_rows")
    return account


def _with_parsed(frame: pl.DataFrame, form: TimeForm | None) -> pl.DataFrame:
    """Add the numbers that the raw columns mean."""
    frame = without_empty(frame)
    for role in ("weight", "rating"):
        if role in frame.columns:
            frame = frame.with_columns(_number(frame, role).alias(f"{role}_number"))
    if "time" in frame.columns:
        micros, odd = parse_times(frame["time"], form)
        frame = frame.with_columns(micros.alias("time_us"), odd.alias("time_odd"))
    return frame


def without_empty(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame in which an empty text is a missing value."""
    texts = [name for name, dtype in frame.schema.items() if dtype == pl.String]
    emptied = [name for name in texts if (frame[name] == "").any()]
    return frame.with_columns(
        pl.when(pl.col(name) != "").then(pl.col(name)).alias(name) for name in emptied
    )


def _number(frame: pl.DataFrame, role: str) -> pl.Expr:
    """Return the number that a weight or a rating means; it is missing if it means none."""
    number = pl.col(role).cast(pl.Float64, strict=False)
    if role == "rating" and frame[role].dtype == pl.String:
        flags = pl.col(role).str.to_lowercase().replace_strict(_FLAGS, default=None)
        return number.fill_null(flags)
    return number


def _checks(frame: pl.DataFrame, options: ReadOptions) -> Iterator[_Check]:
    """Yield the reasons to leave a row out; the first that applies is the one that counts."""
    yield _Check("missing_user", "user", pl.col("user").is_null())
    yield _Check("missing_item", "item", pl.col("item").is_null())
    fields = [role for role in frame.columns if role.startswith(FIELD)]
    for role in fields:
        yield _Check("missing_field", role, pl.col(role).is_null())
    for role in ("user", "item", *fields):
        if frame[role].dtype == pl.String:
            yield _Check("id_too_long", role, pl.col(role).str.len_bytes() > MAX_BYTES)
            # In bytes, Polars finds a character faster than in text.
            yield _Check("nul_byte", role, pl.col(role).cast(pl.Binary).bin.contains(b"\0"))
    low, rated = options.dislike_below, "rating" in frame.columns
    if rated:
        number = pl.col("rating_number")
        yield _Check("missing_rating", "rating", pl.col("rating").is_null())
        yield _Check("bad_rating", "rating", number.is_null() | ~number.is_finite())
    if "weight" in frame.columns:
        yield from _weight_checks(frame["weight"].dtype == pl.String, None if rated else low)
    if "time" in frame.columns:
        yield _Check("missing_timestamp", "time", _missing(frame, "time"))
        yield _Check("timestamp_range", "time", pl.col("time_odd"))
        yield _Check("bad_timestamp", "time", pl.col("time_us").is_null())
    if rated:
        yield _below("rating", options.min_rating if low is None else low, dislikes=True)
    elif low is not None:
        yield _below("weight", low, dislikes=True)
    if "kind" in frame.columns:
        yield from _kind_checks(frame["kind"], options)
    if rated and low is not None:
        yield _below("rating", options.min_rating, dislikes=False)
    if "weight" in frame.columns:
        yield _Check("zero_weight", "weight", pl.col("weight_number") == 0, rejects=False)


def _below(role: str, least: Any, *, dislikes: bool) -> _Check:
    """Return the reason not to learn from a low rating or a low weight."""
    low, reason = pl.col(f"{role}_number") < least, f"{role}_below_{least:g}"
    return _Check(reason, role, low, rejects=False, known=True, dislikes=dislikes)


def _kind_checks(column: pl.Series, options: ReadOptions) -> Iterator[_Check]:
    """Yield the reasons to learn nothing from an event; one without a kind counts."""
    chosen = options.kinds
    found = feedback.negative_kinds(column.unique(), options.dislike_kinds)
    against = [kind for kind in found if kind not in (chosen or ())]
    is_against = pl.col("kind").is_in(against)
    yield _Check("negative_kind", "kind", is_against, rejects=False, known=True, dislikes=True)
    if chosen is not None:
        other = ~pl.col("kind").is_in(list(chosen)).fill_null(value=False)
        yield _Check("other_kind", "kind", other, rejects=False)


def _weight_checks(is_text: bool, low: float | None) -> Iterator[_Check]:
    """Yield the reasons to reject a weight; weights become float32, so its limits are theirs.

    A weight below ``low`` is not learned from, so that it may be negative.
    """
    number = pl.col("weight_number")
    too_small = (number > 0) & (number < float(_FLOAT32.tiny))
    if is_text:  # 1e-400 is read as 0, though it was not written as 0
        too_small |= (number == 0) & pl.col("weight").str.contains("^[^eE]*[1-9]")
    yield _Check("missing_weight", "weight", pl.col("weight").is_null())
    yield _Check("bad_weight", "weight", number.is_null())
    yield _Check("nonfinite_weight", "weight", ~number.is_finite() | (number > float(_FLOAT32.max)))
    is_learned = pl.lit(True) if low is None else number >= low
    yield _Check("negative_weight", "weight", (number < 0) & is_learned)
    yield _Check("weight_underflow", "weight", too_small)


def _missing(frame: pl.DataFrame, role: Role) -> pl.Expr:
    column = pl.col(role)
    return column.is_null() | column.is_nan() if frame[role].dtype.is_float() else column.is_null()


def _left_out(
    verdict: pl.Series, checks: list[_Check], table: Table, columns: Columns
) -> Iterator[tuple[int, Verdict]]:
    """Yield the rows that are left out by reason, with the first places of bad rows."""
    counts = dict(verdict.drop_nulls().value_counts().sort("verdict").iter_rows())
    for at, count in counts.items():
        check = checks[at]
        rows = (verdict == at).arg_true().head(MAX_PLACES) if check.rejects else []
        column = columns.used[check.role]
        places = tuple(table.place(row, check.role, column) for row in rows)
        yield at, Verdict(check.reason, count, check.rejects, places)
