"""Scores on a GPU, and how their slopes reach the vectors that they are made of.

    MATRIX_FACTORIZATION   s = u · v + b         ∂/∂u = Σ_i g_i v_i      ∂/∂v_i = g_i u
    METRIC                 s = 2 u · v - ‖v‖²    ∂/∂u = Σ_i 2 g_i v_i    ∂/∂v_i = 2 g_i (u - v_i)
    COSINE                 s = u · v / τ (+ b)   ∂/∂u = Σ_i g_i (v_i - (u · v_i) u) / τ

and ∂/∂v_i of COSINE is mirrored; g_i is the slope of the loss at s_i, which is also the gradient of
b_i. Biases are added by the caller: a ``bare`` score is one without its bias.
"""

from __future__ import annotations

import triton
import triton.language as tl

MATRIX_FACTORIZATION, METRIC, COSINE = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
"""The kinds of score, named like the classes of discriminators."""


@triton.jit
def bare_scores(u, v, tau, SCORE: tl.constexpr):
    """Score items v (visits × items × D) for contexts u (visits × D), without biases."""
    if SCORE == METRIC:
        s = tl.sum((2 * u[:, None, :] - v) * v, axis=2)
    elif SCORE == COSINE:
        s = tl.sum(u[:, None, :] * v, axis=2) / tau
    else:
        tl.static_assert(SCORE == MATRIX_FACTORIZATION)
        s = tl.sum(u[:, None, :] * v, axis=2)
    return s


@triton.jit
def context_gradient(g_pos, g_neg, u, v_pos, v_neg, bare_pos, bare_neg, tau, SCORE: tl.constexpr):
    """Return ∂/∂u, summed over the positives and the negatives of a visit."""
    g_u = tl.sum(g_pos[:, :, None] * v_pos, axis=1) + tl.sum(g_neg[:, :, None] * v_neg, axis=1)
    if SCORE == METRIC:
        g_u = 2 * g_u
    elif SCORE == COSINE:
        along = tl.sum(g_pos * bare_pos, axis=1) + tl.sum(g_neg * bare_neg, axis=1)
        g_u = g_u / tau - along[:, None] * u
    return g_u


@triton.jit
def item_gradients(g, u, v, bare, tau, SCORE: tl.constexpr):
    """Return ∂/∂v_i of every item of a visit."""
    if SCORE == METRIC:
        g_v = 2 * g[:, :, None] * (u[:, None, :] - v)
    elif SCORE == COSINE:
        across = u[:, None, :] / tau - bare[:, :, None] * v
        g_v = g[:, :, None] * across
    else:
        g_v = g[:, :, None] * u[:, None, :]
    return g_v


@triton.jit
def project(theta, there, SCORE: tl.constexpr):
    """Bring rows back into their bounds: the unit ball (METRIC) or the unit sphere (COSINE)."""
    if SCORE == METRIC:
        theta /= tl.maximum(tl.sqrt_rn(tl.sum(theta * theta, axis=1)), 1.0)[:, None]
    elif SCORE == COSINE:
        theta /= tl.where(there, tl.sqrt_rn(tl.sum(theta * theta, axis=1)), 1.0)[:, None]
    return theta
