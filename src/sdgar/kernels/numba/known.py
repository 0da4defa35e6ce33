"""Look up on the CPU which items are no negatives of a context."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import inner, outer
from sdgar.kernels.numba.math import chosen
from sdgar.kernels.numba.rng import index_and_fraction, words
from sdgar.kernels.numba.threads import prefetch

_HASH_A, _HASH_B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_HALF = np.uint64(32)
SHORT = 32
"""The most known items that are all looked at, rather than searched."""


class Known(NamedTuple):
    """The items that are no negatives of each context, with one bit for each pair, or a filter.

    Where this takes little memory, every pair (c, i) has a bit, and no search is needed. Otherwise
    bit hash(c, i) is set for every such (c, i), with 16 bits or more for each pair: of all other
    pairs at most 1 in 16 needs a binary search.
    """

    indptr_U1: NDArray[np.int64]
    items_E: NDArray[np.int32]
    n_items: int
    """The number of items if every pair has a bit, and 0 otherwise."""
    bits: NDArray[np.uint8]
    positive_E: NDArray[np.int32]
    """The positive of each training row: it replaces a negative where a context has none."""


@inner
def bit_of(user, item, n_items, bits):
    """Return the number of the bit for a pair; a filter's number of bits is a power of two."""
    if n_items > 0:
        return np.uint64(user) * np.uint64(n_items) + np.uint64(item)
    # The upper half of a product depends on all bits of both numbers, the lower half does not.
    key = np.uint64(user) * _HASH_A + np.uint64(item) * _HASH_B
    return (key >> _HALF) & np.uint64(len(bits) * 8 - 1)


@outer
def fill(indptr_U1, items_E, n_items, bits):
    """Set the bits of all positives."""
    # By one thread: two of them could write to one byte at the same time, and lose a bit.
    for user in range(len(indptr_U1) - 1):
        for e in range(indptr_U1[user], indptr_U1[user + 1]):
            bit = bit_of(user, items_E[e], n_items, bits)
            bits[bit >> np.uint64(3)] |= np.uint8(1 << (bit & np.uint64(7)))


@inner
def is_known(known, user, item):
    """Return whether an item cannot be a negative of a context."""
    bits = known.bits
    bit = bit_of(user, item, known.n_items, bits)
    marked = bool((bits[bit >> np.uint64(3)] >> np.uint8(bit & np.uint64(7))) & np.uint8(1))
    if known.n_items > 0 or not marked:
        return marked
    return is_among(known.items_E, known.indptr_U1[user], known.indptr_U1[user + 1], item)


@inner
def ask_whether_known(known, user, item):
    """Prefetch the bit of a pair."""
    bit = bit_of(user, item, known.n_items, known.bits)
    prefetch(known.bits.ctypes.data + (bit >> np.uint64(3)))


@inner
def is_among(sorted_E, first, last, item):
    """Return whether an item is one of sorted_E[first:last].

    A search ends where few are left; these are all looked at, without a wait for each.
    """
    low, size = first, last - first
    while size > SHORT:
        half = size >> 1
        below = sorted_E[low + half] < item
        low = chosen(below, low + half + 1, low)
        size = chosen(below, size - half - 1, half)
    # No early end: a wrong guess of a branch takes longer than 32 comparisons by vectors.
    found = 0
    for j in range(size):
        found += sorted_E[low + j] == item
    return found > 0


@inner
def near_nth_unknown(sorted_E, first, last, r):
    """Search for the r-th item that is not among sorted_E[first:last], r + #{j : p_j - j <= r}.

    The search ends where few are left; return where these are, and how many.
    """
    low, size = first, last - first
    while size > SHORT:
        half = size >> 1
        middle = low + half
        # p_j - j unknown items are below p_j, so the search needs no list of the unknown ones.
        below = sorted_E[middle] - (middle - first) <= r
        low = chosen(below, middle + 1, low)
        size = chosen(below, size - half - 1, half)
    return low, size


@inner
def nth_unknown_near(sorted_E, first, low, size, r):
    """Finish the search: all that are left are looked at, without a guess of where it will end."""
    found = r + low - first
    for j in range(size):
        found += sorted_E[low + j] - j <= r + low - first
    return found


@inner
def unknown_item(seed, tail, row, slot, first, last, unknown, known_E):
    """Draw uniformly from the items that are not among known_E[first:last]."""
    w0, w1, _, _ = words(seed, row, slot, tail)
    r, _ = index_and_fraction(unknown, w0, w1)
    low, size = near_nth_unknown(known_E, first, last, np.int64(r))
    return nth_unknown_near(known_E, first, low, size, np.int64(r))
