"""Order and rank whole numbers: faster than a comparison sort, with exactly its result.

NumPy sorts 64-bit numbers with vector instructions, but not when their order is requested. A
number and its place, packed into one word, are sorted as one number; the places then lie in order.

Rows of two numbers, and perhaps a time and a weight, are put in the order of both and of time:

    key_n = first_n · C + second_n

Millions of such rows are sorted by compiled kernels on all cores, and others by NumPy; both give
the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar import kernels
from sdgar.machine import cores

_WORD = 64
_SPREAD, _FEW = 4, 1 << 16
"""Ids are ranked by a table if it has fewer than so many places for each row, and a few more."""
_BUCKET_BITS = 10
"""The highest bits of a key, by which rows are put into buckets: as many as a core can write to at
once, and a bucket of millions of rows then fits in a cache."""
_DIGIT_BITS = 11
"""The most bits of a digit, whose counts fit in the nearest cache."""


def in_order(number_N: NDArray[np.int64], end: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ``np.argsort(number_N, kind="stable")`` for numbers from 0 to end - 1, and these.

    A number and its place are packed into one word, unless they need more than 64 bits.
    """
    bits = len(number_N).bit_length()
    if (end - 1).bit_length() + bits > _WORD:
        order_N = np.argsort(number_N, kind="stable")
        return order_N, number_N[order_N]
    packed_N = number_N.astype(np.uint64)
    packed_N <<= np.uint64(bits)
    packed_N |= np.arange(len(number_N), dtype=np.uint64)
    packed_N.sort()
    sorted_N = packed_N >> np.uint64(bits)
    packed_N &= np.uint64((1 << bits) - 1)
    return packed_N.view(np.int64), sorted_N.view(np.int64)


def ranked(ids_N: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return ``np.unique(ids_N, return_inverse=True)``.

    Integers that lie near each other need no sort: a table from lowest to highest marks those
    there are, and the rank of an id is the number of marks below it.
    """
    if (span := near_span([ids_N])) is None:
        distinct, index_N = np.unique(ids_N, return_inverse=True)
        return distinct, index_N.astype(np.int64, copy=False)
    lowest, highest = span
    # A difference of narrow integers may be too large for their type, but not for 64 bits.
    wide = np.uint64 if ids_N.dtype.kind == "u" else np.int64
    place_N = (ids_N.astype(wide, copy=False) - wide(lowest)).astype(np.int64, copy=False)
    there_P = np.zeros(int(highest) - int(lowest) + 1, np.bool_)
    there_P[place_N] = True
    distinct = (np.flatnonzero(there_P).astype(wide) + wide(lowest)).astype(ids_N.dtype)
    if len(distinct) == len(there_P):  # all between the lowest and the highest are there
        return distinct, place_N
    rank_P = np.cumsum(there_P, dtype=np.int64)
    rank_P -= 1
    return distinct, rank_P[place_N]


def near_span(parts: Sequence[NDArray[Any]]) -> tuple[Any, Any] | None:
    """Return the lowest and the highest id, if a table from one to the other is not too large.

    None stands for ids that lie far from each other, or are no integers.
    """
    full = [ids_N for ids_N in parts if len(ids_N)]
    if not full or full[0].dtype.kind not in "iu":
        return None
    lowest, highest = min(ids_N.min() for ids_N in full), max(ids_N.max() for ids_N in full)
    is_near = int(highest) - int(lowest) < _SPREAD * sum(map(len, full)) + _FEW
    return (lowest, highest) if is_near else None


class SortedRows(NamedTuple):
    """Rows sorted by key, then by time; rows with equal keys and times keep their order."""

    key_E: NDArray[np.int64]
    """The key of each row."""
    time_E: NDArray[np.int64] | None
    """The time of each row, if there are times."""
    weight_E: NDArray[np.float64] | None
    """The weight of each row, if there are weights."""

    @property
    def is_last_E(self) -> NDArray[np.bool_]:
        """True for the last row of each key."""
        return np.append(self.key_E[1:] != self.key_E[:-1], True)


class DistinctPairs(NamedTuple):
    """The different pairs (r, column_F[f]) of row r: f = start_R1[r] … start_R1[r + 1] - 1."""

    start_R1: NDArray[np.int64]
    """The entries of row r are ``start_R1[r]`` to ``start_R1[r + 1] - 1``."""
    column_F: NDArray[np.int32]
    """The second number of each pair."""
    time_F: NDArray[np.int64] | None
    """The latest time of each pair, if there are times."""


def sorted_rows(
    first_N: NDArray[np.integer[Any]],
    second_N: NDArray[np.integer[Any]],
    ends: tuple[int, int],
    time_N: NDArray[np.int64] | None = None,
    weight_N: NDArray[np.float64] | None = None,
) -> SortedRows:
    """Sort rows whose numbers go from 0 to an end each; C = ends[1]."""
    if len(first_N) >= kernels.MANY_ROWS:
        return _sorted_by_kernels(first_N, second_N, ends, time_N, weight_N)
    key_N = first_N.astype(np.int64) * ends[1] + second_N.astype(np.int64, copy=False)
    order_E, key_E = in_order(key_N, ends[0] * ends[1])
    if time_N is not None and not (is_last_E := SortedRows(key_E, None, None).is_last_E).all():
        # Only rows whose key occurs more than once can change their places.
        at = np.flatnonzero(~(is_last_E & np.append(True, is_last_E[:-1])))
        rows = order_E[at]
        order_E[at] = rows[np.lexsort((time_N[rows], key_E[at]))]
    return SortedRows(
        key_E,
        None if time_N is None else time_N[order_E],
        None if weight_N is None else weight_N[order_E],
    )


def distinct_pairs(rows: SortedRows, ends: tuple[int, int]) -> DistinctPairs:
    """Keep the last row of each key."""
    if len(rows.key_E) >= kernels.MANY_ROWS:
        return _distinct_by_kernels(rows, ends)
    is_last_E = rows.is_last_E
    key_F = rows.key_E[is_last_E]
    least_R1 = np.arange(ends[0] + 1) * ends[1]
    start_R1 = np.searchsorted(key_F, least_R1)
    column_F = key_F - np.repeat(least_R1[:-1], np.diff(start_R1))
    time_F = None if rows.time_E is None else rows.time_E[is_last_E]
    return DistinctPairs(start_R1, column_F.astype(np.int32), time_F)


def _sorted_by_kernels(
    first_N: NDArray[np.integer[Any]],
    second_N: NDArray[np.integer[Any]],
    ends: tuple[int, int],
    time_N: NDArray[np.int64] | None,
    weight_N: NDArray[np.float64] | None,
) -> SortedRows:
    from sdgar.kernels.numba import pairs
    from sdgar.kernels.numba.threads import run

    highest, threads = ends[0] * ends[1] - 1, cores.threads()
    shift = max(0, highest.bit_length() - _BUCKET_BITS)
    n_buckets = (highest >> shift) + 1
    n_digits = -(-shift // _DIGIT_BITS) // 2 * 2 + 1
    bits = -(-shift // n_digits)
    columns = [_or_none(column) for column in (time_N, weight_N)]
    others, sorted_ = (
        [np.empty(len(first_N), np.int64), *map(np.empty_like, columns)] for _ in range(2)
    )
    run(
        pairs.sort,
        threads,
        np.ascontiguousarray(first_N),
        np.ascontiguousarray(second_N),
        *columns,
        ends[1],
        shift,
        bits,
        np.zeros((threads, n_buckets), np.int64),
        np.empty(n_buckets + 1, np.int64),
        np.empty((threads, n_digits, 1 << bits), np.int64),
        *others,
        *sorted_,
    )
    key_E, time_E, weight_E = sorted_
    return SortedRows(
        key_E, None if time_N is None else time_E, None if weight_N is None else weight_E
    )


def _distinct_by_kernels(rows: SortedRows, ends: tuple[int, int]) -> DistinctPairs:
    from sdgar.kernels.numba import pairs
    from sdgar.kernels.numba.threads import run

    threads = cores.threads()
    time_E = _or_none(rows.time_E)
    kept_T = np.zeros(threads, np.int64)
    run(pairs.count, threads, rows.key_E, kept_T)
    n_pairs = int(kept_T.sum())
    start_R1, column_F = np.empty(ends[0] + 1, np.int64), np.empty(n_pairs, np.int32)
    time_F = np.empty(min(n_pairs, len(time_E)), np.int64)
    run(pairs.rows, threads, rows.key_E, time_E, ends[1], kept_T, start_R1, column_F, time_F)
    return DistinctPairs(start_R1, column_F, None if rows.time_E is None else time_F)


def _or_none(column_N: NDArray[Any] | None) -> NDArray[Any]:
    """Return a column as the kernels take it: an empty one stands for none."""
    return np.empty(0, np.int64) if column_N is None else np.ascontiguousarray(column_N)
