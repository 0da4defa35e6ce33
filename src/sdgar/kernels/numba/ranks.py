"""Number the different values of a column; see ``maths/ranks.py``.

A table of C places holds each value that was met, with its number plus 1; a place with 0 is free.

    place of a value = the first one from hash(value) mod C on that is free or holds the value

C is a power of two, and at most half of the places are taken. Of some rows ahead the places are
asked for before they are looked at: a table of millions of values is in no cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sdgar.kernels.compiled import inlined, inner, outer
from sdgar.kernels.numba.threads import prefetch

AHEAD = 16
"""The rows whose places are asked for at once."""
_FACTORS = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_HALF = np.uint64(33)


@outer
def mark(id_N: Any, lowest: Any, there_P: Any) -> Any:
    """Mark the places of integer ids from the lowest on."""
    for n in range(len(id_N)):
        place = np.int64(id_N[n] - lowest)
        if not there_P[place]:  # other threads mark too, and need not fetch the line again
            there_P[place] = True
    return None


@outer
def look_up(id_N: Any, lowest: Any, number_P: Any, index_N: Any) -> Any:
    """index_n = number of the place of id n."""
    for n in range(len(id_N)):
        index_N[n] = number_P[np.int64(id_N[n] - lowest)]
    return None


@outer
def subtract(id_N: Any, lowest: Any, index_N: Any) -> Any:
    """index_n = id_n - lowest."""
    for n in range(len(id_N)):
        index_N[n] = np.uint32(id_N[n] - lowest)
    return None


@inlined
def _hash(word_NW: Any, n: Any, seed: Any) -> Any:
    """Mix all bits of a value, by the last steps of MurmurHash3."""
    mixed = seed
    for w in range(word_NW.shape[1]):
        mixed ^= word_NW[n, w]
        mixed = (mixed ^ (mixed >> _HALF)) * _FACTORS[0]
        mixed = (mixed ^ (mixed >> _HALF)) * _FACTORS[1]
    return mixed ^ (mixed >> _HALF)


@inner
def _place(word_NW: Any, n: Any, start: Any, table_CV: Any) -> Any:
    """Return the place of a value from a start on: where it is, or where it can be put."""
    last, width = len(table_CV) - 1, word_NW.shape[1]
    place = np.int64(start)
    while table_CV[place, width] != 0:
        same = True
        for w in range(width):
            same &= table_CV[place, w] == word_NW[n, w]
        if same:
            break
        place = (place + 1) & last
    return place


@outer
def number(
    word_NW: Any, first: Any, before: Any, seed: Any, table_CV: Any, size_1: Any, row_D: Any,
    start_A: Any, index_N: Any,
) -> Any:  # fmt: skip
    """Number rows from a first one on by their values; stop when half of the table is taken.

    ``size_1`` has the count of values so far, and ``row_D`` gets the row of each new one, counted
    with the rows of the parts before. The first row that is left is returned.
    """
    width, mask = word_NW.shape[1], np.uint64(len(table_CV) - 1)
    address, row_bytes = np.uint64(table_CV.ctypes.data), np.uint64(8 * (word_NW.shape[1] + 1))
    most = len(table_CV) // 2
    while first < len(word_NW) and size_1[0] + AHEAD <= most:
        end = min(first + AHEAD, len(word_NW))
        for n in range(first, end):
            start = _hash(word_NW, n, seed) & mask
            start_A[n - first] = start
            prefetch(address + start * row_bytes)
        for n in range(first, end):
            place = _place(word_NW, n, start_A[n - first], table_CV)
            if table_CV[place, width] == 0:
                for w in range(width):
                    table_CV[place, w] = word_NW[n, w]
                row_D[size_1[0]] = before + n
                size_1[0] += 1
                table_CV[place, width] = size_1[0]
            index_N[n] = table_CV[place, width] - np.uint64(1)
        first = end
    return first


@outer
def move(from_CV: Any, seed: Any, table_CV: Any) -> Any:
    """Put all values of a table into a larger one."""
    width, mask = from_CV.shape[1] - 1, np.uint64(len(table_CV) - 1)
    word_CW = from_CV[:, :width]
    for c in range(len(from_CV)):
        if from_CV[c, width] != 0:
            place = _place(word_CW, c, _hash(word_CW, c, seed) & mask, table_CV)
            for v in range(width + 1):
                table_CV[place, v] = from_CV[c, v]
    return None


@outer
def values(table_CV: Any, word_DW: Any) -> Any:
    """List the values of a table by their numbers."""
    width = word_DW.shape[1]
    for c in range(len(table_CV)):
        if table_CV[c, width] != 0:
            for w in range(width):
                word_DW[np.int64(table_CV[c, width]) - 1, w] = table_CV[c, w]
    return None


@outer
def renumber(number_D: Any, index_N: Any) -> Any:
    """index_n = number_d where d = index_n."""
    for n in range(len(index_N)):
        index_N[n] = number_D[index_N[n]]
    return None
