"""Products of vectors become scores and lists, row by row, while a row is in the cache."""

from __future__ import annotations

from typing import Any

from sdgar.kernels.compiled import inner, outer
from sdgar.kernels.numba.topk import select_rows


@inner
def _add(bias_I: Any, score_I: Any) -> Any:
    for i in range(len(score_I)):
        score_I[i] += bias_I[i]


@outer
def finish_rows(
    scores_BI: Any, bias_I: Any, first_B: Any, last_B: Any, own_E: Any, weight_start_I1: Any,
    weight_column_F: Any, weight_F: Any, scale: Any, starts_B: Any, ends_B: Any, seen_E: Any,
    blocked_I: Any, items_BK: Any, top_BK: Any,
) -> Any:  # fmt: skip
    """s_ci += b_i + scale Σ_{j ∈ I_c} w_ji, then the K best of each row, as ``select_rows`` does.

    ``own_E[first_B[c] : last_B[c]]`` are the items I_c. Returns a row that is not finite, or -1.
    """
    for c in range(len(scores_BI)):
        _add(bias_I, scores_BI[c])
        for e in range(first_B[c], last_B[c]):
            j = own_E[e]
            for f in range(weight_start_I1[j], weight_start_I1[j + 1]):
                scores_BI[c, weight_column_F[f]] += scale * weight_F[f]
        bad = select_rows(
            scores_BI, starts_B, ends_B, seen_E, blocked_I, c, c + 1, items_BK, top_BK
        )
        if bad >= 0:
            return bad
    return -1
