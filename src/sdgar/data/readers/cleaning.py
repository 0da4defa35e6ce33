"""Build interactions from raw columns: every row is kept, filtered or rejected for one reason."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sdgar.data import contexts, kinds, ratings
from sdgar.data.ids import MAX_BYTES, Ids, int_overflow
from sdgar.data.interactions import Interactions, RowAccount
from sdgar.data.order import ranked
from sdgar.data.readers.chunks import Table
from sdgar.data.readers.columns import FIELD, Columns, threshold_required
from sdgar.data.readers.known_names import Role
from sdgar.data.readers.options import ReadOptions
from sdgar.data.readers.problems import MAX_PLACES, BadRows, ProblemLog
from sdgar.data.readers.times import parse_times
from sdgar.errors import DataError

_FLOAT32 = np.finfo(np.float32)
_FLAGS = {"true": 1.0, "false": 0.0}
"""The values that a rating may have beside numbers."""


def with_threshold(table: Table, columns: Columns, options: ReadOptions) -> ReadOptions:
    """Return the options with the least rating that counts as a liking, taken from the ratings."""
    if options.min_rating != "auto" or columns.rating is None:
        return options
    rating_E = table.frame.select(_number(table.frame, "rating"))["rating"].drop_nulls().to_numpy()
    if len(rating_E) == 0:  # every rating is missing or no number, which is refused row by row
        return replace(options, min_rating=0.0)
    least = ratings.threshold(rating_E)
    if least is None:
        raise threshold_required(
            columns.rating,
            f"its highest value, {rating_E.max():g}, does not tell which are likings",
        )
    return replace(options, min_rating=least)


@dataclass(frozen=True, slots=True)
class _Check:
    """A reason to leave out a row, the column at fault, and the rows it applies to."""

    reason: str
    role: str
    applies: pl.Expr
    rejects: bool = True
    dislikes: bool = False


def to_interactions(
    table: Table,
    columns: Columns,
    options: ReadOptions,
    log: ProblemLog,
    notes: list[str],
    *,
    untyped: bool,
) -> Interactions:
    """Sort out the rows, then turn ids into indices; add to ``log`` and to ``notes``.

    Ids of an untyped source are text that may spell integers.
    """
    frame = _with_parsed(table.frame)
    checks = list(_checks(frame, options))
    verdict = frame.select(
        pl.coalesce(
            pl.when(check.applies).then(pl.lit(at, pl.UInt8)) for at, check in enumerate(checks)
        ).alias("verdict")
    )["verdict"]
    n_read = len(verdict) + sum(log.counts.values())
    filtered = _sort_out(verdict, checks, table, columns, log)
    if log.counts and not options.allow_bad_rows:
        raise BadRows(log.problems(), n_read)
    is_kept = verdict.is_null()
    kept = frame if is_kept.all() else frame.filter(is_kept)
    account = RowAccount(n_read, kept.height, filtered=filtered, rejected=dict(log.counts))
    if kept.is_empty():
        raise DataError(f"there is no row to learn from: {account.sentence()}.", code="no_rows")
    time_E = kept["time_us"].to_numpy() if columns.time else None
    low = [at for at, check in enumerate(checks) if check.dislikes]
    below = verdict.is_in(low).fill_null(value=False)
    # Users who rated all of theirs low are known too, with nothing to learn from.
    named = is_kept | below if options.context == contexts.USER else is_kept
    users, users_E = _index(frame["user"].filter(named), columns.user, untyped, notes)
    users_E = users_E[is_kept.filter(named).to_numpy()]
    items, items_E = _index(kept["item"], columns.item, untyped, notes)
    people = users
    if options.context != contexts.USER:
        fields = {"user": users.at(users_E)}
        for name in options.context:
            if name in columns.fields:
                values, values_E = _index(kept[FIELD + name], name, untyped, notes)
                fields[name] = values.at(values_E)
            elif name != "user":
                fields[name] = contexts.derived(name, time_E)
        users, users_E = contexts.combined({name: fields[name] for name in options.context})
    made = Interactions.from_indices(
        users,
        items,
        users_E,
        items_E,
        weight_E=kept["weight_number"].to_numpy() if columns.weight else None,
        time_E=time_E,
        duplicates=options.duplicates,
        account=account,
    )
    made = replace(made, context=options.context, seen_by=options.seen_by)
    if not low or (made.fields is not None and made.seen_by == "context"):
        return made
    rated = frame.filter(below)
    held = {"user": _as_held(rated["user"], people), "item": _as_held(rated["item"], items)}
    pairs = pl.DataFrame(held | ({"time": rated["time_us"]} if columns.time else {})).drop_nulls()
    seen_users, seen_items = pairs["user"].to_numpy(), pairs["item"].to_numpy()
    seen_times = pairs["time"].to_numpy() if columns.time else None
    if made.fields is not None:  # what one context of a user has seen, all of theirs have
        ids, first = np.unique(made.user_U, return_index=True)
        place = Ids(ids).index_of(seen_users)
        known = place >= 0
        seen_users, seen_items = made.users.at(first[place[known]]), seen_items[known]
        seen_times = None if seen_times is None else seen_times[known]
    return made.with_seen(seen_users, seen_items, seen_times)


def _as_held(ids: pl.Series, like: Ids) -> pl.Series:
    """Return ids in the type of the kept rows' ids; what cannot be one of them is missing."""
    if like.kind == "text":
        return ids.cast(pl.String)
    integers = ids.cast(pl.Int64 if like.kind == "int64" else pl.UInt64, strict=False)
    if ids.dtype != pl.String:
        return integers
    same = integers.cast(pl.String) == ids  # 007 is no 7
    return pl.select(pl.when(same).then(integers)).to_series()


def _with_parsed(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the numbers that the raw columns mean; an empty text is a missing value."""
    texts = [name for name, dtype in frame.schema.items() if dtype == pl.String]
    frame = frame.with_columns(
        pl.when(pl.col(name) != "").then(pl.col(name)).alias(name) for name in texts
    )
    for role in ("weight", "rating"):
        if role in frame.columns:
            frame = frame.with_columns(_number(frame, role).alias(f"{role}_number"))
    if "time" in frame.columns:
        times = parse_times(frame["time"])
        frame = frame.with_columns(
            times.micros.alias("time_us"), times.out_of_range.alias("time_odd")
        )
    return frame


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
            yield _Check("nul_byte", role, pl.col(role).str.contains("\0", literal=True))
    if "rating" in frame.columns:
        yield from _rating_checks()
    if "weight" in frame.columns:
        yield from _weight_checks(frame["weight"].dtype == pl.String)
    if "time" in frame.columns:
        yield _Check("missing_timestamp", "time", _missing(frame, "time"))
        yield _Check("timestamp_range", "time", pl.col("time_odd"))
        yield _Check("bad_timestamp", "time", pl.col("time_us").is_null())
    if "rating" in frame.columns:
        below = pl.col("rating_number") < options.min_rating
        yield _Check(
            f"rating_below_{options.min_rating:g}", "rating", below, rejects=False, dislikes=True
        )
    if "kind" in frame.columns:
        yield from _kind_checks(frame["kind"], options)
    if "weight" in frame.columns:
        yield _Check("zero_weight", "weight", pl.col("weight_number") == 0, rejects=False)


def _kind_checks(column: pl.Series, options: ReadOptions) -> Iterator[_Check]:
    """Yield the reasons to learn nothing from an event; one without a kind counts."""
    chosen = options.kinds
    against = [kind for kind in kinds.against(column.unique()) if kind not in (chosen or ())]
    is_against = pl.col("kind").is_in(against)
    yield _Check("negative_kind", "kind", is_against, rejects=False, dislikes=True)
    if chosen is not None:
        other = ~pl.col("kind").is_in(list(chosen)).fill_null(value=False)
        yield _Check("other_kind", "kind", other, rejects=False)


def _rating_checks() -> Iterator[_Check]:
    number = pl.col("rating_number")
    yield _Check("missing_rating", "rating", pl.col("rating").is_null())
    yield _Check("bad_rating", "rating", number.is_null() | ~number.is_finite())


def _weight_checks(is_text: bool) -> Iterator[_Check]:
    """Yield the reasons to reject a weight; weights become float32, so its limits are theirs."""
    number = pl.col("weight_number")
    too_small = (number > 0) & (number < float(_FLOAT32.tiny))
    if is_text:  # 1e-400 is read as 0, though it was not written as 0
        too_small |= (number == 0) & pl.col("weight").str.contains("^[^eE]*[1-9]")
    yield _Check("missing_weight", "weight", pl.col("weight").is_null())
    yield _Check("bad_weight", "weight", number.is_null())
    yield _Check("nonfinite_weight", "weight", ~number.is_finite() | (number > float(_FLOAT32.max)))
    yield _Check("negative_weight", "weight", number < 0)
    yield _Check("weight_underflow", "weight", too_small)


def _missing(frame: pl.DataFrame, role: Role) -> pl.Expr:
    column = pl.col(role)
    return column.is_null() | column.is_nan() if frame[role].dtype.is_float() else column.is_null()


def _sort_out(
    verdict: pl.Series, checks: list[_Check], table: Table, columns: Columns, log: ProblemLog
) -> dict[str, int]:
    """Log the rejected rows with their places; return the numbers of filtered rows by reason."""
    filtered = {}
    counts = dict(verdict.drop_nulls().value_counts().sort("verdict").iter_rows())
    for at, count in counts.items():
        check = checks[at]
        if not check.rejects:
            filtered[check.reason] = count
            continue
        rows = (verdict == at).arg_true().head(MAX_PLACES)
        column = columns.used[check.role]
        places = [table.place(row, check.role, column) for row in rows]
        log.add(check.reason, places, count)
    return filtered


def _index(
    ids: pl.Series, column: str, untyped: bool, notes: list[str]
) -> tuple[Ids, NDArray[np.integer[Any]]]:
    """Return the distinct ids in ascending order (by UTF-8 bytes), and the index of each row."""
    ids = _held(ids, column, untyped)
    if ids.dtype != pl.String:
        integers, index = ranked(ids.to_numpy())
        return Ids(integers), index
    distinct = ids.unique().sort()
    notes += _lookalikes(distinct, column)
    numbered = distinct.to_frame("id").with_row_index("index")
    rows = ids.to_frame("id").join(numbered, on="id", how="left", maintain_order="left")
    return Ids(distinct.to_numpy().astype(object)), rows["index"].to_numpy()


def _held(ids: pl.Series, column: str, untyped: bool) -> pl.Series:
    """Return integer ids as int64 or uint64; untyped text counts if all of it spells integers."""
    is_text = ids.dtype == pl.String
    if is_text and not untyped:
        return ids
    for dtype in (pl.Int64, pl.UInt64):
        integers = ids.cast(dtype, strict=False)
        # 007, +7 and -0 are read as integers, but do not come out as they went in.
        if integers.null_count() == 0 and (not is_text or (integers.cast(pl.String) == ids).all()):
            return integers
    if is_text:
        return ids
    raise int_overflow(f"integer ids in column {column!r}")


def _lookalikes(distinct: pl.Series, column: str) -> list[str]:
    """Return a note on ids that differ only in how Unicode composes the same characters."""
    spelled = distinct.filter(distinct.str.len_bytes() != distinct.str.len_chars())
    same = Counter(unicodedata.normalize("NFC", text) for text in spelled)
    pairs = sum(count - 1 for count in same.values())
    if not pairs:
        return []
    return [
        f"{pairs:,} pairs of ids in column {column!r} look the same and differ only in their "
        "Unicode form (NFC); they are kept as different ids."
    ]
