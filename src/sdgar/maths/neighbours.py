"""Least squares on the neighbourhood of each item: EASE with k items that count for an item.

    G    = Σ_u d_u x_u x_u'                                  how often two items occur together
    S_i  = the k items j with the largest G_ji / (√(G_jj G_ii) + shrink),  j ≠ i
    w_i  = (G_SS + λ I)^-1 G_Si                              one k × k system an item

Time is linear in the number of items for a given number of rows, and memory is bounded: G is never
held as a whole. A row of it is counted once to find the neighbours of its item, and once for each
block of items that it is a neighbour of.

Compiled kernels (``OnThreads``) read rows in RAM or in mapped files. A block of systems takes
2 k (k + 1) bytes an item, as G_SS is symmetric. To fill it, the row of G of every item that is a
neighbour within the block is counted again, so fewer blocks take less time. W is bit-identical for
any blocks and threads: a number is added up by one thread, in the order of users.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sdgar.errors import NumericalError, ResourceError
from sdgar.machine import cores
from sdgar.machine.threads import run_parts
from sdgar.maths.neighbours_on_device import (
    MOST_IN_SYSTEMS,
    TorchNeighbours,
    as_rows,
    length_weights,
    matrix,
    rows_by_neighbour,
)
from sdgar.maths.rows import InMemory, Place, Rows, transposed


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhoods:
    """The settings by which item weights are found from the neighbours of each item."""

    k: int
    """The number k of neighbours of an item, from which the item is predicted."""
    l2: float
    """The weight λ of the squared weights, in units of the mean weight d_u of a user."""
    shrink: float
    """The number that is added to the denominator of the cosine by which neighbours are chosen."""
    beta: float
    """The power β by which users with long histories count less: d_u ∝ |I_u|^-β."""

    @classmethod
    def for_item_memory(cls, n_items: int, *, neighbours: int, l2: float) -> Neighbourhoods:
        """Return the settings of an item memory: long histories and rare items count less.

        An item cannot have more neighbours than there are other items.
        """
        return cls(k=min(neighbours, max(1, n_items - 1)), l2=l2, shrink=10.0, beta=0.5)

    def weights(self, items_of: Rows, n_items: int, device: torch.device) -> Rows:
        """Return W, whose row j is what having item j adds to every score; its diagonal is 0.

        ``items_of`` has the items of each user, with weights that say how much each row counts.
        """
        if not _compiled(device.type):
            near_IK, weight_IK = TorchNeighbours(self, matrix(items_of, n_items, device)).solved()
            if not torch.isfinite(weight_IK).all():
                raise self.not_finite()
            return rows_by_neighbour(near_IK, weight_IK)
        return self._on_threads(items_of, n_items).weights()

    def similarities(self, items_of: Rows, n_items: int, device: torch.device) -> Rows:
        """Return x_ji = G_ji / (√(G_jj G_ii) + shrink) for the k items j of each S_i."""
        if not _compiled(device.type):
            on_device = TorchNeighbours(self, matrix(items_of, n_items, device))
            return rows_by_neighbour(*on_device.similarities())
        return self._on_threads(items_of, n_items).similarities()

    def _on_threads(self, items_of: Rows, n_items: int) -> OnThreads:
        block = max(1, 2 * MOST_IN_SYSTEMS // (self.k * (self.k + 1)))
        return OnThreads(self, items_of, n_items, block=block)

    def weights_with(self, items_of: Rows, before: Rows, new_N: NDArray[np.int64]) -> Rows:
        """Return W for a history in which some items are new, from the W without them.

        A column of W is solved again if it is that of a new item, or if a new item is among the
        neighbours of its item; it is then the one that ``weights`` finds. All others stay.
        """
        cpu = torch.device("cpu")
        history, old = (matrix(rows, before.n_rows, cpu) for rows in (items_of, before))
        return as_rows(TorchNeighbours(self, history).solved_with(old, torch.from_numpy(new_N)))

    def not_finite(self) -> NumericalError:
        """Build the error for systems that have no solution."""
        return NumericalError(
            f"the weights of some items are not finite with l2={self.l2:g}. Use a larger l2, "
            "such as 10.",
            code="singular",
        )


def _compiled(device_type: str) -> bool:
    """Return whether there are compiled kernels for a device."""
    return device_type == "cpu"


Progress = Callable[[str, int, int], None]
"""A function of the name of a step, the part of it that is done, and all of it."""
_PARTS, _LEAST = 256, 16
"""The number of parts of all items, and the least items of a part."""
_AT_ONCE = 1 << 16
"""The rows whose lengths are counted together."""
_BASE = 1 << 20
"""The bytes for what is read in pieces."""


def least_memory(n_items: int, k: int, threads: int | None = None) -> int:
    """Return the least bytes that weights between so many items take, one system at a time.

    These are sums and lists of items for each thread, where the neighbours of items begin, how much
    users count by their number of items, and the system of one item.
    """
    threads = cores.threads() if threads is None else threads
    return _BASE + n_items * (8 * threads + 28) + threads * 8 * k * (k + 9) + system_bytes(k)


def system_bytes(k: int) -> int:
    """Return the bytes of an item in a block: its system, and whose neighbour it is."""
    return 2 * k * (k + 1) + 4 * k


def block_of(memory: int, n_items: int, k: int) -> int:
    """Return the number of items whose systems fit in so many bytes, after all that is needed."""
    least = least_memory(n_items, k)
    if memory < least:
        raise ResourceError(
            f"weights between {n_items:,} items with {k} neighbours each take at least "
            f"{least:,} bytes of memory with {cores.threads()} threads, and {memory:,} bytes are "
            "allowed. Allow more memory, or use fewer threads.",
            code="out_of_memory",
        )
    return 1 + (memory - least) // system_bytes(k)


def lengths(start_R1: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many rows have 0, 1, 2 … entries."""
    found = np.zeros(1, np.int64)
    for first in range(0, len(start_R1) - 1, _AT_ONCE):
        more = np.bincount(np.diff(start_R1[first : first + _AT_ONCE + 1]))
        short, long = sorted((found, more), key=len)
        found = long.copy()
        found[: len(short)] += short
    return found


class OnThreads:
    """The weights between items, solved by all threads."""

    def __init__(
        self,
        rule: Neighbourhoods,
        items_of: Rows,
        n_items: int,
        *,
        block: int,
        place: Place | None = None,
        progress: Progress = lambda step, done, total: None,
    ) -> None:
        """Solve for ``block`` items at a time; arrays that grow with the data lie in ``place``.

        The weights of ``items_of`` say how much each row counts.
        """
        from sdgar.kernels.numba import neighbours

        self._kernels = neighbours
        self._rule, self._n, self._block, self._progress = rule, n_items, block, progress
        self._place, self._items_of = place or InMemory(), items_of
        # On disk, as many entries at a time as memory for systems holds.
        self._window = None if place is None else block * (rule.k + 1) * rule.k // 2

    def weights(self) -> Rows:
        """Return W, whose row j is what item j in a history adds to the score of every item."""
        near_IK, both_IK = self._found()
        n, k = near_IK.shape
        weight_IK = self._place.array("weight", (n, k), np.float32)
        starts = range(0, n, self._block)
        for number, start in enumerate(starts):
            some = slice(start, min(start + self._block, n))
            self._solve(near_IK[some], both_IK[some], weight_IK[some], number, len(starts))
        return self._rows_by_neighbour(near_IK, weight_IK)

    def similarities(self) -> Rows:
        """Return row j for the items that item j is a neighbour of: how similar it is to each."""
        near_IK, both_IK = self._found()
        root_IK = self._root_I[:, None] * self._root_I[near_IK]
        return self._rows_by_neighbour(near_IK, both_IK / (root_IK + np.float32(self._rule.shrink)))

    def _found(self) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the neighbours of every item, and how often each occurs together with it."""
        self._read()
        near_IK = self._place.array("near", (self._n, self._rule.k), np.int32)
        both_IK = self._place.array("both", (self._n, self._rule.k), np.float32)
        self._find(near_IK, both_IK)
        return near_IK, both_IK

    def _rows_by_neighbour(self, near_IK: NDArray[np.int32], value_IK: NDArray[np.float32]) -> Rows:
        """Return a row for each neighbour j, from the k values of each item i."""
        n, k = near_IK.shape
        self._progress("weights by item", 0, 1)
        by_item = Rows(np.arange(0, n * k + 1, k), near_IK.reshape(-1), value_IK.reshape(-1))
        return self._transposed(by_item, "neighbour")

    def _transposed(self, rows: Rows, name: str, **how: Any) -> Rows:
        return transposed(rows, self._n, self._place, name, window=self._window, **how)

    def _read(self) -> None:
        """Find the users of each item, how much a user of each length counts, and √G_ii."""
        items_of = self._items_of
        self._progress("users of items", 0, 1)
        users_of = self._transposed(items_of, "users")
        count_L = lengths(items_of.start_R1)
        d_L = length_weights(torch.from_numpy(count_L), self._rule.beta).numpy()
        self._terms = int((count_L * np.arange(len(count_L)) ** 2).sum())
        self._start_I1 = users_of.start_R1
        arrays = [*_arrays(users_of), *_arrays(items_of), d_L]
        self._arrays = tuple(arrays)
        self._root_I = self._place.array("root", self._n, np.float32)
        users = (*arrays[:4], d_L, self._root_I)
        self._share("lengths of items", lambda *part: self._kernels.roots(*part, *users))

    def _share(self, step: str, work: Callable[[int, int], None], at: int = 0, of: int = 1) -> None:
        """Share all items among threads, in parts; this is time ``at`` of ``of`` times."""
        lock, rows = Lock(), int(self._start_I1[-1])
        done = at * rows

        def part(first: int, last: int) -> None:
            nonlocal done
            work(first, last)
            with lock:
                done += int(self._start_I1[last] - self._start_I1[first])
                self._progress(step, done, of * rows)

        run_parts(part, self._n, self._terms, at_once=max(_LEAST, -(-self._n // _PARTS)))

    def _scratch(self) -> tuple[Any, Any]:
        return np.zeros(self._n, np.float32), np.empty(self._n, np.int32)

    def _find(self, near_IK: Any, both_IK: Any) -> None:
        """Find the neighbours of every item, and how often each occurs together with it."""
        k, shrink = self._rule.k, np.float32(self._rule.shrink)

        def work(first: int, last: int) -> None:
            self._kernels.nearest(
                first, last, *self._arrays, self._root_I, shrink, near_IK, both_IK,
                *self._scratch(), np.empty(k, np.float32), np.empty(k, np.int32),
            )  # fmt: skip

        self._share("neighbours", work)

    def _solve(self, near_BK: Any, both_BK: Any, weight_BK: Any, number: int, of: int) -> None:
        """Solve the systems of a block, the ``number``-th of so many."""
        size, k = near_BK.shape
        of_item = Rows(np.arange(0, size * k + 1, k), near_BK.reshape(-1))
        inverse = transposed(of_item, self._n, InMemory(), "inverse")
        g_BP = np.empty((size, k * (k + 1) // 2), np.float32)

        def rows(first: int, last: int) -> None:
            where = inverse.start_R1, inverse.column_E
            self._kernels.between(
                first, last, *self._arrays, near_BK, *where, g_BP, *self._scratch()
            )

        def systems(first: int, last: int) -> None:
            scratch = self._kernels.scratch_for_system(k), np.empty(k)
            l2 = float(self._rule.l2)
            self._kernels.solve(first, last, near_BK, both_BK, g_BP, l2, weight_BK, *scratch)

        self._share("weights", rows, number, of)
        run_parts(systems, size, size * k**3)
        if not all(np.isfinite(part).all() for part in np.array_split(weight_BK, _PARTS)):
            raise self._rule.not_finite()


def _arrays(rows: Rows) -> tuple[NDArray[Any], ...]:
    return rows.start_R1, rows.column_E, rows.weight_E
