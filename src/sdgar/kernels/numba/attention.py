"""Attention within short sequences on the CPU, and its gradients.

    a_tt' = q_t · k_t' / √d + β_{t - t'},    l_t = log Σ_{t' ≤ t} exp(a_tt')
    p_tt' = exp(a_tt' - l_t),                y_t = Σ_{t' ≤ t} p_tt' v_t'

in each head, over the places of one sequence. With g_t the gradient of y_t and
δ_tt' = p_tt' (g_t · v_t' - g_t · y_t), the gradients are

    ∇q_t = Σ_{t' ≤ t} δ_tt' k_t' / √d,    ∇k_t' = Σ_{t ≥ t'} δ_tt' q_t / √d,
    ∇v_t' = Σ_{t ≥ t'} p_tt' g_t,         ∇β_b = Σ_t δ_{t, t - b}

A sequence is computed by one thread, from the rows x_t = (q_t, k_t, v_t) of its places. Nothing is
filled up to a common length, and matrices are so small that a call of a library for each would
take longer than to compute it.
"""

from __future__ import annotations

import numpy as np

from sdgar.kernels.compiled import inner, outer, summing
from sdgar.kernels.numba.math import exp_negative


@summing
def _dot(x_TE, t, at, y_TE, s, other, dim):
    """Return the product of ``dim`` numbers of a row of x and of a row of y."""
    total = np.float32(0)
    for d in range(dim):
        total += x_TE[t, at + d] * y_TE[s, other + d]
    return total


@inner
def _add(out_TE, t, at, c, y_TE, s, other, dim):
    """Add c times ``dim`` numbers of a row of y to a row of ``out``."""
    for d in range(dim):
        out_TE[t, at + d] += c * y_TE[s, other + d]


@outer
def attend(first, last, start_S, length_S, x_TE, bias_HL, scale, y_TD, l_TH, a_SL):
    """Compute y and l of sequences first … last - 1; ``a_SL`` is scratch memory for scores."""
    heads, whole = bias_HL.shape[0], y_TD.shape[1]
    dim = whole // heads
    for s in range(first, last):
        start = start_S[s]
        for h in range(heads):
            q, k, v = h * dim, whole + h * dim, 2 * whole + h * dim
            for t in range(start, start + length_S[s]):
                n = t - start + 1
                # Scores are measured from the largest, so that no exponential overflows.
                most = np.float32(-np.inf)
                for i in range(n):
                    a = scale * _dot(x_TE, t, q, x_TE, start + i, k, dim) + bias_HL[h, n - 1 - i]
                    a_SL[s, i] = a
                    most = max(most, a)
                total = np.float32(0)
                for i in range(n):
                    a_SL[s, i] = exp_negative(a_SL[s, i] - most)
                    total += a_SL[s, i]
                l_TH[t, h] = most + np.log(total)
                for d in range(dim):
                    y_TD[t, q + d] = 0
                for i in range(n):
                    _add(y_TD, t, q, a_SL[s, i] / total, x_TE, start + i, v, dim)


@outer
def slopes(
    first, last, start_S, length_S, x_TE, bias_HL, scale, y_TD, l_TH, g_TD, grad_TE, grad_SHL
):
    """Add up ∇x of sequences first … last - 1, and ∇β of each of them; both begin as zeros."""
    heads, whole = bias_HL.shape[0], y_TD.shape[1]
    dim = whole // heads
    for s in range(first, last):
        start = start_S[s]
        for h in range(heads):
            q, k, v = h * dim, whole + h * dim, 2 * whole + h * dim
            for t in range(start, start + length_S[s]):
                common = _dot(g_TD, t, q, y_TD, t, q, dim)
                for o in range(start, t + 1):
                    back = t - o
                    a = scale * _dot(x_TE, t, q, x_TE, o, k, dim) + bias_HL[h, back]
                    # p is computed again, as to keep it takes T² numbers; rounding may lift a - l
                    # above 0.
                    p = exp_negative(min(a - l_TH[t, h], np.float32(0)))
                    slope = p * (_dot(g_TD, t, q, x_TE, o, v, dim) - common)
                    grad_SHL[s, h, back] += slope
                    _add(grad_TE, t, q, scale * slope, x_TE, o, k, dim)
                    _add(grad_TE, o, k, scale * slope, x_TE, t, q, dim)
                    _add(grad_TE, o, v, p, g_TD, t, q, dim)
