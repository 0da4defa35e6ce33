"""Least squares from decayed histories to the next item: a memory of transitions between items.

Every event t of a context but its first is a target, and the events p before it predict its item:

    s_p(t) = φ + (1 - φ) exp(-(t - 1 - p) / τ)       how much event p counts for the target t
    S, T   = targets × items: the sums of s, and the item of the target
    X      = contexts × items: how often each has an item
    A      = α X'X + (1 - α) S'S,   B = α X'X + (1 - α) S'T
    w_i    = (A_SS + λ I)^-1 B_Si    for the k items S with the largest B_ji / (√(A_jj X_i'X_i) + c)

With α = 1 this is EASE on k neighbours; with α = 0 it learns only what follows what. S'S needs no
S: with clocks z_t = t / τ, a pair of events p ≤ q adds what depends on exp(z_p - z_q) and on
three sums over the targets after q. So every pair of events of a context is looked at once, as in
``neighbours.py``, whatever τ is. Long histories are cut into pieces, which makes time linear in
events. In small catalogues all items are neighbours, and one matrix is inverted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.errors import NumericalError
from sdgar.machine.threads import one_blas_thread, run_parts
from sdgar.maths.rows import InMemory, Rows, transposed
from sdgar.maths.sequences import Sequences

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float32]
LONGEST = 512
"""The most events of a piece of a history."""
ALL_ARE_NEIGHBOURS = 4_096
"""The most items of a catalogue in which every item is a neighbour of all others."""
_MOST_IN_SYSTEMS = 1 << 28
"""The most numbers of the systems that are held at once."""
_AT_ONCE = 64
"""The items whose systems one thread solves at a time."""


@dataclass(frozen=True, slots=True)
class Decay:
    """s = φ + (1 - φ) exp(-l / τ): how much an event counts that l events came after."""

    tau: float
    """The number τ of events after which the part that fades is down to 1/e."""
    floor: float
    """The part φ that never fades."""

    def strengths(self, events: Sequences) -> Floats:
        """Return how much each event counts for what comes after all of them."""
        faded = np.exp(-events.back_E / self.tau)
        return (self.floor + (1 - self.floor) * faded).astype(np.float32)

    def clock(self, events: Sequences) -> NDArray[np.float64]:
        """Return z of each event, up to a constant of its context."""
        return -events.back_E / self.tau

    def after(self, lag: int) -> float:
        """Return how much an event counts that so many events came after."""
        return self.floor + (1 - self.floor) * math.exp(-lag / self.tau)

    @property
    def step(self) -> float:
        """The time z from an event to the next one, 1/τ."""
        return 1 / self.tau


class Solution(NamedTuple):
    """The two numbers that systems are solved with, after the pairs have been counted."""

    alpha: float
    """The share α of what is had together, whatever the order."""
    l2: float
    """The weight λ of the squared weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """How the items are found that an item is predicted from."""

    k: int
    """The number k of neighbours of an item."""
    share: float = 0.25
    """The share α by which neighbours are chosen, whatever systems are solved with."""
    shrink: float = 10.0
    """The number c by which rare items are kept from being neighbours by accident."""
    repeats: bool = False
    """Whether an item may predict itself, which it must where people come back to items."""


def weights(
    events: Sequences,
    n_items: int,
    decay: Decay,
    near: Neighbours,
    solutions: Sequence[Solution],
    device: torch.device | None = None,
) -> list[Rows]:
    """Return W for each solution, from one count of pairs.

    Row j of W is what item j in a history adds to the score of every item. Without a ``device``
    compiled kernels count on the CPU.
    """
    pieces = events.in_pieces(LONGEST)
    if device is not None:
        from sdgar.maths.transitions_on_device import weights_on_device

        return weights_on_device(pieces, n_items, decay, near, solutions, device)
    pairs = _Pairs(pieces, n_items, decay, near)
    if near.k >= n_items - 1 and n_items <= ALL_ARE_NEIGHBOURS:
        found = pairs.all_solved(solutions)
    else:
        found = pairs.solved(solutions)
    if not all(np.isfinite(one.weight_E).all() for one in found):
        raise NumericalError(
            "the weights of some items are not finite. Use a larger l2, such as 100.",
            code="singular",
        )
    return found


class _Pairs:
    """All pairs of events of a context, counted by compiled kernels."""

    def __init__(self, events: Sequences, n_items: int, decay: Decay, near: Neighbours) -> None:
        from sdgar.kernels.numba import transitions

        self._kernels, self._n, self._near = transitions, n_items, near
        item_E = np.ascontiguousarray(events.item_E, np.int32)
        order_E = np.argsort(item_E, kind="stable")
        start_I1 = np.concatenate(([0], np.cumsum(np.bincount(item_E, minlength=n_items))))
        clock_E, step = decay.clock(events), decay.step
        users_E = events.users_E.astype(np.int32)
        self._terms = int((events.length_U**2).sum())
        tail_E3 = np.empty((len(item_E), 3), np.float32)
        run_parts(
            transitions.tails, events.n_users, len(item_E), events.start_U1, clock_E, step, tail_E3
        )
        own = start_I1, order_E, users_E, events.start_U1, item_E
        floor = np.float32(decay.floor)
        self._past = *own, tail_E3, clock_E, step, floor
        self._next = *own, clock_E, step, floor
        self._diagonal_I2 = np.zeros((n_items, 2), np.float32)
        run_parts(transitions.diagonals, n_items, len(item_E), *self._past, self._diagonal_I2)

    def _scratch(self, n: int) -> tuple[Any, ...]:
        return *(np.zeros(self._n, np.float32) for _ in range(n)), np.empty(self._n, np.int32)

    def solved(self, solutions: Sequence[Solution]) -> list[Rows]:
        """Return W for each solution, from k neighbours of each item."""
        n, k = self._n, min(self._near.k, self._n)
        near_IK, both_IK2 = np.empty((n, k), np.int32), np.empty((n, k, 2), np.float32)

        def nearest(first: int, last: int) -> None:
            self._kernels.nearest(
                first, last, *self._next, self._diagonal_I2, np.float32(self._near.share),
                np.float32(self._near.shrink), self._near.repeats, near_IK, both_IK2,
                *self._scratch(2), np.empty(k, np.float32), np.empty(k, np.int32),
            )  # fmt: skip

        run_parts(nearest, n, self._terms)
        weight_GIK = np.empty((len(solutions), n, k), np.float32)
        block = max(1, _MOST_IN_SYSTEMS // (k * (k + 1)))
        for start in range(0, n, block):
            some = slice(start, min(start + block, n))
            self._solve(near_IK[some], both_IK2[some], weight_GIK[:, some], solutions)
        by_item = np.arange(0, n * k + 1, k), near_IK.reshape(-1)
        found = []
        for weight_IK in weight_GIK:
            rows = Rows(*by_item, weight_IK.reshape(-1))
            found.append(transposed(rows, n, InMemory(), "neighbour"))
        return found

    def _solve(
        self, near_BK: Any, both_BK2: Any, weight_GBK: Any, solutions: Sequence[Solution]
    ) -> None:
        """Fill the systems of a block of items, and solve them."""
        from sdgar.kernels.numba.neighbours import scratch_for_system, solve

        size, k = near_BK.shape
        of_item = Rows(np.arange(0, size * k + 1, k), near_BK.reshape(-1))
        inverse = transposed(of_item, self._n, InMemory(), "inverse")
        same_BP, past_BP = (np.zeros((size, k * (k + 1) // 2), np.float32) for _ in range(2))

        def between(first: int, last: int) -> None:
            self._kernels.between(
                first, last, *self._past, near_BK, inverse.start_R1, inverse.column_E,
                same_BP, past_BP, *self._scratch(2),
            )  # fmt: skip

        run_parts(between, self._n, self._terms)

        def systems(first: int, last: int) -> None:
            scratch = scratch_for_system(k), np.empty(k)
            for (alpha, l2), weight_BK in zip(solutions, weight_GBK, strict=True):
                share = np.float32(alpha)
                g_BP = share * same_BP[first:last] + (1 - share) * past_BP[first:last]
                b_BK = share * both_BK2[first:last, :, 0] + (1 - share) * both_BK2[first:last, :, 1]
                near, weight = near_BK[first:last], weight_BK[first:last]
                solve(0, last - first, near, b_BK, g_BP, float(l2), weight, *scratch)

        run_parts(systems, size, len(solutions) * size * k**3, at_once=_AT_ONCE)

    def all_solved(self, solutions: Sequence[Solution]) -> list[Rows]:
        """Return W for each solution, where all items are neighbours of all others."""
        n = self._n
        same_II, past_II, next_II = (np.zeros((n, n), np.float32) for _ in range(3))
        run_parts(self._kernels.all_pairs, n, self._terms, *self._past, same_II, past_II, next_II)
        start_I1, near_E = np.arange(0, n * n + 1, n), np.tile(np.arange(n, dtype=np.int32), n)
        found = []
        for alpha, l2 in solutions:
            a_II = alpha * same_II.astype(np.float64) + (1 - alpha) * past_II
            a_II[np.diag_indices(n)] += l2
            with one_blas_thread():
                inverse_II = np.linalg.inv(a_II)
                w_II = inverse_II @ (alpha * same_II + (1 - alpha) * next_II)
            if not self._near.repeats:
                w_II -= inverse_II * (w_II.diagonal() / inverse_II.diagonal())
                np.fill_diagonal(w_II, 0)
            found.append(Rows(start_I1, near_E, w_II.astype(np.float32).reshape(-1)))
        return found
