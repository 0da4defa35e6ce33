"""Order and rank whole numbers: faster than a comparison sort, with exactly its result.

NumPy sorts 64-bit numbers with vector instructions, but not when it is asked for their order. A
number and its place, packed into one word, are sorted as one number; the places then lie in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_WORD = 64
_SPREAD = 4
"""Ids are ranked by a table if it has at most so many places for each row, and a few more."""
_FEW = 1 << 16


def stable_order(number_N: NDArray[np.integer[Any]], end: int) -> NDArray[np.int64]:
    """Return ``np.argsort(number_N, kind="stable")`` for numbers from 0 to end - 1."""
    bits = len(number_N).bit_length()
    if (end - 1).bit_length() + bits > _WORD:
        return np.argsort(number_N, kind="stable")
    packed_N = number_N.astype(np.uint64)
    packed_N <<= np.uint64(bits)
    packed_N |= np.arange(len(number_N), dtype=np.uint64)
    packed_N.sort()
    packed_N &= np.uint64((1 << bits) - 1)
    return packed_N.view(np.int64)


def by_pair(
    first_N: NDArray[np.integer[Any]], second_N: NDArray[np.integer[Any]], ends: tuple[int, int]
) -> NDArray[np.int64]:
    """Return ``np.lexsort((second_N, first_N))`` for numbers from 0 to an end each."""
    pairs = ends[0] * ends[1]
    if (pairs - 1).bit_length() + len(first_N).bit_length() <= _WORD:
        return stable_order(first_N.astype(np.int64) * ends[1] + second_N, pairs)
    order = stable_order(second_N, ends[1])
    return order[stable_order(first_N[order], ends[0])]


def later_last(
    order_N: NDArray[np.int64],
    is_last_N: NDArray[np.bool_],
    key_N: NDArray[np.int64],
    time_N: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return ``np.lexsort((time_N, key_N))``, given the stable order of the keys alone.

    ``is_last_N`` marks in that order the last row of each key. Only rows whose key occurs more
    than once can change their places.
    """
    is_first_N = np.concatenate(([True], is_last_N[:-1]))
    at = np.flatnonzero(~(is_first_N & is_last_N))
    rows = order_N[at]
    order_N = order_N.copy()
    order_N[at] = rows[np.lexsort((time_N[rows], key_N[rows]))]
    return order_N


def ranked(ids_N: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return ``np.unique(ids_N, return_inverse=True)``.

    Integers that lie near each other need no sort: a table from lowest to highest marks those
    there are, and the rank of an id is the number of marks below it.
    """
    if ids_N.dtype.kind in "iu" and len(ids_N):
        lowest, highest = ids_N.min(), ids_N.max()
        places = int(highest) - int(lowest) + 1
        if places <= _SPREAD * len(ids_N) + _FEW:
            # A difference of narrow integers may be too large for their type, but not for 64 bits.
            wide = np.uint64 if ids_N.dtype.kind == "u" else np.int64
            place_N = (ids_N.astype(wide, copy=False) - wide(lowest)).astype(np.int64, copy=False)
            there_P = np.zeros(places, np.bool_)
            there_P[place_N] = True
            rank_P = np.cumsum(there_P, dtype=np.int64)
            rank_P -= 1
            distinct = (np.flatnonzero(there_P).astype(wide) + wide(lowest)).astype(ids_N.dtype)
            return distinct, rank_P[place_N]
    distinct, index_N = np.unique(ids_N, return_inverse=True)
    return distinct, index_N.astype(np.int64, copy=False)
