"""The lists of many users in one sweep over the items, most of which small integers rule out.

    u ≈ a p,  v_i ≈ c_i q_i                    p and q are integers from -127 to 127
    |u · v_i - a c_i (p · q_i)| ≤ e = |a p| max_i |v_i - c_i q_i| + |u - a p| max_i |v_i|

    s_i ≤ a c_i (p · q_i) + b_i + e            without item weights
    s_i ≤ |u| max |v_i| + max b_i              over the items of a tile
    s_i ≤ |u| |v_i| + b_i + m_i                with item weights, whose sum is m_i

A product of such integers reads a quarter of the bytes, and processors have instructions for it.
An item whose bound is below the K-th best score so far cannot be in the list; others are scored
exactly. The items that the memory of a context names come first, so that the bounds without a
memory hold for all that the sweep looks at, and the K-th best score is high from the start. The
items of a tile stay in the nearest cache while all contexts of a block meet them. Items with large
biases and long vectors have the first places, so that a context can pass over most of the later
tiles as a whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sdgar.kernels.compiled import inner, outer
from sdgar.kernels.numba.known import is_among
from sdgar.kernels.numba.math import product
from sdgar.kernels.numba.threads import prefetch_row
from sdgar.kernels.numba.topk import in_order, is_better, sink

GREATEST = 127
"""The greatest integer of a table."""
TILE = 128
"""The items of a tile."""
WIDTHS = 64, 128
"""The widths that rows of integers can have: they are filled up to the next one."""
_AHEAD = 8
"""Vectors between the one that is prefetched and the one that is scored."""
NOT_NAMED = np.float32(-0.0)
"""What a memory has for items that it does not name: a sum in which 0 occurs is never -0."""
_NOT_NAMED_BITS = np.int32(-(2**31))
"""The bits of that number, which equals 0 and is not the same."""
_ROUNDING = np.float32(1e-6)
"""What rounding may take away from a score, for each unit of it: more than it ever does."""


@outer
def in_integers(users_B, user_UD, rest, longest, slack, u_BD, p_BD, a_B, error_B):
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


def _products_of(width: int) -> Any:
    """Make the function for rows of a width, which the compiler has to know to be fast."""

    @inner
    def products(p_D: Any, q_TD: Any, product_T: Any) -> Any:
        for i in range(len(q_TD)):
            total = np.int32(0)
            for d in range(width):
                total += np.int32(q_TD[i, d]) * np.int32(p_D[d])
            product_T[i] = total

    return products


_products_64, _products_128 = map(_products_of, WIDTHS)


@inner
def _products(p_D, q_TD, product_T):
    """p · q_i of one context and the items of a tile."""
    if len(p_D) == 64:
        _products_64(p_D, q_TD, product_T)
    else:
        _products_128(p_D, q_TD, product_T)


@inner
def _any_above(product_T, a, c_T, bias_T, edge):
    """Return whether the rough score of an item of a tile is not below the edge."""
    above = np.int32(0)
    for i in range(len(c_T)):
        rough = np.float32(product_T[i]) * c_T[i] * a + bias_T[i]
        above |= np.int32(not rough < edge)  # true of NaN, too
    return above


@inner
def _names(item, first, last, own_E, weight_start_I1, weight_column_F):
    """Return whether the memory of a context names an item."""
    for e in range(first, last):
        j = own_E[e]
        for f in range(weight_start_I1[j], weight_start_I1[j + 1]):
            if weight_column_F[f] == item:
                return True
    return False


@inner
def _edge(worst, error):
    """Return the rough score below which no item can be better than the worst of a list."""
    return worst - error - _ROUNDING * abs(worst)


@inner
def _remembered(
    u_D, norm, error, v_ID, most_I2, seen, end, seen_E, blocked_I, first, last, own_E,
    weight_start_I1, weight_column_F, weight_F, scale, memory_I, bits_I, item_K, score_K,
):  # fmt: skip
    """Put the items that a memory names into a list; return False if a score is not finite.

    ``bits_I`` are the bits of ``memory_I``, which names nothing before and after.
    """
    for e in range(first, last):
        j = own_E[e]
        for f in range(weight_start_I1[j], weight_start_I1[j + 1]):
            memory_I[weight_column_F[f]] += scale * weight_F[f] + np.float32(0)
    finite = True
    address, row_bytes = v_ID.ctypes.data, np.uint64(v_ID.shape[1] * 4)
    edge = _edge(score_K[0], error)
    for e in range(first, last):
        j = own_E[e]
        for f in range(weight_start_I1[j], weight_start_I1[j + 1]):
            if f + _AHEAD < len(weight_column_F):
                prefetch_row(address, weight_column_F[f + _AHEAD], row_bytes, row_bytes)
            i = weight_column_F[f]
            if bits_I[i] == _NOT_NAMED_BITS:
                continue
            memory, memory_I[i] = memory_I[i], NOT_NAMED
            rounding = _ROUNDING * abs(memory)
            if norm * most_I2[i, 0] + most_I2[i, 1] + memory + rounding < edge:
                continue
            if (len(blocked_I) and blocked_I[i]) or is_among(seen_E, seen, end, i):
                continue
            score = product(u_D, v_ID[i]) + most_I2[i, 1] + memory
            finite &= abs(score) < np.inf
            if is_better(score, i, score_K, item_K):
                sink(score_K, item_K, len(item_K), score, i)
                edge = _edge(score_K[0], error)
    return finite


@outer
def sweep(
    first, last, p_BD, u_BD, norm_B, a_B, error_B, edge_B, item_P, q_PD, c_P, bias_P, longest_G,
    most_G, v_ID, most_I2, product_T, memory_I, bits_I, starts_B, ends_B, seen_E, blocked_I,
    first_B, last_B, own_E, weight_start_I1, weight_column_F, weight_F, scale, items_BK, top_BK,
):  # fmt: skip
    """Fill lists first … last - 1; return the first that has a score of no number, or -1.

    Place p of the tables is that of item ``item_P[p]``, and tile g has the longest vector and the
    greatest bias ``longest_G[g]`` and ``most_G[g]``. ``most_I2`` has |v_i| and b_i side by side.
    """
    k, n_items = items_BK.shape[1], len(item_P)
    for b in range(first, last):
        items_BK[b] = -1
        top_BK[b] = -np.inf
        if not _remembered(
            u_BD[b], norm_B[b], error_B[b], v_ID, most_I2, starts_B[b], ends_B[b], seen_E,
            blocked_I, first_B[b], last_B[b], own_E, weight_start_I1, weight_column_F, weight_F,
            scale, memory_I, bits_I, items_BK[b], top_BK[b],
        ):  # fmt: skip
            return b
        edge_B[b] = _edge(top_BK[b, 0], error_B[b])
    for start in range(0, n_items, TILE):
        stop, g = min(start + TILE, n_items), start // TILE
        c_T, bias_T = c_P[start:stop], bias_P[start:stop]
        for b in range(first, last):
            if norm_B[b] * longest_G[g] + most_G[g] < edge_B[b]:
                continue
            _products(p_BD[b], q_PD[start:stop], product_T)
            # One test for the tile, by vectors; in most tiles nothing has to be looked at alone.
            if not _any_above(product_T, a_B[b], c_T, bias_T, edge_B[b]):
                continue
            for p in range(start, stop):
                # The edge may have risen since the test of the tile.
                if np.float32(product_T[p - start]) * c_P[p] * a_B[b] + bias_P[p] < edge_B[b]:
                    continue
                i = item_P[p]
                if len(blocked_I) and blocked_I[i]:
                    continue
                score = product(u_BD[b], v_ID[i]) + bias_P[p]
                if not abs(score) < np.inf:
                    return b
                if not is_better(score, i, top_BK[b], items_BK[b]):
                    continue
                if is_among(seen_E, starts_B[b], ends_B[b], i) or _names(
                    i, first_B[b], last_B[b], own_E, weight_start_I1, weight_column_F
                ):
                    continue
                sink(top_BK[b], items_BK[b], k, score, i)
                edge_B[b] = _edge(top_BK[b, 0], error_B[b])
    for b in range(first, last):
        in_order(top_BK[b], items_BK[b])
    return -1
