"""The rows of a sparse matrix as arrays of NumPy, and its columns, by compiled kernels.

The arrays are in RAM or in mapped files (``Place``). Columns are filled a window at a time: what is
written in random order then fits in RAM, whatever the size of the matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray


class Place(Protocol):
    """A place for arrays, such as files that are mapped into memory."""

    def array(self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return a new array to be filled; memory needs no names."""
        return np.empty(shape, dtype)


class InMemory(Place):
    """A place in the memory of the process."""


def _none() -> NDArray[np.float32]:
    return np.empty(0, np.float32)


@dataclass(frozen=True, slots=True)
class Rows:
    """x_rc = weight_E[e] where c = column_E[e], for e = start_R1[r] … start_R1[r + 1] - 1."""

    start_R1: NDArray[np.int64]
    """The entries of row r are ``start_R1[r]`` to ``start_R1[r + 1] - 1``."""
    column_E: NDArray[Any]
    """The column of each entry; a negative one stands for no entry."""
    weight_E: NDArray[np.float32] = field(default_factory=_none)
    """The weight of each entry; empty if all are 1."""

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.start_R1) - 1

    def weights(self) -> NDArray[np.float32]:
        """Return the weight of each entry, also if all are 1."""
        return self.weight_E if len(self.weight_E) else np.ones(len(self.column_E), np.float32)

    def rows(self, rows_B: NDArray[np.int64]) -> Rows:
        """Return some rows, in this order."""
        first_B = self.start_R1[rows_B]
        length_B = self.start_R1[rows_B + 1] - first_B
        start_B1 = np.concatenate(([0], np.cumsum(length_B)))
        place_E = np.arange(start_B1[-1]) + np.repeat(first_B - start_B1[:-1], length_B)
        weight_E = self.weight_E[place_E] if len(self.weight_E) else self.weight_E
        return Rows(start_B1, self.column_E[place_E], weight_E)

    def sums(self, table_CD: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return Σ_{c ∈ r} of the rows c of a table, without weights, in the order of entries."""
        out_RD = np.zeros((self.n_rows, table_CD.shape[1]), np.float32)
        for row, (first, last) in enumerate(pairwise(self.start_R1.tolist())):
            if last > first:
                np.add.reduce(table_CD.take(self.column_E[first:last], axis=0), out=out_RD[row])
        return out_RD


def transposed(
    rows: Rows,
    n_columns: int,
    place: Place,
    name: str,
    *,
    window: int | None = None,
) -> Rows:
    """Return the columns as rows; entries of a column are in the order of the old rows.

    ``name`` is where the arrays are put in their place.
    ``window`` is the number of entries that are written at a time; None writes all at once.
    """
    from sdgar.kernels.numba import sparse

    start_C1 = place.array(f"{name}.start", n_columns + 1, np.int64)
    start_C1[:] = 0
    sparse.count(rows.column_E, start_C1[1:])
    np.cumsum(start_C1, out=start_C1)
    n_entries = int(start_C1[-1])
    row_E, weight_E = place.array(f"{name}.row", n_entries, np.int32), _none()
    if len(rows.weight_E):
        weight_E = place.array(f"{name}.weight", n_entries, np.float32)
    next_C = start_C1[:-1].copy()
    for first, last in _windows(start_C1, window or n_entries):
        sparse.gather(
            first, last, rows.start_R1, rows.column_E, rows.weight_E, next_C, row_E, weight_E
        )
    return Rows(start_C1, row_E, weight_E)


def _windows(start_C1: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Yield runs of columns with at most so many entries together, or of one column with more."""
    first, n_columns = 0, len(start_C1) - 1
    while first < n_columns:
        last = int(np.searchsorted(start_C1, start_C1[first] + most, side="right")) - 1
        last = min(max(last, first + 1), n_columns)
        yield first, last
        first = last
