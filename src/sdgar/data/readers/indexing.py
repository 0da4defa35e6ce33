"""Build interactions from checked rows: ids become indices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sdgar.data import contexts
from sdgar.data.feedback import NotLikedPairs
from sdgar.data.ids import Ids, int_overflow
from sdgar.data.interactions import Interactions
from sdgar.data.read_options import USER, ReadOptions
from sdgar.data.readers.chunks import Table, spelled_integers
from sdgar.data.readers.cleaning import account_of, check_rows
from sdgar.data.readers.columns import FIELD, Columns
from sdgar.data.readers.problems import ProblemLog
from sdgar.maths.order import near_span, ranked


def to_interactions(
    table: Table,
    columns: Columns,
    options: ReadOptions,
    log: ProblemLog,
    *,
    untyped: bool,
) -> Interactions:
    """Sort out the rows, then turn ids into indices; add to ``log``.

    Ids of an untyped source are text that may spell integers.
    """
    rows = check_rows(table, columns, options)
    account = account_of(
        table.frame.height, rows.verdicts.values(), log, allow_bad_rows=options.allow_bad_rows
    )
    frame, is_kept, below = rows.frame, rows.is_kept, rows.is_seen
    kept = frame if is_kept.all() else frame.filter(is_kept)
    time_E = kept["time_us"].to_numpy() if columns.time else None
    if options.context == USER and below.any():
        # Users who rated all of theirs low are known too, with nothing to learn from.
        named = is_kept | below
        users, users_E = indexed(frame["user"].filter(named), columns.user, untyped)
        users_E = users_E[is_kept.filter(named).to_numpy()]
    else:
        users, users_E = indexed(kept["user"], columns.user, untyped)
    items, items_E = indexed(kept["item"], columns.item, untyped)
    people = users
    if options.context != USER:
        fields = {"user": users.at(users_E)}
        for name in options.context:
            if name in columns.fields:
                values, values_E = indexed(kept[FIELD + name], name, untyped)
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
    if not below.any() or (made.fields is not None and made.seen_by == "context"):
        return made
    rated = frame.filter(below)
    held = {"user": as_held(rated["user"], people.kind), "item": as_held(rated["item"], items.kind)}
    held["neutral"] = rows.is_neutral.filter(below)
    pairs = pl.DataFrame(held | ({"time": rated["time_us"]} if columns.time else {})).drop_nulls()
    seen_us = pairs["time"].to_numpy() if columns.time else None
    users_E, items_E, neutral_E = (pairs[n].to_numpy() for n in ("user", "item", "neutral"))
    disliked = NotLikedPairs(users_E, items_E, seen_us, neutral_E)
    if made.fields is not None:  # what one context of a user has seen, all of theirs have
        ids, first = np.unique(made.user_id_U, return_index=True)
        place = Ids(ids).index_of(disliked.users)
        disliked = disliked.where(place >= 0)
        disliked = replace(disliked, users=made.users.at(first[place[place >= 0]]))
    lost = made.items.index_of(disliked.items) < 0
    made = made.with_seen(disliked.users, disliked.items, disliked.time, disliked.neutral)
    return replace(made, not_liked_elsewhere=disliked.where(lost)) if lost.any() else made


def as_held(ids: pl.Series, kind: str) -> pl.Series:
    """Return ids in the type of the kept rows' ids; what cannot be one of them is missing."""
    if kind == "text":
        return ids.cast(pl.String)
    integers = ids.cast(pl.Int64 if kind == "int64" else pl.UInt64, strict=False)
    if ids.dtype != pl.String:
        return integers
    same = integers.cast(pl.String) == ids  # 007 is no 7
    return pl.select(pl.when(same).then(integers)).to_series()


def indexed(ids: pl.Series, column: str, untyped: bool) -> tuple[Ids, NDArray[np.integer[Any]]]:
    """Return the distinct ids in ascending order (by UTF-8 bytes), and the index of each row."""
    ids = _held(ids, column, untyped)
    if ids.dtype != pl.String:
        integers, index = _ranked(ids)
        return Ids(integers), index
    distinct, index = _ranked_texts(ids)
    return Ids(distinct.to_numpy().astype(object)), index


def _ranked(ids: pl.Series) -> tuple[NDArray[Any], NDArray[np.integer[Any]]]:
    """Return the distinct integers in ascending order, and the index of each row."""
    if near_span([chunk.to_numpy() for chunk in ids.get_chunks()]) is not None:
        return ranked(ids.to_numpy())
    distinct, index = _ranked_by_join(ids)
    return distinct.to_numpy(), index


def _ranked_texts(ids: pl.Series) -> tuple[pl.Series, NDArray[np.integer[Any]]]:
    """Return the distinct texts in ascending order (by UTF-8 bytes), and the index of each row.

    Rows are joined by the hashes of their texts, which takes half of the time that texts take. The
    result is then compared with the texts, because two texts can have one hash.
    """
    hashes = ids.hash()
    first = hashes.arg_unique()
    distinct, rank = _in_order(ids, first)
    index = _numbers_of(hashes, hashes.gather(first), rank)
    same = bool((distinct.gather(index) == ids).all())
    return (distinct, index) if same else _ranked_by_join(ids)


def _in_order(ids: pl.Series, rows: pl.Series) -> tuple[pl.Series, NDArray[np.int64]]:
    """Return the ids of some rows in ascending order, and the rank of each of these rows."""
    found = ids.gather(rows)
    order = found.arg_sort().to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return found.gather(order), rank


def _ranked_by_join(ids: pl.Series) -> tuple[pl.Series, NDArray[np.integer[Any]]]:
    """Return the distinct ids in ascending order, and the index of each row, whatever they are."""
    distinct = ids.unique().sort()
    return distinct, _numbers_of(ids, distinct, np.arange(len(distinct)))


def _numbers_of(
    ids: pl.Series, distinct: pl.Series, number: NDArray[np.integer[Any]]
) -> NDArray[np.integer[Any]]:
    """Return the number of each row's id."""
    # Polars counts rows by 32 bits, so there are no more ids than that.
    numbered = pl.DataFrame({"id": distinct, "number": number.astype(np.uint32)})
    rows = ids.to_frame("id").join(numbered, on="id", how="left", maintain_order="left")
    return rows["number"].to_numpy()


def _held(ids: pl.Series, column: str, untyped: bool) -> pl.Series:
    """Return integer ids as int64 or uint64; untyped text counts if all of it spells integers."""
    is_text = ids.dtype == pl.String
    if is_text and not untyped:
        return ids
    for dtype in (pl.Int64(), pl.UInt64()):
        if (integers := spelled_integers(ids, dtype)) is not None:
            return integers
    if is_text:
        return ids
    raise int_overflow(f"integer ids in column {column!r}")


def fits(ids: pl.Series, *, untyped: bool) -> tuple[bool, bool]:
    """Return whether all ids are integers of int64, and of uint64; untyped text may spell them."""
    if ids.dtype == pl.String and not untyped:
        return False, False
    signed, unsigned = (spelled_integers(ids, kind) for kind in (pl.Int64(), pl.UInt64()))
    return signed is not None, unsigned is not None
