"""Draw negatives on the CPU: the same draws as ``sdgar.samplers``, for a block of visits at once.

A proposal has n draws a visit, addressed by the seed, the row of the visit's first positive and the
number of the draw. Here are the stages of a draw, uniform draws, and draws of disliked items;
``alias_draws.py`` has proposals that alias tables hold.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import by_default, inner, variant
from sdgar.kernels.numba.known import is_among, near_nth_unknown, nth_unknown_near
from sdgar.kernels.numba.rng import index_and_fraction, words
from sdgar.kernels.numba.threads import prefetch

AHEAD = 6
"""Rows between the one that is prefetched and the one that is read. A core drops most prefetches
that are issued at once, if they are many."""
_EPOCH, _FRACTION, _HALF = np.uint64(0xFFFFFF), np.float32(2.0**-32), np.uint64(32)


class Block(NamedTuple):
    """Some visits under way: their contexts, each with its positives and its negatives."""

    visit_V: NDArray[np.int64]
    user_V: NDArray[np.int64]
    count_V: NDArray[np.int64]
    """The number of positives."""
    row_VP: NDArray[np.int64]
    item_VP: NDArray[np.int64]
    weight_VP: NDArray[np.float32]
    item_VN: NDArray[np.int64]
    ok_VN: NDArray[np.bool_]
    """Whether a negative is accepted."""
    q_VN: NDArray[np.float32]
    """Q(j|c) of the negatives, up to a constant of the visit."""
    tries_V: NDArray[np.int64]
    place_VN: NDArray[np.uint64]
    """The places of draws in alias tables. For uniform draws, the rank among the unknown items."""
    fraction_VN: NDArray[np.uint64]
    """The fraction that decides at that place, or how many known items are to be compared."""
    rest_VN: NDArray[np.uint64]
    """The entry of the bin, or the place of the first of these known items."""


class Uniform(NamedTuple):
    """Draws take the r-th item that is not a known positive of the context."""

    n: int
    seed: np.uint64
    n_items: int


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


@by_default
def start_draws(p, known, tail, visits, block):
    """Begin to draw n negatives for each of some visits: prefetch the first bins."""


@by_default
def continue_draws(p, known, visits, block):
    """Continue draws that were begun: read the first bins, and prefetch others."""


def finish_draws(p, known, tail, visits, block):
    """Find the n negatives of each visit whose draws were begun, and whether each is accepted."""


def probability(p, known, visits, block):
    """Write Q(j|c) of the negatives into ``block.q_VN``, up to a constant of the visit."""


@inner
def draw_words(p, tail, visits, block):
    """Write the first two words of each draw into place and fraction, and the others into rest."""
    for v in range(visits):
        for j in range(p.n):
            w0, w1, w2, w3 = words(p.seed, block.row_VP[v, 0], j, tail)
            block.place_VN[v, j], block.fraction_VN[v, j] = w0, w1
            block.rest_VN[v, j] = (w2 << _HALF) | w3


@variant(start_draws, Uniform)
def _start_uniform(p, known, tail, visits, block):
    """Draw which of the unknown items it is, and prefetch the first probes of the search."""
    indptr_U1, address = known.indptr_U1, known.items_E.ctypes.data
    user_V, place_VN, fraction_VN = block.user_V, block.place_VN, block.fraction_VN
    draw_words(p, tail, visits, block)
    # The first three probes of every search are among the eighths of the known items.
    for v in range(visits):
        first = np.uint64(indptr_U1[user_V[v]])
        count = np.uint64(indptr_U1[user_V[v] + 1]) - first
        unknown = p.n_items - np.int64(count)
        for j in range(p.n):
            place_VN[v, j], _ = index_and_fraction(unknown, place_VN[v, j], fraction_VN[v, j])
        for eighth in range(np.uint64(1), np.uint64(8)):
            prefetch(address + (first + count * eighth // np.uint64(8)) * np.uint64(4))


@variant(continue_draws, Uniform)
def _continue_uniform(p, known, visits, block):
    """Search until few known items are left, and prefetch these."""
    user_V, indptr_U1, known_E = block.user_V, known.indptr_U1, known.items_E
    address = known_E.ctypes.data
    for v in range(visits):
        first, last = indptr_U1[user_V[v]], indptr_U1[user_V[v] + 1]
        for j in range(p.n):
            r = np.int64(block.place_VN[v, j])
            low, size = near_nth_unknown(known_E, first, last, r)
            block.rest_VN[v, j], block.fraction_VN[v, j] = low, size
            prefetch(address + np.uint64(low) * np.uint64(4))
            prefetch(address + np.uint64(low + size) * np.uint64(4))


@variant(finish_draws, Uniform)
def _finish_uniform(p, known, tail, visits, block):
    """End the search; a context for which every item is known has no draw."""
    user_V, indptr_U1, known_E = block.user_V, known.indptr_U1, known.items_E
    item_VN, ok_VN = block.item_VN, block.ok_VN
    for v in range(visits):
        first, last = indptr_U1[user_V[v]], indptr_U1[user_V[v] + 1]
        unknown = p.n_items - (last - first)
        for j in range(p.n):
            r, low = np.int64(block.place_VN[v, j]), np.int64(block.rest_VN[v, j])
            size = np.int64(block.fraction_VN[v, j])
            item_VN[v, j] = nth_unknown_near(known_E, first, low, size, r)
            ok_VN[v, j] = unknown > 0
            # There must be an item, as it is scored like others; ``ok`` says that it does not
            # count.
            if unknown == 0:
                item_VN[v, j] = known.positive_E[block.row_VP[v, 0]]


@variant(start_draws, WithDislikes)
def _start_with_dislikes(p, known, tail, visits, block):
    start_draws(p.base, known, tail, visits, block)


@variant(continue_draws, WithDislikes)
def _continue_with_dislikes(p, known, visits, block):
    continue_draws(p.base, known, visits, block)


@variant(finish_draws, WithDislikes)
def _finish_with_dislikes(p, known, tail, visits, block):
    """Draw from the base, and replace some draws by disliked items."""
    finish_draws(p.base, known, tail, visits, block)
    user_V = block.user_V
    # Another stream, so that the draws of the base are the same with and without dislikes.
    own = (np.uint64(tail) & _EPOCH) | p.stream
    for v in range(visits):
        first, last = p.start_U1[user_V[v]], p.start_U1[user_V[v] + 1]
        for j in range(p.n if last > first else 0):
            coin, high, low, _ = words(p.seed, block.row_VP[v, 0], j, own)
            if np.float32(coin) * _FRACTION < p.share:
                place, _ = index_and_fraction(last - first, high, low)
                block.item_VN[v, j] = p.item_D[first + np.int64(place)]
                block.ok_VN[v, j] = True


@variant(probability, Uniform)
def _probability_uniform(p, known, visits, block):
    for v in range(visits):
        user = block.user_V[v]
        count = known.indptr_U1[user + 1] - known.indptr_U1[user]
        for j in range(p.n):
            block.q_VN[v, j] = np.float32(1) / np.float32(max(p.n_items - count, 1))


@variant(probability, WithDislikes)
def _probability_with_dislikes(p, known, visits, block):
    """(1 - p) Q + p [i ∈ D_c] / |D_c|, where the context has disliked items, and Q without."""
    probability(p.base, known, visits, block)
    for v in range(visits):
        user = block.user_V[v]
        first, last = p.start_U1[user], p.start_U1[user + 1]
        for j in range(p.n):
            q = block.q_VN[v, j] * p.kept_U[user]
            if last > first:
                q *= np.float32(1) - p.share
                if is_among(p.item_D, first, last, block.item_VN[v, j]):
                    q += p.share / np.float32(last - first)
            block.q_VN[v, j] = q
