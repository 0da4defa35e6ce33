"""Find the k-th smallest of numbers that do not fit in memory together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_BINS = 1 << 16
_FEW = 1 << 22
"""The numbers that are sorted in memory."""


def kth_smallest(parts: Sequence[NDArray[np.int64]], k: int, few: int = _FEW) -> int:
    """Return the number at place k, counted from 0, of all parts in ascending order.

    Numbers are counted in bins of equal width; the bin that has place k is divided again, until
    what is in it fits in memory.
    """
    filled = [part for part in parts if len(part)]
    low, high = min(int(p.min()) for p in filled), max(int(p.max()) for p in filled)
    count = sum(map(len, filled))
    while count > few and low < high:
        width = -(-(high - low + 1) // _BINS)
        counts = np.zeros(_BINS, np.int64)
        for part in filled:
            inside = part[(part >= low) & (part <= high)]
            # Without a sign, no difference of two numbers of 64 bits is too large.
            above = inside.astype(np.uint64) - np.uint64(low % 2**64)
            counts += np.bincount((above // np.uint64(width)).astype(np.int64), minlength=_BINS)
        ends = np.cumsum(counts)
        bin_ = int(np.searchsorted(ends, k, side="right"))
        k -= int(ends[bin_] - counts[bin_])
        low, high, count = low + bin_ * width, min(high, low + (bin_ + 1) * width - 1), counts[bin_]
    if low == high:
        return low
    inside = np.concatenate([part[(part >= low) & (part <= high)] for part in filled])
    return int(np.partition(inside, k)[k])
