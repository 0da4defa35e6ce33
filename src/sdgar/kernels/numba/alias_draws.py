"""Draw negatives on the CPU by alias tables: some find the bins, then the items, then redraw.

A draw reads one bin of a table, in which an item and its alias are. The stages of ``draws.py``
prefetch the bins, then read them; a known positive is drawn again, up to 16 times in all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from sdgar.kernels.compiled import inner, variant
from sdgar.kernels.numba.draws import (
    AHEAD,
    continue_draws,
    draw_words,
    finish_draws,
    probability,
    start_draws,
)
from sdgar.kernels.numba.known import ask_whether_known, is_known
from sdgar.kernels.numba.math import chosen, quotient, reciprocal
from sdgar.kernels.numba.rng import index_and_fraction, words
from sdgar.kernels.numba.rows import dot_rows, row_at
from sdgar.kernels.numba.threads import prefetch, prefetch_whole_row

MAX_TRIES = 16
_LOW, _HALF, _WORD = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(8)
_SHORT, _QUARTER = np.uint64(0xFFFF), np.uint64(16)


class Popularity(NamedTuple):
    """All contexts draw from one alias table; known positives are drawn again."""

    n: int
    seed: np.uint64
    n_items: int
    item_bins: NDArray[np.int64]
    q_I: NDArray[np.float32]


class Decomposable(NamedTuple):
    """Contexts draw a state from x_c, and an item from y_k; known positives are drawn again."""

    n: int
    seed: np.uint64
    n_items: int
    n_states: int
    state_bins: NDArray[np.int32]
    item_bins: NDArray[np.int64]
    x_UK: NDArray[np.float32]
    y_IK: NDArray[np.float32]


class RankByFactor(NamedTuple):
    """Contexts draw a factor that matters to them, and a rank; known positives are drawn again."""

    n: int
    seed: np.uint64
    n_items: int
    n_factors: int
    factor_bins: NDArray[np.int64]
    rank_bins: NDArray[np.int64]
    order_KI: NDArray[np.int32]
    downward_UK: NDArray[np.bool_]


def one(p, tail, row, slot, user):
    """Return the item at an address, whether it is known or not."""


def entry_in(bins, place, own, fraction):
    """Return the entry of a bin by a fraction of 32 bits: the bin's own, or its alias."""


@variant(entry_in, types.int64)
def _entry_in_64(bins, place, own, fraction):
    word = np.uint64(bins[place])
    return chosen(fraction < (word & _LOW), np.uint64(own), word >> _HALF)


@variant(entry_in, types.int32)
def _entry_in_32(bins, place, own, fraction):
    # By uint32 first: the sign bit of an int32 would fill the upper half of the word.
    word = np.uint64(np.uint32(bins[place]))
    return chosen(fraction >> _QUARTER < (word & _SHORT), np.uint64(own), word >> _QUARTER)


@inner
def from_table(bins, row, n, high, low):
    """Return one entry of an alias table."""
    entry, fraction = index_and_fraction(n, high, low)
    return np.int64(entry_in(bins, np.uint64(row) * np.uint64(n) + entry, entry, fraction))


@variant(start_draws, Popularity)
def _start_popularity(p, known, tail, visits, block):
    place_VN, fraction_VN, rest_VN = block.place_VN, block.fraction_VN, block.rest_VN
    address = p.item_bins.ctypes.data
    draw_words(p, tail, visits, block)
    for v in range(visits):
        for j in range(p.n):
            place, fraction = index_and_fraction(p.n_items, place_VN[v, j], fraction_VN[v, j])
            place_VN[v, j], fraction_VN[v, j], rest_VN[v, j] = place, fraction, place
            prefetch(address + place * _WORD)


@variant(finish_draws, Popularity)
def _finish_popularity(p, known, tail, visits, block):
    _open_bins(p, known, visits, block)
    _redraw(p, known, tail, visits, block)


@variant(one, Popularity)
def _one_popularity(p, tail, row, slot, user):
    w0, w1, _, _ = words(p.seed, row, slot, tail)
    return from_table(p.item_bins, 0, p.n_items, w0, w1)


@variant(start_draws, Decomposable)
def _start_decomposable(p, known, tail, visits, block):
    """Ask for the bins of states."""
    states, address = np.uint64(p.n_states), p.state_bins.ctypes.data
    size = np.uint64(p.state_bins.itemsize)
    user_V, place_VN, fraction_VN = block.user_V, block.place_VN, block.fraction_VN
    draw_words(p, tail, visits, block)
    for v in range(visits):
        for j in range(p.n):
            place, fraction = index_and_fraction(states, place_VN[v, j], fraction_VN[v, j])
            place += np.uint64(user_V[v]) * states
            place_VN[v, j], fraction_VN[v, j] = place, fraction
            prefetch(address + place * size)


@variant(continue_draws, Decomposable)
def _continue_decomposable(p, known, visits, block):
    """Read the states, and prefetch the bins of items and for x_c."""
    place_VN, fraction_VN, rest_VN = block.place_VN, block.fraction_VN, block.rest_VN
    items, states = np.uint64(p.n_items), np.uint64(p.n_states)
    user_V, address = block.user_V, p.item_bins.ctypes.data
    for v in range(visits):
        for j in range(p.n):
            entry = place_VN[v, j] - np.uint64(user_V[v]) * states
            state = entry_in(p.state_bins, place_VN[v, j], entry, fraction_VN[v, j])
            place, fraction = index_and_fraction(
                items, rest_VN[v, j] >> _HALF, rest_VN[v, j] & _LOW
            )  # fmt: skip
            place_VN[v, j], fraction_VN[v, j] = place + state * items, fraction
            rest_VN[v, j] = place
            prefetch(address + place_VN[v, j] * _WORD)
        prefetch_whole_row(p.x_UK, user_V[v])


@variant(finish_draws, Decomposable)
def _finish_decomposable(p, known, tail, visits, block):
    """Read the items, and prefetch the first rows of y."""
    _open_bins(p, known, visits, block)
    _redraw(p, known, tail, visits, block)
    item_e = block.item_VN.flat
    for e in range(min(AHEAD, visits * p.n)):
        prefetch_whole_row(p.y_IK, item_e[e])


@variant(one, Decomposable)
def _one_decomposable(p, tail, row, slot, user):
    w0, w1, w2, w3 = words(p.seed, row, slot, tail)
    state = from_table(p.state_bins, user, p.n_states, w0, w1)
    return from_table(p.item_bins, state, p.n_items, w2, w3)


@variant(finish_draws, RankByFactor)
def _finish_rank_by_factor(p, known, tail, visits, block):
    for v in range(visits):
        for j in range(p.n):
            block.item_VN[v, j] = one(p, tail, block.row_VP[v, 0], j, block.user_V[v])
    _redraw(p, known, tail, visits, block)


@variant(one, RankByFactor)
def _one_rank_by_factor(p, tail, row, slot, user):
    w0, w1, w2, w3 = words(p.seed, row, slot, tail)
    factor = from_table(p.factor_bins, user, p.n_factors, w0, w1)
    rank = from_table(p.rank_bins, 0, p.n_items, w2, w3)
    place = rank if p.downward_UK[user, factor] else p.n_items - 1 - rank
    return np.int64(p.order_KI[factor, place])


@inner
def _open_bins(p, known, visits, block):
    """Read the item of each bin, its own or its alias, and prefetch its bit."""
    item_VN, own_VN, fraction_VN = block.item_VN, block.rest_VN, block.fraction_VN
    for v in range(visits):
        for j in range(p.n):
            place, own, fraction = block.place_VN[v, j], own_VN[v, j], fraction_VN[v, j]
            item_VN[v, j] = np.int64(entry_in(p.item_bins, place, own, fraction))
            ask_whether_known(known, block.user_V[v], item_VN[v, j])


@inner
def _redraw(p, known, tail, visits, block):
    """Draw known positives again, up to 16 times in all.

    All that are left are drawn before one of them is looked up, so a processor waits for several
    cache lines at a time, and for no guess of which are refused.
    """
    item_e, ok_e, left_e = block.item_VN.flat, block.ok_VN.flat, block.place_VN.flat
    user_V, row_VP = block.user_V, block.row_VP
    left, (over_n, shift) = visits * p.n, reciprocal(p.n)
    for k in range(left):
        left_e[k] = k
    for t in range(1, MAX_TRIES + 1):
        found = 0
        for k in range(left):
            e = np.int64(left_e[k])
            refused = is_known(known, user_V[quotient(e, over_n, shift)], item_e[e])
            ok_e[e] = not refused
            # Written in any case, and kept only if refused: nothing has to be guessed.
            left_e[found] = e
            found += refused
        left = found if t < MAX_TRIES else 0
        for k in range(left):
            e = np.int64(left_e[k])
            v = quotient(e, over_n, shift)
            # The slots of a try follow the slots of the one before: no address is used twice.
            item_e[e] = one(p, tail, row_VP[v, 0], t * p.n + e - v * p.n, user_V[v])
            ask_whether_known(known, user_V[v], item_e[e])
        if left == 0:
            break


@variant(probability, Popularity)
def _probability_popularity(p, known, visits, block):
    for v in range(visits):
        for j in range(p.n):
            block.q_VN[v, j] = p.q_I[block.item_VN[v, j]]


@variant(probability, Decomposable)
def _probability_decomposable(p, known, visits, block):
    item_e, entries = block.item_VN.flat, visits * p.n
    for v in range(visits):
        for j in range(p.n):
            ahead = v * p.n + j + AHEAD
            if ahead < entries:
                prefetch_whole_row(p.y_IK, item_e[ahead])
            y = row_at(p.y_IK, block.item_VN[v, j])
            block.q_VN[v, j] = dot_rows(row_at(p.x_UK, block.user_V[v]), y, p.x_UK.shape[1])
