"""Negatives on the CPU, one visit at a time: the same draws as ``sdgar.samplers``, address by address.

    UNIFORM        the r-th item that is not a known positive of the context
    POPULARITY     one alias table for all contexts; known positives are drawn again
    DECOMPOSABLE   a state from x_c, an item from y_k, by alias tables; known positives again
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.numba_rng import index_and_fraction, words

UNIFORM, POPULARITY, DECOMPOSABLE = 0, 1, 2
MAX_TRIES = 16
_LOW = np.int64(0xFFFFFFFF)

# Reassociation lets the compiler add in vectors; NaN and infinity keep their meaning.
SUMS = {"reassoc", "contract", "nsz"}


class Proposal(NamedTuple):
    """Where negatives come from; arrays that a kind does not use have length 0."""

    kind: int
    n: int
    """Draws a visit."""
    seed: np.uint64
    n_items: int
    n_states: int
    state_bins: NDArray[np.int64]
    item_bins: NDArray[np.int64]
    x_UK: NDArray[np.float32]
    y_IK: NDArray[np.float32]
    q_I: NDArray[np.float32]
    weighted: bool
    """Whether the objective asks for Q(j|c)."""


@numba.njit(error_model="numpy")
def _first_at_least(sorted_E: Any, first: Any, last: Any, item: Any) -> Any:
    """Index of the first of sorted_E[first:last] that is not less than ``item``."""
    low, size = first, last - first
    while size > 0:
        half = size >> 1
        below = sorted_E[low + half] < item
        low = low + half + 1 if below else low
        size = size - half - 1 if below else half
    return low


@numba.njit(error_model="numpy")
def _nth_unknown(sorted_E: Any, first: Any, last: Any, r: Any) -> Any:
    """r + #{j : p_j - j <= r}: the r-th item that is not among sorted_E[first:last]."""
    low, size = first, last - first
    while size > 0:
        half = size >> 1
        middle = low + half
        below = sorted_E[middle] - (middle - first) <= r
        low = middle + 1 if below else low
        size = size - half - 1 if below else half
    return r + low - first


@numba.njit(error_model="numpy")
def _from_table(bins: Any, row: Any, n: Any, high: Any, low: Any) -> Any:
    """One entry of an alias table whose bins are alias << 32 | threshold."""
    entry, fraction = index_and_fraction(n, high, low)
    word = bins[np.uint64(row) * np.uint64(n) + entry]
    return np.int64(entry) if np.int64(fraction) < (word & _LOW) else word >> np.int64(32)


@numba.njit(error_model="numpy", fastmath=SUMS)
def _q(x_UK: Any, y_IK: Any, user: Any, item: Any) -> Any:
    """Q(i|c) = Σ_k x_ck y_ik."""
    total = np.float32(0)
    for k in range(x_UK.shape[1]):
        total += x_UK[user, k] * y_IK[item, k]
    return total


@numba.njit(error_model="numpy")
def _proposed(p: Any, tail: Any, row: Any, slot: Any, user: Any) -> Any:
    w0, w1, w2, w3 = words(p.seed, row, slot, tail)
    if p.kind == POPULARITY:
        return _from_table(p.item_bins, 0, p.n_items, w0, w1)
    state = _from_table(p.state_bins, user, p.n_states, w0, w1)
    return _from_table(p.item_bins, state, p.n_items, w2, w3)


@numba.njit(error_model="numpy")
def draw(
    p: Any, tail: Any, row: Any, user: Any, pos: Any, known_E: Any, first: Any, last: Any,
    item_e: Any, at: Any, ok_B: Any, q_B: Any, here: Any,
) -> Any:  # fmt: skip
    """N negatives of one visit into item_e[at:] and ok_B[here:], with Q(j|c) where it is asked for."""
    unknown = p.n_items - (last - first)
    for j in range(p.n):
        item, ok = np.int64(pos), False
        if p.kind == UNIFORM:
            if unknown > 0:
                w0, w1, _, _ = words(p.seed, row, j, tail)
                place, _ = index_and_fraction(unknown, w0, w1)
                item = _nth_unknown(known_E, first, last, np.int64(place))
                ok = True
        else:
            for t in range(MAX_TRIES):
                item = _proposed(p, tail, row, t * p.n + j, user)
                found = _first_at_least(known_E, first, last, item)
                ok = found == last or known_E[found] != item
                if ok:
                    break
        item_e[at + j] = item
        ok_B[here + j] = ok
    if p.weighted:
        for j in range(p.n):
            if p.kind == DECOMPOSABLE:
                q_B[here + j] = _q(p.x_UK, p.y_IK, user, item_e[at + j])
            elif p.kind == POPULARITY:
                q_B[here + j] = p.q_I[item_e[at + j]]
            else:
                q_B[here + j] = np.float32(1) / np.float32(max(unknown, 1))
    return None
