"""Co-occurrence, neighbours and their least squares on the CPU; see ``maths/neighbours.py``.

Every row is computed by one thread, in one order of adding up, so that its bytes do not depend on
the number of threads. Scratch memory is given by the caller, one for each call.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import inner, outer
from sdgar.kernels.numba.rows import Number64, Numbers, Row64, each_place, row_at
from sdgar.kernels.numba.topk import sink

_AT_ONCE = 8
"""The numbers of a system that are computed at a time."""
_BYTES = np.uint64(8)


@inner
def _count(item, start_I1, user_E, own_E, start_U1, item_E, weight_E, d_L, sum_I, met_I):
    """sum_j += Σ_u x_ui d_u x_uj; list the items j that were met, and give their number.

    d_u is that of a user with so many items. If all x are 1, there are no weights to read.
    """
    met, weighted = 0, len(weight_E) > 0
    for e in range(start_I1[item], start_I1[item + 1]):
        begin, end = start_U1[user_E[e]], start_U1[user_E[e] + 1]
        left = d_L[end - begin]
        if weighted:
            left *= own_E[e]
        for f in range(begin, end):
            other, term = item_E[f], left * weight_E[f] if weighted else left
            # A sum of 0 marks an item that was not met, so that no second array is looked at.
            if sum_I[other] == 0 and term > 0:
                met_I[met] = other
                met += 1
            sum_I[other] += term
    return met


@outer
def roots(first, last, start_I1, user_E, own_E, start_U1, d_L, root_I):
    """√G_ii = √(Σ_u x_ui d_u x_ui)."""
    weighted = len(own_E) > 0
    for i in range(first, last):
        total = np.float32(0)
        for e in range(start_I1[i], start_I1[i + 1]):
            left = d_L[start_U1[user_E[e] + 1] - start_U1[user_E[e]]]
            total += left * own_E[e] * own_E[e] if weighted else left
        root_I[i] = np.sqrt(total)


@outer
def nearest(
    first, last, start_I1, user_E, own_E, start_U1, item_E, weight_E, d_L, root_I, shrink, near_IK,
    both_IK, sum_I, met_I, value_K, heap_K,
):  # fmt: skip
    """Find the k items j with the largest G_ij / (√(G_ii G_jj) + shrink), and their G_ij.

    The items are in ascending order. An item with fewer neighbours has -1 for the rest.
    """
    k = near_IK.shape[1]
    for i in range(first, last):
        met = _count(i, start_I1, user_E, own_E, start_U1, item_E, weight_E, d_L, sum_I, met_I)
        size = 0
        for m in range(met):
            j = met_I[m]
            if j == i:
                continue
            value = sum_I[j] / (root_I[i] * root_I[j] + shrink)
            if size < k:
                # A heap that is not full yet grows by a leaf that rises.
                at = size
                size += 1
                while at > 0:
                    parent = (at - 1) // 2
                    if value_K[parent] < value or (value_K[parent] == value and heap_K[parent] < j):
                        break
                    value_K[at], heap_K[at] = value_K[parent], heap_K[parent]
                    at = parent
                value_K[at], heap_K[at] = value, j
            elif value > value_K[0] or (value == value_K[0] and j < heap_K[0]):
                sink(value_K, heap_K, k, value, j)
        for n in range(1, size):  # a few numbers, by insertion
            item, at = heap_K[n], n
            while at > 0 and heap_K[at - 1] > item:
                heap_K[at] = heap_K[at - 1]
                at -= 1
            heap_K[at] = item
        for n in range(k):
            near_IK[i, n] = heap_K[n] if n < size else -1
            both_IK[i, n] = sum_I[heap_K[n]] if n < size else 0.0
        # Only what was met is cleared, so that a row costs its own terms and not all items.
        for m in range(met):
            sum_I[met_I[m]] = 0.0


@inner
def _place(p, n, k):
    """The place of G_pn, p ≤ n < k, among the numbers of a triangle that are kept row by row."""
    return p * k - p * (p + 1) // 2 + n


@outer
def between(
    first, last, start_I1, user_E, own_E, start_U1, item_E, weight_E, d_L, near_BK, from_I1, of_R,
    g_BP, sum_I, met_I,
):  # fmt: skip
    """Fill row p of the upper half of G_SS of every item whose p-th neighbour is j, for some j."""
    k = near_BK.shape[1]
    for j in range(first, last):
        if from_I1[j] == from_I1[j + 1]:
            continue
        met = _count(j, start_I1, user_E, own_E, start_U1, item_E, weight_E, d_L, sum_I, met_I)
        for r in range(from_I1[j], from_I1[j + 1]):
            b, p = of_R[r], 0
            while near_BK[b, p] != j:
                p += 1
            for n in range(p, k):
                if near_BK[b, n] < 0:
                    break
                g_BP[b, _place(p, n, k)] = sum_I[near_BK[b, n]]
        for m in range(met):
            sum_I[met_I[m]] = 0.0


def scratch_for_system(k: int) -> NDArray[np.float64]:
    """Return scratch memory for ``solve``, for items with k neighbours: the rows of [A G_Sb]."""
    return np.empty((k, -(-(k + 1) // _AT_ONCE) * _AT_ONCE))


@each_place
def _less(out: Row64, x: Row64, c: Number64) -> Numbers:
    """Out -= c x."""
    return out - c * x


@each_place
def _less_four(
    out: Row64, x0: Row64, x1: Row64, x2: Row64, x3: Row64,
    c0: Number64, c1: Number64, c2: Number64, c3: Number64,
) -> Numbers:  # fmt: skip
    """Out -= c0 x0, and then the others."""
    return (((out - c0 * x0) - c1 * x1) - c2 * x2) - c3 * x3


@each_place
def _over(out: Row64, c: Number64) -> Numbers:
    """Out /= c."""
    return out / c


@each_place
def _clear(out: Row64) -> Numbers:
    """Out = 0."""
    return out.zero()


@inner
def _from(a_KN, row, column):
    """The address of a row, from the vector on that has a column."""
    return row_at(a_KN, row) + np.uint64(column & -_AT_ONCE) * _BYTES


@outer
def solve(first, last, near_BK, both_BK, g_BP, l2, weight_BK, a_KN, x_K):
    """w_b = (G_SS + λ I)^-1 G_Sb by Cholesky: U'U = A, then U'y = G_Sb and U w = y, in float64.

    The right side is one more column. Four rows at a time are finished and taken off those below,
    in the order of rows. Rows are computed by whole vectors, which reach to the left of the
    diagonal and to the right of the last column; what is there is never read.
    """
    k = near_BK.shape[1]
    for b in range(first, last):
        size = 0
        while size < k and near_BK[b, size] >= 0:
            size += 1
        width = (size + _AT_ONCE) & -_AT_ONCE
        for p in range(size):
            _clear(_from(a_KN, p, p), width - (p & -_AT_ONCE))
            for n in range(p, size):
                a_KN[p, n] = g_BP[b, _place(p, n, k)]
            a_KN[p, p] += l2
            a_KN[p, size] = both_BK[b, p]
        for p in range(0, size, 4):
            end = min(p + 4, size)
            for q in range(p, end):
                row, n = _from(a_KN, q, q), width - (q & -_AT_ONCE)
                # Rows of one group of four depend on each other, and are finished one by one.
                for o in range(p, q):
                    _less(row, _from(a_KN, o, q), a_KN[o, q], n)
                _over(row, np.sqrt(a_KN[q, q]), n)
            for m in range(end, size):
                _less_four(
                    _from(a_KN, m, m), _from(a_KN, p, m), _from(a_KN, p + 1, m),
                    _from(a_KN, p + 2, m), _from(a_KN, p + 3, m),
                    a_KN[p, m], a_KN[p + 1, m], a_KN[p + 2, m], a_KN[p + 3, m],
                    width - (m & -_AT_ONCE),
                )  # fmt: skip
        for p in range(size - 1, -1, -1):
            total = a_KN[p, size]
            for n in range(p + 1, size):
                total -= a_KN[p, n] * x_K[n]
            x_K[p] = total / a_KN[p, p]
        for n in range(k):
            weight_BK[b, n] = x_K[n] if n < size else 0.0
