"""Draw negatives on the CPU: the same draws as ``sdgar.samplers``, for a block of visits at once.

A proposal has n draws a visit, addressed by the seed, the row of the visit's first positive and the
number of the draw.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from sdgar.kernels.compiled import inner, variant
from sdgar.kernels.numba.known import (
    ask_whether_known,
    is_among,
    is_known,
    near_nth_unknown,
    nth_unknown_near,
)
from sdgar.kernels.numba.math import chosen, quotient, reciprocal
from sdgar.kernels.numba.rng import index_and_fraction, words, words_of_all
from sdgar.kernels.numba.rows import dot_rows, row_at
from sdgar.kernels.numba.threads import prefetch, prefetch_row

MAX_TRIES = 16
AHEAD = 6
"""Rows between the one that is prefetched and the one that is read. A core drops most prefetches
that are issued at once, if they are many."""
_LOW, _HALF, _WORD = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(8)
_SHORT, _QUARTER = np.uint64(0xFFFF), np.uint64(16)
_EPOCH, _FRACTION = np.uint64(0xFFFFFF), np.float32(2.0**-32)


class Drawn(NamedTuple):
    """The negatives of some visits: whether each is accepted, its Q(j|c), and its tries."""

    item_VN: NDArray[np.int64]
    ok_VN: NDArray[np.bool_]
    q_VN: NDArray[np.float32]
    tries_V: NDArray[np.int64]


class Bins(NamedTuple):
    """Places of draws in alias tables, the fraction that decides there, and the entry of the bin.

    For uniform draws: the rank among the unknown items, the number of known items that are still
    to be compared, and the place of the first of them.
    """

    place_VN: NDArray[np.uint64]
    fraction_VN: NDArray[np.uint64]
    rest_VN: NDArray[np.uint64]


class Uniform(NamedTuple):
    """Draws take the r-th item that is not a known positive of the context."""

    n: int
    seed: np.uint64
    n_items: int


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


class WithDislikes(NamedTuple):
    """Draws take a disliked item with the probability ``share``, otherwise one of ``base``."""

    n: int
    seed: np.uint64
    n_items: int
    base: Any
    share: np.float32
    stream: np.uint64
    """The stream of the numbers that decide, where it stands in the tail of an address."""
    start_U1: NDArray[np.int64]
    item_D: NDArray[np.int64]
    kept_U: NDArray[np.float32]
    """What Q of the base is multiplied by, as known positives are drawn again."""


DRAWN = (Uniform, Popularity, Decomposable, RankByFactor, WithDislikes)
"""The kinds of proposal that need no scores: they are drawn first, and scored afterwards."""


def start_draws(
    p: Any, known: Any, tail: Any, visits: Any, user_V: Any, row_VP: Any, bins: Any
) -> Any:
    """Begin to draw n negatives for each of some visits: prefetch the first bins."""


def continue_draws(p: Any, known: Any, visits: Any, user_V: Any, bins: Any) -> Any:
    """Continue draws that were begun: read the first bins, and prefetch others."""


def finish_draws(
    p: Any, known: Any, tail: Any, visits: Any, user_V: Any, row_VP: Any, bins: Any, drawn: Any
) -> Any:
    """Find the n negatives of each visit whose draws were begun, and whether each is accepted."""


def one(p: Any, tail: Any, row: Any, slot: Any, user: Any) -> Any:
    """Return the item at an address, whether it is known or not."""


def probability(p: Any, known: Any, visits: Any, user_V: Any, drawn: Any) -> Any:
    """Write Q(j|c) of the negatives into ``drawn.q_VN``, up to a constant of the visit."""


def entry_in(bins: Any, place: Any, own: Any, fraction: Any) -> Any:
    """Return the entry of a bin by a fraction of 32 bits: the bin's own, or its alias."""


@variant(entry_in, types.int64)
def _entry_in_64(bins: Any, place: Any, own: Any, fraction: Any) -> Any:
    word = np.uint64(bins[place])
    return chosen(fraction < (word & _LOW), np.uint64(own), word >> _HALF)


@variant(entry_in, types.int32)
def _entry_in_32(bins: Any, place: Any, own: Any, fraction: Any) -> Any:
    # By uint32 first: the sign bit of an int32 would fill the upper half of the word.
    word = np.uint64(np.uint32(bins[place]))
    return chosen(fraction >> _QUARTER < (word & _SHORT), np.uint64(own), word >> _QUARTER)


@inner
def from_table(bins: Any, row: Any, n: Any, high: Any, low: Any) -> Any:
    """Return one entry of an alias table."""
    entry, fraction = index_and_fraction(n, high, low)
    return np.int64(entry_in(bins, np.uint64(row) * np.uint64(n) + entry, entry, fraction))


@inner
def _prefetch_row(table_RK: Any, row: Any) -> Any:
    """Prefetch a row of a table."""
    size = np.uint64(table_RK.strides[0])
    prefetch_row(table_RK.ctypes.data, row, size, size)
    return None


@inner
def draw(
    p: Any, known: Any, tail: Any, visits: Any, user_V: Any, row_VP: Any, bins: Any, drawn: Any
) -> Any:
    """Draw n negatives for each of some visits at once."""
    start_draws(p, known, tail, visits, user_V, row_VP, bins)
    continue_draws(p, known, visits, user_V, bins)
    finish_draws(p, known, tail, visits, user_V, row_VP, bins, drawn)
    return None


@variant(start_draws, RankByFactor)
def _start_nothing(
    p: Any, known: Any, tail: Any, visits: Any, user_V: Any, row_VP: Any, bins: Any
) -> Any:
    return None


@variant(continue_draws, Popularity, RankByFactor)
def _continue_nothing(p: Any, known: Any, visits: Any, user_V: Any, bins: Any) -> Any:
    return None


@inner
def _draw_words(p: Any, tail: Any, visits: Any, row_VP: Any, bins: Any) -> Any:
    """Write the first two words of each draw into place and fraction, and the others into rest."""
    for v in range(visits):
        for j in range(p.n):
            bins.place_VN[v, j], bins.fraction_VN[v, j] = row_VP[v, 0], j
    words_of_all(visits * p.n, p.seed, tail, bins.place_VN, bins.fraction_VN, bins.rest_VN)
    return None


@variant(start_draws, Uniform)
def _start_uniform(
    p: Any, known: Any, tail: Any, visits: Any, user_V: Any, row_VP: Any, bins: Any
) -> Any:
    """Draw which of the unknown items it is, and prefetch the first probes of the search."""
    indptr_U1, address = known.indptr_U1, known.items_E.ctypes.data
    place_VN, fraction_VN = bins.place_VN, bins.fraction_VN
    _draw_words(p, tail, visits, row_VP, bins)
    # The first three probes of every search are among the eighths of the known items.
    for v in range(visits):
        first = np.uint64(indptr_U1[user_V[v]])
        count = np.uint64(indptr_U1[user_V[v] + 1]) - first
        unknown = p.n_items - np.int64(count)
        for j in range(p.n):
            place_VN[v, j], _ = index_and_fraction(unknown, place_VN[v, j], fraction_VN[v, j])
        for eighth in range(np.uint64(1), np.uint64(8)):
            prefetch(address + (first + count * eighth // np.uint64(8)) * np.uint64(4))
    return None


@variant(continue_draws, Uniform)
def _continue_uniform(p: Any, known: Any, visits: Any, user_V: Any, bins: Any) -> Any:
    """Search until few known items are left, and prefetch these."""
    indptr_U1, known_E = known.indptr_U1, known.items_E
    address = known_E.ctypes.data
    for v in range(visits):
        first, last = indptr_U1[user_V[v]], indptr_U1[user_V[v] + 1]
        for j in range(p.n):
            r = np.int64(bins.place_VN[v, j])
            low, size = near_nth_unknown(known_E, first, last, r)
            bins.rest_VN[v, j], bins.fraction_VN[v, j] = low, size
            prefetch(address + np.uint64(low) * np.uint64(4))
            prefetch(address + np.uint64(low + size) * np.uint64(4))
    return None


@variant(finish_draws, Uniform)
def _finish_uniform(
    p: Any, known: Any, tail: Any, visits: Any, user_V: Any, row_VP: Any, bins: Any, drawn: Any
) -> Any:
    """End the search; a context for which every item is known has no draw."""
    indptr_U1, known_E = known.indptr_U1, known.items_E
    item_VN, ok_VN = drawn.item_VN, drawn.ok_VN
    for v in range(visits):
        first, last = indptr_U1[user_V[v]], indptr_U1[user_V[v] + 1]
        unknown = p.n_items - (last - first)
        for j in range(p.n):
            r, low = np.int64(bins.place_VN[v, j]), np.int64(bins.rest_VN[v, j])
            size = np.int64(bins.fraction_VN[v, j])
            item_VN[v, j] = nth_unknown_near(known_E, first, low, size, r)
            ok_VN[v, j] = unknown > 0
            if unknown == 0:
                item_VN[v, j] = known.positive_E[row_VP[v, 0]]
    return None


@variant(start_draws, Popularity)
def _start_popularity(
    p: Any, known: Any, tail: Any, visits: Any, user_V: Any, row_VP: Any, bins: Any
) -> Any:
    place_VN, fraction_VN, rest_VN = bins.place_VN, bins.fraction_VN, bins.rest_VN
    address = p.item_bins.ctypes.data
    _draw_words(p, tail, visits, row_VP, bins)
    for v in range(visits):
        for j in range(p.n):
            place, fraction = index_and_fraction(p.n_items, place_VN[v, j], fraction_VN[v, j])
            place_VN[v, j], fraction_VN[v, j], rest_VN[v, j] = place, fraction, place
            prefetch(address + place * _WORD)
    return None


@variant(finish_draws, Popularity)
def _finish_popularity(
    p: Any, known: Any, tail: Any, visits: Any, user_V: Any, row_VP: Any, bins: Any, drawn: Any
) -> Any:
    _open_bins(visits, p.n, p.item_bins, known, user_V, bins, drawn.item_VN)
    _redraw(p, known, tail, visits, user_V, row_VP, bins, drawn)
    return None


@variant(one, Popularity)
def _one_popularity(p: Any, tail: Any, row: Any, slot: Any, user: Any) -> Any:
    w0, w1, _, _ = words(p.seed, row, slot, tail)
    return from_table(p.item_bins, 0, p.n_items, w0, w1)


@variant(start_draws, Decomposable)
def _start_decomposable(
    p: Any, known: Any, tail: Any, visits: Any, user_V: Any, row_VP: Any, bins: Any
) -> Any:
    """Ask for the bins of states."""
    states, address = np.uint64(p.n_states), p.state_bins.ctypes.data
    size = np.uint64(p.state_bins.itemsize)
    place_VN, fraction_VN = bins.place_VN, bins.fraction_VN
    _draw_words(p, tail, visits, row_VP, bins)
    for v in range(visits):
        for j in range(p.n):
            place, fraction = index_and_fraction(states, place_VN[v, j], fraction_VN[v, j])
            place += np.uint64(user_V[v]) * states
            place_VN[v, j], fraction_VN[v, j] = place, fraction
            prefetch(address + place * size)
    return None


@variant(continue_draws, Decomposable)
def _continue_decomposable(p: Any, known: Any, visits: Any, user_V: Any, bins: Any) -> Any:
    """Read the states, and prefetch the bins of items and for x_c."""
    place_VN, fraction_VN, rest_VN = bins.place_VN, bins.fraction_VN, bins.rest_VN
    items, states = np.uint64(p.n_items), np.uint64(p.n_states)
    address = p.item_bins.ctypes.data
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
        _prefetch_row(p.x_UK, user_V[v])
    return None


@variant(finish_draws, Decomposable)
def _finish_decomposable(
    p: Any, known: Any, tail: Any, visits: Any, user_V: Any, row_VP: Any, bins: Any, drawn: Any
) -> Any:
    """Read the items, and prefetch the first rows of y."""
    _open_bins(visits, p.n, p.item_bins, known, user_V, bins, drawn.item_VN)
    _redraw(p, known, tail, visits, user_V, row_VP, bins, drawn)
    item_e = drawn.item_VN.flat
    for e in range(min(AHEAD, visits * p.n)):
        _prefetch_row(p.y_IK, item_e[e])
    return None


@variant(one, Decomposable)
def _one_decomposable(p: Any, tail: Any, row: Any, slot: Any, user: Any) -> Any:
    w0, w1, w2, w3 = words(p.seed, row, slot, tail)
    state = from_table(p.state_bins, user, p.n_states, w0, w1)
    return from_table(p.item_bins, state, p.n_items, w2, w3)


@variant(finish_draws, RankByFactor)
def _finish_rank_by_factor(
    p: Any, known: Any, tail: Any, visits: Any, user_V: Any, row_VP: Any, bins: Any, drawn: Any
) -> Any:
    for v in range(visits):
        for j in range(p.n):
            drawn.item_VN[v, j] = one(p, tail, row_VP[v, 0], j, user_V[v])
    _redraw(p, known, tail, visits, user_V, row_VP, bins, drawn)
    return None


@variant(one, RankByFactor)
def _one_rank_by_factor(p: Any, tail: Any, row: Any, slot: Any, user: Any) -> Any:
    w0, w1, w2, w3 = words(p.seed, row, slot, tail)
    factor = from_table(p.factor_bins, user, p.n_factors, w0, w1)
    rank = from_table(p.rank_bins, 0, p.n_items, w2, w3)
    place = rank if p.downward_UK[user, factor] else p.n_items - 1 - rank
    return np.int64(p.order_KI[factor, place])


@variant(start_draws, WithDislikes)
def _start_with_dislikes(
    p: Any, known: Any, tail: Any, visits: Any, user_V: Any, row_VP: Any, bins: Any
) -> Any:
    start_draws(p.base, known, tail, visits, user_V, row_VP, bins)
    return None


@variant(continue_draws, WithDislikes)
def _continue_with_dislikes(p: Any, known: Any, visits: Any, user_V: Any, bins: Any) -> Any:
    continue_draws(p.base, known, visits, user_V, bins)
    return None


@variant(finish_draws, WithDislikes)
def _finish_with_dislikes(
    p: Any, known: Any, tail: Any, visits: Any, user_V: Any, row_VP: Any, bins: Any, drawn: Any
) -> Any:
    """Draw from the base, and replace some draws by disliked items."""
    finish_draws(p.base, known, tail, visits, user_V, row_VP, bins, drawn)
    own = (np.uint64(tail) & _EPOCH) | p.stream
    for v in range(visits):
        first, last = p.start_U1[user_V[v]], p.start_U1[user_V[v] + 1]
        for j in range(p.n if last > first else 0):
            coin, high, low, _ = words(p.seed, row_VP[v, 0], j, own)
            if np.float32(coin) * _FRACTION < p.share:
                place, _ = index_and_fraction(last - first, high, low)
                drawn.item_VN[v, j] = p.item_D[first + np.int64(place)]
                drawn.ok_VN[v, j] = True
    return None


@inner
def _open_bins(
    visits: Any, n: Any, item_bins: Any, known: Any, user_V: Any, bins: Any, item_VN: Any
) -> Any:  # fmt: skip
    """Read the item of each bin, its own or its alias, and prefetch its bit."""
    for v in range(visits):
        for j in range(n):
            place, own, fraction = bins.place_VN[v, j], bins.rest_VN[v, j], bins.fraction_VN[v, j]
            item_VN[v, j] = np.int64(entry_in(item_bins, place, own, fraction))
            ask_whether_known(known, user_V[v], item_VN[v, j])
    return None


@inner
def _redraw(
    p: Any, known: Any, tail: Any, visits: Any, user_V: Any, row_VP: Any, bins: Any, drawn: Any
) -> Any:  # fmt: skip
    """Draw known positives again, up to 16 times in all.

    All that are left are drawn before one of them is looked up, so a processor waits for several
    cache lines at a time, and for no guess of which are refused.
    """
    item_e, ok_e, left_e = drawn.item_VN.flat, drawn.ok_VN.flat, bins.place_VN.flat
    left, (over_n, shift) = visits * p.n, reciprocal(p.n)
    for k in range(left):
        left_e[k] = k
    for t in range(1, MAX_TRIES + 1):
        found = 0
        for k in range(left):
            e = np.int64(left_e[k])
            refused = is_known(known, user_V[quotient(e, over_n, shift)], item_e[e])
            ok_e[e] = not refused
            left_e[found] = e
            found += refused
        left = found if t < MAX_TRIES else 0
        for k in range(left):
            e = np.int64(left_e[k])
            v = quotient(e, over_n, shift)
            item_e[e] = one(p, tail, row_VP[v, 0], t * p.n + e - v * p.n, user_V[v])
            ask_whether_known(known, user_V[v], item_e[e])
        if left == 0:
            break
    return None


@variant(probability, Uniform)
def _probability_uniform(p: Any, known: Any, visits: Any, user_V: Any, drawn: Any) -> Any:
    for v in range(visits):
        count = known.indptr_U1[user_V[v] + 1] - known.indptr_U1[user_V[v]]
        for j in range(p.n):
            drawn.q_VN[v, j] = np.float32(1) / np.float32(max(p.n_items - count, 1))
    return None


@variant(probability, Popularity)
def _probability_popularity(p: Any, known: Any, visits: Any, user_V: Any, drawn: Any) -> Any:
    for v in range(visits):
        for j in range(p.n):
            drawn.q_VN[v, j] = p.q_I[drawn.item_VN[v, j]]
    return None


@variant(probability, Decomposable)
def _probability_decomposable(p: Any, known: Any, visits: Any, user_V: Any, drawn: Any) -> Any:
    item_e, entries = drawn.item_VN.flat, visits * p.n
    for v in range(visits):
        for j in range(p.n):
            ahead = v * p.n + j + AHEAD
            if ahead < entries:
                _prefetch_row(p.y_IK, item_e[ahead])
            y = row_at(p.y_IK, drawn.item_VN[v, j])
            drawn.q_VN[v, j] = dot_rows(row_at(p.x_UK, user_V[v]), y, p.x_UK.shape[1])
    return None


@variant(probability, WithDislikes)
def _probability_with_dislikes(p: Any, known: Any, visits: Any, user_V: Any, drawn: Any) -> Any:
    """(1 - p) Q + p [i ∈ D_c] / |D_c|, where the context has disliked items, and Q without."""
    probability(p.base, known, visits, user_V, drawn)
    for v in range(visits):
        user = user_V[v]
        first, last = p.start_U1[user], p.start_U1[user + 1]
        for j in range(p.n):
            q = drawn.q_VN[v, j] * p.kept_U[user]
            if last > first:
                q *= np.float32(1) - p.share
                if is_among(p.item_D, first, last, drawn.item_VN[v, j]):
                    q += p.share / np.float32(last - first)
            drawn.q_VN[v, j] = q
    return None
