"""The k best of some candidates on the CPU, scored as the whole model would score them.

A candidate is what an index proposes, or what the weights of an item of the history name. Every
other item has no score here and costs nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sdgar.kernels.compiled import outer
from sdgar.kernels.numba.rows import dot_rows, row_at
from sdgar.kernels.numba.threads import prefetch_row
from sdgar.kernels.numba.topk import sink

_AHEAD = 8
"""Candidates between the vector that is prefetched and the one that is read."""
_SCORED, _LEFT_OUT = 1, 2


@outer
def select_candidates(
    u_BD: Any, v_ID: Any, bias_I: Any, own_first_B: Any, own_last_B: Any, own_E: Any,
    weight_start_I1: Any, weight_column_F: Any, weight_F: Any, scale: Any, hits_BN: Any,
    seen_first_B: Any, seen_last_B: Any, seen_E: Any, blocked_I: Any, state_I: Any, score_I: Any,
    found_I: Any, items_BK: Any, top_BK: Any,
) -> Any:  # fmt: skip
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
        for size in range(k - 1, 0, -1):
            score, item_at = score_K[size], item_K[size]
            score_K[size], item_K[size] = score_K[0], item_K[0]
            sink(score_K, item_K, size, score, item_at)
    return -1
