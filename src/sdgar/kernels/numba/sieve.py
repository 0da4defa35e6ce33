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
from sdgar.kernels.numba.topk import sink

_CHUNK = 32
BLOCK = 128
"""The items whose integers stay in the nearest cache while all contexts meet them."""


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


@summing
def _product(u_BD: Any, v_ID: Any, b: Any, i: Any) -> Any:
    total = np.float32(0)
    for d in range(u_BD.shape[1]):
        total += u_BD[b, d] * v_ID[i, d]
    return total


@outer
def rescore(
    rough_BI: Any, product_BI: Any, edge_B: Any, u_BD: Any, v_ID: Any, a_B: Any, c_I: Any,
    bias_I: Any, starts_B: Any, ends_B: Any, seen_E: Any, blocked_I: Any, items_BK: Any,
    top_BK: Any,
) -> Any:  # fmt: skip
    """Give the K best items by their exact scores, among those whose rough score is at the edge.

    What a memory has added to a rough score is exact, and stays: it is what is left when the
    product of integers is taken away again.
    """
    k, n_items = items_BK.shape[1], rough_BI.shape[1]
    for b in range(len(rough_BI)):
        rough_I, item_K, score_K, edge = rough_BI[b], items_BK[b], top_BK[b], edge_B[b]
        item_K[:] = -1
        score_K[:] = -np.inf
        worst = score_K[0]
        seen, end = starts_B[b], ends_B[b]
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
                by_integers = np.float32(product_BI[b, i]) * c_I[i] * a_B[b] + bias_I[i]
                memory = rough_I[i] - by_integers
                score = _product(u_BD, v_ID, b, i) + bias_I[i] + memory
                if score > worst:  # items ascend, so an equal score displaces none before it
                    sink(score_K, item_K, k, score, i)
                    worst = score_K[0]
        for size in range(k - 1, 0, -1):
            score, item = score_K[size], item_K[size]
            score_K[size], item_K[size] = score_K[0], item_K[0]
            sink(score_K, item_K, size, score, item)
    return None
