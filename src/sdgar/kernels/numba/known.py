"""Look up on the CPU which items are no negatives of a context."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import inner, outer
from sdgar.kernels.numba.rng import index_and_fraction, words

_HASH_A, _HASH_B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_HALF = np.uint64(32)


class Known(NamedTuple):
    """The items that are no negatives of each context, with a filter that clears most other pairs.

    Bit hash(c, i) is set for every such (c, i), with 16 bits or more a pair: of all other pairs at
    most 1 in 16 needs a binary search.
    """

    indptr_U1: NDArray[np.int64]
    items_E: NDArray[np.int32]
    bits: NDArray[np.uint8]
    positive_E: NDArray[np.int32]
    """The positive of each training row: it stands in where a context has no negative."""


@inner
def bit_of(user: Any, item: Any, bits: Any) -> Any:
    """Return the number of the filter's bit for a pair; the number of bits is a power of two."""
    key = np.uint64(user) * _HASH_A + np.uint64(item) * _HASH_B
    return (key >> _HALF) & np.uint64(len(bits) * 8 - 1)


@outer
def fill(indptr_U1: Any, items_E: Any, bits: Any) -> Any:
    """Set the bits of all positives."""
    for user in range(len(indptr_U1) - 1):
        for e in range(indptr_U1[user], indptr_U1[user + 1]):
            bit = bit_of(user, items_E[e], bits)
            bits[bit >> np.uint64(3)] |= np.uint8(1 << (bit & np.uint64(7)))
    return None


@inner
def is_known(indptr_U1: Any, items_E: Any, bits: Any, user: Any, item: Any) -> Any:
    """Return whether an item is among those that are no negatives of a context."""
    bit = bit_of(user, item, bits)
    if not (bits[bit >> np.uint64(3)] >> np.uint8(bit & np.uint64(7))) & np.uint8(1):
        return False
    return is_among(items_E, indptr_U1[user], indptr_U1[user + 1], item)


@inner
def is_among(sorted_E: Any, first: Any, last: Any, item: Any) -> Any:
    """Return whether an item is one of sorted_E[first:last]."""
    found = _first_at_least(sorted_E, first, last, item)
    return found < last and sorted_E[found] == item


@inner
def _first_at_least(sorted_E: Any, first: Any, last: Any, item: Any) -> Any:
    """Return the index of the first of sorted_E[first:last] that is not less than ``item``."""
    low, size = first, last - first
    while size > 0:
        half = size >> 1
        below = sorted_E[low + half] < item
        low = low + half + 1 if below else low
        size = size - half - 1 if below else half
    return low


@inner
def nth_unknown(sorted_E: Any, first: Any, last: Any, r: Any) -> Any:
    """r + #{j : p_j - j <= r} is the r-th item that is not among sorted_E[first:last]."""
    low, size = first, last - first
    while size > 0:
        half = size >> 1
        middle = low + half
        below = sorted_E[middle] - (middle - first) <= r
        low = middle + 1 if below else low
        size = size - half - 1 if below else half
    return r + low - first


@inner
def unknown_item(
    seed: Any, tail: Any, row: Any, slot: Any, first: Any, last: Any, unknown: Any, known_E: Any
) -> Any:
    """Draw uniformly from the items that are not among known_E[first:last]."""
    w0, w1, _, _ = words(seed, row, slot, tail)
    place, _ = index_and_fraction(unknown, w0, w1)
    return nth_unknown(known_E, first, last, np.int64(place))
