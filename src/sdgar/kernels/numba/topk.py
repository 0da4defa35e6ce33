"""The K best scores of rows on the CPU: one pass, a threshold and a small heap.

A row is read once and never written, so the scores may be a view of any array. Ranks are a total
order: score descending, then item ascending.

``select_candidates`` scores and ranks some candidates only: what an index proposes, or what the
weights of an item of the history name. Every other item has no score there and costs nothing.
"""

from __future__ import annotations

import numpy as np
from numba.types import Array, boolean, float32, int32, int64

from sdgar.kernels.compiled import inner, kept, outer
from sdgar.kernels.numba.rows import dot_rows, row_at
from sdgar.kernels.numba.threads import prefetch_row

_SCORES_BI = Array(float32, 2, "C", readonly=True)
_INT64 = Array(int64, 1, "C", readonly=True)
_ITEMS_E = Array(int32, 1, "C", readonly=True)
_BLOCKED_I = Array(boolean, 1, "C", readonly=True)

# Scores compared at once before any is looked at alone: long enough for full vectors, short
# enough that a chunk with a candidate costs little.
_CHUNK = 32


@kept("void(float32[::1], int32[::1], int64, float32, int32)", nogil=True)
def sink(score_K, item_K, size, score, item):
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


@inner
def is_better(score, item, score_K, item_K):
    """Return whether an item is better than the worst of a heap, which is its root."""
    return score > score_K[0] or (score == score_K[0] and item < item_K[0])


@kept("void(float32[::1], int32[::1])", nogil=True)
def in_order(score_K, item_K):
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
def select_rows(scores_BI, starts_B, ends_B, seen_E, blocked_I, first, last, items_BK, top_BK):
    """Fill rows ``first … last - 1`` of the two outputs; return a row that is not finite, or -1.

    ``seen_E[starts_B[b] : ends_B[b]]`` are the items, ascending, that row b must not get;
    ``blocked_I`` (empty: none) the items that no row must get. Where fewer than K items are left
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


@inner
def _add(bias_I, score_I):
    for i in range(len(score_I)):
        score_I[i] += bias_I[i]


@outer
def finish_rows(
    scores_BI, bias_I, first_B, last_B, own_E, weight_start_I1, weight_column_F, weight_F, scale,
    starts_B, ends_B, seen_E, blocked_I, items_BK, top_BK,
):  # fmt: skip
    """s_ci += b_i + scale Σ_{j ∈ I_c} w_ji, then the K best of each row, as ``select_rows`` does.

    ``own_E[first_B[c] : last_B[c]]`` are the items I_c. Returns a row that is not finite, or -1.
    """
    for c in range(len(scores_BI)):
        _add(bias_I, scores_BI[c])
        for e in range(first_B[c], last_B[c]):
            j = own_E[e]
            for f in range(weight_start_I1[j], weight_start_I1[j + 1]):
                scores_BI[c, weight_column_F[f]] += scale * weight_F[f]
        # The row is still in the cache, and is ranked before the next one takes its place.
        bad = select_rows(
            scores_BI, starts_B, ends_B, seen_E, blocked_I, c, c + 1, items_BK, top_BK
        )
        if bad >= 0:
            return bad
    return -1


_AHEAD = 8
"""Candidates between the vector that is prefetched and the one that is read."""
_SCORED, _LEFT_OUT = 1, 2


@outer
def select_candidates(
    u_BD, v_ID, bias_I, own_first_B, own_last_B, own_E, weight_start_I1, weight_column_F, weight_F,
    scale, hits_BN, seen_first_B, seen_last_B, seen_E, blocked_I, state_I, score_I, found_I,
    items_BK, top_BK,
):  # fmt: skip
    """Fill the two outputs, best first; return a row that is not finite, or -1.

        s_ci = u_c · v_i + b_i + scale Σ_{j ∈ I_c} w_ji

    ``own_E`` holds the items I_c, ``seen_E`` the items that row c must not get, and ``blocked_I``
    (empty: none) the items that no row must get. A hit below 0 does not count. ``state_I``,
    ``score_I`` and ``found_I`` are scratch memory with a number for each item; the first is all
    zeros, before and afterwards.
    """
    k = items_BK.shape[1]
    address, row_bytes = v_ID.ctypes.data, np.uint64(v_ID.shape[1] * 4)
    for row in range(len(u_BD)):
        for e in range(seen_first_B[row], seen_last_B[row]):
            state_I[seen_E[e]] = _LEFT_OUT
        count = 0
        for n in range(hits_BN.shape[1]):
            item = hits_BN[row, n]
            if item >= 0 and state_I[item] == 0 and not (len(blocked_I) and blocked_I[item]):
                state_I[item] = _SCORED
                found_I[count] = item
                count += 1
        for e in range(own_first_B[row], own_last_B[row]):
            j = own_E[e]
            for f in range(weight_start_I1[j], weight_start_I1[j + 1]):
                item = weight_column_F[f]
                if state_I[item] == 0 and not (len(blocked_I) and blocked_I[item]):
                    state_I[item] = _SCORED
                    found_I[count] = item
                    count += 1
        for c in range(count):
            if c + _AHEAD < count:
                prefetch_row(address, found_I[c + _AHEAD], row_bytes, row_bytes)
            item = found_I[c]
            score_I[item] = (
                dot_rows(row_at(u_BD, row), row_at(v_ID, item), u_BD.shape[1]) + bias_I[item]
            )
        # The terms are added to the score one by one, as the whole model adds them.
        for e in range(own_first_B[row], own_last_B[row]):
            j = own_E[e]
            for f in range(weight_start_I1[j], weight_start_I1[j + 1]):
                item = weight_column_F[f]
                if state_I[item] == _SCORED:
                    score_I[item] += scale * weight_F[f]
        item_K, score_K = items_BK[row], top_BK[row]
        for place in range(k):
            item_K[place] = -1
            score_K[place] = -np.inf
        finite = True
        for c in range(count):
            item = found_I[c]
            state_I[item] = 0
            score = score_I[item]
            # An item with the score -inf ends here too: the root of a heap that is not full has
            # item -1.
            if score < score_K[0] or (score == score_K[0] and item > item_K[0]):
                continue
            if not score < np.inf:
                finite = False
                continue
            sink(score_K, item_K, k, score, np.int32(item))
        for e in range(seen_first_B[row], seen_last_B[row]):
            state_I[seen_E[e]] = 0
        if not finite:
            return row
        in_order(score_K, item_K)
    return -1
