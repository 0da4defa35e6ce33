"""The scores of a few contexts on the CPU: too few for the products of a library to be fast.

Four contexts and four items at a time share what is read of their vectors. Every score is a sum in
one order, whoever else is asked for and however many threads there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sdgar.kernels.compiled import outer, summing

FOUR = 4
"""The contexts, and the items, whose sums are computed at once."""
BLOCK = 64
"""The items whose vectors stay in the nearest cache while all contexts meet them."""


@summing
def _tile(u_PD: Any, v_ID: Any, c: Any, i: Any) -> Any:
    """u · v of four contexts and four items."""
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = np.float32(0)
    c0 = c1 = c2 = c3 = d0 = d1 = d2 = d3 = np.float32(0)
    for k in range(u_PD.shape[1]):
        w, x, y, z = v_ID[i, k], v_ID[i + 1, k], v_ID[i + 2, k], v_ID[i + 3, k]
        u = u_PD[c, k]
        a0 += u * w
        a1 += u * x
        a2 += u * y
        a3 += u * z
        u = u_PD[c + 1, k]
        b0 += u * w
        b1 += u * x
        b2 += u * y
        b3 += u * z
        u = u_PD[c + 2, k]
        c0 += u * w
        c1 += u * x
        c2 += u * y
        c3 += u * z
        u = u_PD[c + 3, k]
        d0 += u * w
        d1 += u * x
        d2 += u * y
        d3 += u * z
    return a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3


@outer
def score_blocks(first: Any, last: Any, u_PD: Any, v_ID: Any, bias_I: Any, scores_PI: Any) -> Any:
    """s = u · v + b of some blocks of items, for contexts whose number is a multiple of four.

    There are four items or more. The last tile may meet items of the one before it, whose scores it
    computes again.
    """
    n_items = len(v_ID)
    for block in range(first, last):
        start, stop = block * BLOCK, min((block + 1) * BLOCK, n_items)
        for c in range(0, len(u_PD), FOUR):
            for place in range(start, stop, FOUR):
                i = min(place, n_items - FOUR)
                found = _tile(u_PD, v_ID, c, i)
                for x in range(FOUR):
                    for y in range(FOUR):
                        scores_PI[c + x, i + y] = found[FOUR * x + y] + bias_I[i + y]
    return None


@outer
def add_memory(
    scores_BI: Any, first_B: Any, last_B: Any, own_E: Any, weight_start_I1: Any,
    weight_column_F: Any, weight_F: Any, scale: Any,
) -> Any:  # fmt: skip
    """s_ci += scale Σ_{j ∈ I_c} w_ji, where ``own_E[first_B[c] : last_B[c]]`` are the items I_c."""
    for c in range(len(first_B)):
        for e in range(first_B[c], last_B[c]):
            j = own_E[e]
            for f in range(weight_start_I1[j], weight_start_I1[j + 1]):
                scores_BI[c, weight_column_F[f]] += scale * weight_F[f]
    return None
