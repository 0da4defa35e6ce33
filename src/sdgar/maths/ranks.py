"""The different values of a long column that lies in parts, and the rank of each row's value.

Integers that lie near each other are marked in a table from the lowest to the highest one; the
rank of an integer is the count of marks below it. Other values are words of 64 bits, one or several
each, and are met in hash tables, one for each thread, which are then made one.

Compiled kernels do this on all cores. What they find does not depend on the number of threads.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.optional import kernels_for, kernels_of
from sdgar.machine import cores
from sdgar.maths import order
from sdgar.maths.pieces import Pieces

_TABLES = 8
"""The most hash tables, each of which may come to hold all of the values."""
_kernels = partial(kernels_of, "ranks")


def are_worth_kernels(n_rows: int) -> bool:
    """Tell whether kernels are there, and faster for so many rows."""
    return n_rows < 1 << 32 and kernels_for("ranks", n_rows) is not None


def ranked(
    parts: Sequence[NDArray[Any]],
) -> tuple[NDArray[Any], NDArray[np.integer[Any]]]:
    """Return the different values of a column in ascending order, and the rank of each row's value.

    Kernels rank integers, of int64 or of uint64, and NumPy all else.
    """
    n_rows = sum(map(len, parts))
    if parts[0].dtype.kind not in "iu" or not are_worth_kernels(n_rows):
        return order.ranked(parts[0] if len(parts) == 1 else np.concatenate(parts))
    if (span := order.near_span(parts)) is not None:
        return _ranked_near(Pieces(parts), *span)
    distinct = parts[0][:0]

    def rank_of(_: NDArray[np.int64], word_DW: NDArray[np.uint64]) -> NDArray[np.int64]:
        nonlocal distinct
        distinct, rank_D = np.unique(word_DW[:, 0].view(parts[0].dtype), return_inverse=True)
        return rank_D

    index_N = ranked_words([part.view(np.uint64)[:, None] for part in parts], rank_of)
    return distinct, index_N


def _ranked_near(
    pieces: Pieces, lowest: Any, highest: Any
) -> tuple[NDArray[Any], NDArray[np.uint32]]:
    """Return the same for integers from a lowest to a highest one, which lie near each other."""
    n_places = int(highest) - int(lowest) + 1
    there_P, index_N = np.zeros(n_places, np.bool_), np.empty(pieces.n_rows, np.uint32)
    pieces.each(lambda id_N, _: _kernels().mark(id_N, lowest, there_P))
    place_D = np.flatnonzero(there_P)
    if len(place_D) == n_places:  # all between the lowest and the highest are there
        pieces.each(lambda id_N, rows: _kernels().subtract(id_N, lowest, index_N[rows]))
    else:
        rank_P = np.empty(n_places, np.uint32)
        rank_P[place_D] = np.arange(len(place_D), dtype=np.uint32)
        pieces.each(lambda id_N, rows: _kernels().look_up(id_N, lowest, rank_P, index_N[rows]))
    return place_D.astype(lowest.dtype) + lowest, index_N


def ranked_words(
    parts: Sequence[NDArray[np.uint64]],
    rank_of: Callable[[NDArray[np.int64], NDArray[np.uint64]], NDArray[np.integer[Any]]],
) -> NDArray[np.uint32]:
    """Return the rank of each row's value, which is a row of words.

    ``rank_of`` is given a row of each of the different values, and their words, and returns the
    ranks of these values.
    """
    pieces, threads = Pieces(parts), min(cores.threads(), _TABLES)
    index_N, seed = np.empty(pieces.n_rows, np.uint32), np.uint64(secrets.randbits(64))
    tables = [_Table(parts[0].shape[1], seed) for _ in range(threads)]
    pieces.shared(
        threads, lambda t, word_NW, rows: tables[t].add(word_NW, index_N[rows], rows.start)
    )
    whole, *others = tables
    numbers = [np.arange(whole.size, dtype=np.uint32), *map(whole.join, others)]
    rank_D = rank_of(whole.row_D[: whole.size], whole.words()).astype(np.uint32)
    of_thread = [rank_D[number_D] for number_D in numbers]
    pieces.shared(threads, lambda t, _, rows: _kernels().renumber(of_thread[t], index_N[rows]))
    return index_N


class _Table:
    """The different values that one thread has met, by number in the order in which it met them."""

    def __init__(self, width: int, seed: np.uint64) -> None:
        self._seed, self._size_1 = seed, np.zeros(1, np.int64)
        self._table_CV = np.zeros((256, width + 1), np.uint64)
        self.row_D = np.empty(128, np.int64)
        """A row that has the value of each number; more are there than there are values."""

    @property
    def size(self) -> int:
        """The count of values."""
        return int(self._size_1[0])

    def words(self) -> NDArray[np.uint64]:
        """Return the words of each value, by number."""
        word_DW = np.empty((self.size, self._table_CV.shape[1] - 1), np.uint64)
        _kernels().values(self._table_CV, word_DW)
        return word_DW

    def add(self, word_NW: NDArray[np.uint64], index_N: NDArray[np.uint32], before: int) -> None:
        """Number the values of some rows; so many rows come before these."""
        done, start_A = 0, np.empty(_kernels().AHEAD, np.uint64)
        word_NW = word_NW.view()
        word_NW.flags.writeable = False  # else the kernel would be compiled for both
        while True:
            done = _kernels().number(
                word_NW,
                done,
                before,
                self._seed,
                self._table_CV,
                self._size_1,
                self.row_D,
                start_A,
                index_N,
            )
            if done == len(word_NW):
                return
            self._grow()

    def join(self, other: _Table) -> NDArray[np.uint32]:
        """Take in the values of another table, and return their numbers here."""
        number_D, size = np.empty(other.size, np.uint32), self.size
        self.add(other.words(), number_D, 0)
        new_D = number_D >= size
        self.row_D[number_D[new_D]] = other.row_D[: other.size][new_D]
        return number_D

    def _grow(self) -> None:
        before_CV, (places, width) = self._table_CV, self._table_CV.shape
        self._table_CV = np.zeros((2 * places, width), np.uint64)
        self.row_D = np.append(self.row_D, np.empty_like(self.row_D))
        _kernels().move(before_CV, self._seed, self._table_CV)
