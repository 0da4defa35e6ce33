"""Rough scores by integers of 8 bits, and the few items that they cannot rule out.

    u ≈ a p,  v_i ≈ c_i q_i                    p and q are integers from -127 to 127
    |u · v_i - a c_i (p · q_i)| ≤ e = |a p| max_i |v_i - c_i q_i| + |u - a p| max_i |v_i|

No item whose rough score is more than 2 e below the K-th largest one can be among the K best.

A product of such integers reads a quarter of the bytes, and processors have instructions for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sdgar.kernels.compiled import inner, outer, summing
from sdgar.kernels.numba.topk import in_order, select_rows, sink

_CHUNK = 32
GREATEST = 127
"""The greatest integer of a table."""
BLOCK = 128
"""The items whose integers stay in the nearest cache while all contexts meet them."""


@outer
def in_integers(
    users_B: Any, user_UD: Any, rest: Any, longest: Any, slack: Any, u_BD: Any, p_BD: Any, a_B: Any,
    error_B: Any,
) -> Any:  # fmt: skip
    """u ≈ a p of some contexts, and the bound e of their errors, with what rounding may add."""
    for b in range(len(users_B)):
        greatest = np.float32(0)
        for d in range(u_BD.shape[1]):
            u_BD[b, d] = user_UD[users_B[b], d]
            greatest = max(greatest, abs(u_BD[b, d]))
        a = greatest / np.float32(GREATEST) if greatest > 0 else np.float32(1)
        near = far = whole = np.float32(0)
        for d in range(u_BD.shape[1]):
            p_BD[b, d] = np.int8(np.rint(u_BD[b, d] / a))
            by_integers = a * np.float32(p_BD[b, d])
            near += by_integers * by_integers
            far += (u_BD[b, d] - by_integers) ** 2
            whole += u_BD[b, d] * u_BD[b, d]
        a_B[b] = a
        error_B[b] = np.sqrt(near) * rest + (np.sqrt(far) + slack * np.sqrt(whole)) * longest
    return None


@inner
def _products(p_D: Any, q_ID: Any, first: Any, last: Any, product_I: Any) -> Any:
    """p · q_i of one context and some items."""
    for i in range(first, last):
        total = np.int32(0)
        for d in range(len(p_D)):
            total += np.int32(q_ID[i, d]) * np.int32(p_D[d])
        product_I[i] = total


@outer
def integer_products(first: Any, last: Any, p_BD: Any, q_ID: Any, product_BI: Any) -> Any:
    """p · q_i of all contexts and some blocks of items, which stay in the nearest cache."""
    for block in range(first, last):
        start, stop = block * BLOCK, min((block + 1) * BLOCK, len(q_ID))
        for b in range(len(p_BD)):
            _products(p_BD[b], q_ID, start, stop, product_BI[b])
    return None


@inner
def _as_scores(product_I: Any, a: Any, c_I: Any, bias_I: Any, rough_I: Any) -> Any:
    for i in range(len(rough_I)):
        rough_I[i] = np.float32(product_I[i]) * c_I[i] * a + bias_I[i]


@summing
def product(u_D: Any, v_D: Any) -> Any:
    """u · v of two vectors."""
    total = np.float32(0)
    for d in range(len(u_D)):
        total += u_D[d] * v_D[d]
    return total


@inner
def _rescore(
    edge: Any, u_D: Any, v_ID: Any, product_I: Any, a: Any, c_I: Any, bias_I: Any, rough_I: Any,
    seen: Any, end: Any, seen_E: Any, blocked_I: Any, item_K: Any, score_K: Any,
) -> Any:  # fmt: skip
    """Fill a list by exact scores, from items whose rough score is at the edge or above it.

    What item weights have added to a rough score is exact, and stays: it is what remains when the
    product of integers is taken away again.
    """
    k, n_items = len(item_K), len(rough_I)
    item_K[:] = -1
    score_K[:] = -np.inf
    worst = score_K[0]
    for start in range(0, n_items, _CHUNK):
        stop = min(start + _CHUNK, n_items)
        if stop - start == _CHUNK:
            above = np.int32(0)
            for o in range(_CHUNK):
                above |= np.int32(rough_I[start + o] >= edge)
            if not above:
                continue
        for i in range(start, stop):
            if rough_I[i] < edge:
                continue
            while seen < end and seen_E[seen] < i:
                seen += 1
            if (seen < end and seen_E[seen] == i) or (len(blocked_I) and blocked_I[i]):
                continue
            memory = rough_I[i] - (np.float32(product_I[i]) * c_I[i] * a + bias_I[i])
            score = product(u_D, v_ID[i]) + bias_I[i] + memory
            if score > worst:  # items ascend, so an equal score displaces none before it
                sink(score_K, item_K, k, score, i)
                worst = score_K[0]
    in_order(score_K, item_K)


@outer
def best(
    product_BI: Any, u_BD: Any, a_B: Any, error_B: Any, v_ID: Any, c_I: Any, bias_I: Any,
    rough_BI: Any, starts_B: Any, ends_B: Any, seen_E: Any, blocked_I: Any, first_B: Any,
    last_B: Any, own_E: Any, weight_start_I1: Any, weight_column_F: Any, weight_F: Any, scale: Any,
    items_BK: Any, top_BK: Any,
) -> Any:  # fmt: skip
    """Fill the lists of all contexts; return the first that has a score of no number, or -1.

    ``rough_BI`` is scratch memory for one row of rough scores.
    """
    k = items_BK.shape[1]
    rough_I = rough_BI[0]
    for b in range(len(u_BD)):
        _as_scores(product_BI[b], a_B[b], c_I, bias_I, rough_I)
        for e in range(first_B[b], last_B[b]):
            j = own_E[e]
            for f in range(weight_start_I1[j], weight_start_I1[j + 1]):
                rough_I[weight_column_F[f]] += scale * weight_F[f]
        if select_rows(
            rough_BI, starts_B[b : b + 1], ends_B[b : b + 1], seen_E, blocked_I, 0, 1,
            items_BK[b : b + 1], top_BK[b : b + 1],
        ) >= 0:  # fmt: skip
            return b
        edge = top_BK[b, k - 1] - np.float32(2) * error_B[b]
        _rescore(
            edge, u_BD[b], v_ID, product_BI[b], a_B[b], c_I, bias_I, rough_I, starts_B[b],
            ends_B[b], seen_E, blocked_I, items_BK[b], top_BK[b],
        )  # fmt: skip
    return -1
