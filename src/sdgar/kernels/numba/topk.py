"""Top-k of score rows on the CPU: one pass, a threshold and a small heap.

A row is read once and never written, so the scores may be a view of anything. Ranks are a
total order: score descending, then item ascending.
"""

from __future__ import annotations

import numpy as np
from numba.core.types import Array, boolean, float32, int32, int64
from numpy.typing import NDArray

from sdgar.kernels.compiled import kept

_SCORES_BI = Array(float32, 2, "C", readonly=True)
_INT64 = Array(int64, 1, "C", readonly=True)
_ITEMS_E = Array(int32, 1, "C", readonly=True)
_BLOCKED_I = Array(boolean, 1, "C", readonly=True)

# Scores compared at once before any is looked at alone: long enough for full vectors, short
# enough that a chunk with a candidate costs little.
_CHUNK = 32


@kept("void(float32[::1], int32[::1], int64, float32, int32)", nogil=True)
def sink(
    score_K: NDArray[np.float32], item_K: NDArray[np.int32], size: int, score: float, item: int
) -> None:
    """Put (score, item) at the root of a heap of ``size`` whose root is the worst entry.

    a is worse than b  ⇔  s_a < s_b, or s_a = s_b and item_a > item_b
    """
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (
            score_K[other] < score_K[child]
            or (score_K[other] == score_K[child] and item_K[other] > item_K[child])
        ):
            child = other
        if score < score_K[child] or (score == score_K[child] and item > item_K[child]):
            break
        score_K[at] = score_K[child]
        item_K[at] = item_K[child]
        at = child
    score_K[at] = score
    item_K[at] = item


@kept("void(float32[::1], int32[::1])", nogil=True)
def in_order(score_K: NDArray[np.float32], item_K: NDArray[np.int32]) -> None:
    """Turn a heap into a list, best first."""
    for size in range(len(item_K) - 1, 0, -1):
        score, item = score_K[size], item_K[size]
        score_K[size], item_K[size] = score_K[0], item_K[0]
        sink(score_K, item_K, size, score, item)


@kept(
    int64(
        _SCORES_BI,
        _INT64,
        _INT64,
        _ITEMS_E,
        _BLOCKED_I,
        int64,
        int64,
        int32[:, ::1],
        float32[:, ::1],
    ),
    nogil=True,
)
def select_rows(
    scores_BI: NDArray[np.float32],
    starts_B: NDArray[np.int64],
    ends_B: NDArray[np.int64],
    seen_E: NDArray[np.int32],
    blocked_I: NDArray[np.bool_],
    first: int,
    last: int,
    items_BK: NDArray[np.int32],
    top_BK: NDArray[np.float32],
) -> int:
    """Fill rows ``first … last - 1`` of the two outputs; return a row that is not finite, or -1.

    ``seen_E[starts_B[b] : ends_B[b]]`` are the items, ascending, that row b must not get;
    ``blocked_I`` (empty: none) those that no row must get. Where fewer than K items are left
    the tail is item -1 with score -inf.

    A score that is not above the threshold, the worst of the K best so far, is passed over.
    The test is written ``not s <= threshold``: it is true for NaN too, so NaN and +inf reach
    the slow branch, wherever they are, and are reported from there at no cost to the scan.
    """
    n_items = scores_BI.shape[1]
    k = items_BK.shape[1]
    for row in range(first, last):
        score_I = scores_BI[row]
        item_K = items_BK[row]
        score_K = top_BK[row]
        item_K[:] = -1
        score_K[:] = -np.inf
        threshold = score_K[0]
        seen, end = starts_B[row], ends_B[row]
        for start in range(0, n_items, _CHUNK):
            stop = min(start + _CHUNK, n_items)
            if stop - start == _CHUNK:
                above = np.int32(0)
                for offset in range(_CHUNK):
                    above |= np.int32(not score_I[start + offset] <= threshold)
                if not above:
                    continue
            for item in range(start, stop):
                score = score_I[item]
                if score <= threshold:
                    continue
                if not score < np.inf:
                    return row
                while seen < end and seen_E[seen] < item:
                    seen += 1
                if seen < end and seen_E[seen] == item:
                    continue
                if len(blocked_I) and blocked_I[item]:
                    continue
                # Items come in ascending order, so an equal score never displaces an earlier one.
                sink(score_K, item_K, k, score, item)
                threshold = score_K[0]
        in_order(score_K, item_K)
    return -1
