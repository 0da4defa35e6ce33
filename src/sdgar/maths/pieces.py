"""A long column that lies in parts, worked on by all threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

PIECE = 1 << 20
"""The most rows that a thread takes at a time."""


class Pieces:
    """The parts of a column, of which long ones are cut, and the rows of each."""

    def __init__(self, parts: Sequence[NDArray[Any]]) -> None:
        self.parts = [
            part[start : start + PIECE] for part in parts for start in range(0, len(part), PIECE)
        ]
        """The pieces, none of them empty."""
        ends = np.cumsum([0, *map(len, self.parts)]).tolist()
        self._rows = [slice(*edges) for edges in pairwise(ends)]
        self.n_rows = ends[-1]
        """The number of rows."""

    def joined(self) -> NDArray[Any]:
        """Return the column as one array."""
        whole_N = np.empty((self.n_rows, *self.parts[0].shape[1:]), self.parts[0].dtype)
        self.each(lambda piece, rows: np.copyto(whole_N[rows], piece))
        return whole_N

    def each(self, work: Callable[[NDArray[Any], slice], object]) -> None:
        """Call work(piece, rows) for all pieces, each in a thread that is free."""
        from sdgar.kernels.numba.threads import share

        def work_on(first: int, last: int) -> None:
            for p in range(first, last):
                work(self.parts[p], self._rows[p])

        share(work_on, len(self.parts), self.n_rows)

    def shared(self, threads: int, work: Callable[[int, NDArray[Any], slice], object]) -> None:
        """Call work(t, piece, rows) for an equal share of the pieces in each thread t."""
        from sdgar.kernels.numba.threads import run

        def work_on(t: int, _threads: int, _barrier_4: NDArray[np.int32]) -> None:
            for p in range(len(self.parts) * t // threads, len(self.parts) * (t + 1) // threads):
                work(t, self.parts[p], self._rows[p])

        run(work_on, threads)
