"""Losses and slopes dl/ds of a block of visits: the gradients that ``numba_epoch`` can plug in."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdgar.kernels.compiled import inner
from sdgar.kernels.numba_math import exp_negative, softplus_and_sigmoid

PAIRWISE, LOGISTIC, WEIGHTED, WEIGHTED_HELD, RANK_HINGE, SOFTMAX = 0, 1, 2, 3, 4, 5


@inner
def _softplus_all(n: Any, x_B: Any, f_B: Any, g_B: Any) -> Any:
    """F = softplus(x) and g = df/dx: one long loop, so that it becomes vectors."""
    for b in range(n):
        f_B[b], g_B[b] = softplus_and_sigmoid(x_B[b])
    return None


@inner
def pairwise(
    visits: Any, weight_VP: Any, ok_VN: Any, pos_VP: Any, neg_VN: Any, x_B: Any, f_B: Any, g_B: Any,
    slope_pos_VP: Any, slope_neg_VN: Any, loss_V: Any, first: Any,
) -> Any:  # fmt: skip
    """l_i = mean_j softplus(s_j - s_i)."""
    p, n = weight_VP.shape[1], ok_VN.shape[1]
    for v in range(visits):
        loss_V[first + v] = 0
        for j in range(n):
            slope_neg_VN[v, j] = 0
    for i in range(p):
        for v in range(visits):
            for j in range(n):
                x_B[v * n + j] = neg_VN[v, j] - pos_VP[v, i]
        _softplus_all(visits * n, x_B, f_B, g_B)
        for v in range(visits):
            accepted = np.float32(0)
            for j in range(n):
                accepted += np.float32(ok_VN[v, j])
            scale = weight_VP[v, i] / max(accepted, np.float32(1))
            loss, rising = np.float32(0), np.float32(0)
            for j in range(n):
                c = scale * np.float32(ok_VN[v, j])
                loss += c * f_B[v * n + j]
                rising += c * g_B[v * n + j]
                slope_neg_VN[v, j] += c * g_B[v * n + j]
            slope_pos_VP[v, i] = -rising
            loss_V[first + v] += loss
    return None


@inner
def logistic(
    kind: Any, temperature: Any, visits: Any, weight_VP: Any, ok_VN: Any, q_VN: Any, pos_VP: Any,
    neg_VN: Any, x_B: Any, f_B: Any, g_B: Any, slope_pos_VP: Any, slope_neg_VN: Any,
    loss_V: Any, effective_V: Any, first: Any,
) -> Any:  # fmt: skip
    """l_i = ½ [softplus(-s_i) + Σ_j w_j softplus(s_j)]; with shared negatives, summed over i."""
    p, n = weight_VP.shape[1], ok_VN.shape[1]
    one, half = np.float32(1), np.float32(0.5)
    for v in range(visits):
        for i in range(p):
            x_B[v * p + i] = -pos_VP[v, i]
    _softplus_all(visits * p, x_B, f_B, g_B)
    for v in range(visits):
        loss = np.float32(0)
        for i in range(p):
            c = half * weight_VP[v, i]
            loss += c * f_B[v * p + i]
            slope_pos_VP[v, i] = -c * g_B[v * p + i]
        loss_V[first + v] = loss
    for v in range(visits):
        for j in range(n):
            x_B[v * n + j] = neg_VN[v, j]
    _softplus_all(visits * n, x_B, f_B, g_B)
    inverse = one / temperature
    if kind != LOGISTIC:
        # w_j ∝ exp(f_j / T) / Q_j, measured from the largest f so that nothing overflows.
        for v in range(visits):
            top = np.float32(0)
            for j in range(n):
                top = max(top, f_B[v * n + j] if ok_VN[v, j] else np.float32(0))
            for j in range(n):
                x_B[v * n + j] = min((f_B[v * n + j] - top) * inverse, np.float32(0))
        for b in range(visits * n):
            x_B[b] = exp_negative(x_B[b])
    through = inverse if kind == WEIGHTED else np.float32(0)
    for v in range(visits):
        weight = np.float32(0)
        for i in range(p):
            weight += half * weight_VP[v, i]
        sum_w, sum_wf, sum_ww = np.float32(0), np.float32(0), np.float32(0)
        for j in range(n):
            w = np.float32(ok_VN[v, j])
            if kind != LOGISTIC:
                w *= x_B[v * n + j] / q_VN[v, j]
            slope_neg_VN[v, j] = w
            sum_w += w
            sum_wf += w * f_B[v * n + j]
            sum_ww += w * w
        if sum_w > 0:
            mean = sum_wf / sum_w
            scale = weight / sum_w
            for j in range(n):
                rise = one + (f_B[v * n + j] - mean) * through
                slope_neg_VN[v, j] *= scale * rise * g_B[v * n + j]
            loss_V[first + v] += weight * mean
            effective_V[first + v] = sum_w * sum_w / sum_ww
        else:
            effective_V[first + v] = 0
    return None


@inner
def rank_hinge(
    margin: Any, n_items: Any, visits: Any, weight_VP: Any, ok_VN: Any, tries_V: Any, pos_VP: Any,
    neg_VN: Any, slope_pos_VP: Any, slope_neg_VN: Any, loss_V: Any, first: Any,
) -> Any:  # fmt: skip
    """l_i = log(max(1, ⌊(M - 1) / tries⌋)) [margin + s_j - s_i]₊, with the one negative j."""
    for v in range(visits):
        loss_V[first + v] = slope_neg_VN[v, 0] = 0
        rank = max((n_items - 1) // max(tries_V[v], 1), 1)
        log_rank = np.float32(np.log(np.float32(rank)))
        for i in range(weight_VP.shape[1]):
            hinge = margin + neg_VN[v, 0] - pos_VP[v, i]
            slope = weight_VP[v, i] * log_rank
            if not ok_VN[v, 0] or hinge <= 0:
                slope = np.float32(0)
            slope_pos_VP[v, i] = -slope
            slope_neg_VN[v, 0] += slope
            loss_V[first + v] += slope * hinge
    return None


@inner
def softmax(
    visits: Any, weight_VP: Any, ok_VN: Any, q_VN: Any, pos_VP: Any, neg_VN: Any, x_B: Any,
    slope_pos_VP: Any, slope_neg_VN: Any, loss_V: Any, effective_V: Any, first: Any,
) -> Any:  # fmt: skip
    """l_i = -s_i + log 1/n Σ_j exp(s_j)/Q_j; with shared negatives, summed over i."""
    p, n = weight_VP.shape[1], ok_VN.shape[1]
    zero = np.float32(0)
    for v in range(visits):
        # Measured from the largest score, so that nothing overflows.
        top, accepted = -np.float32(np.inf), zero
        for j in range(n):
            top = max(top, neg_VN[v, j] if ok_VN[v, j] else top)
            accepted += np.float32(ok_VN[v, j])
        loss_V[first + v] = top if accepted > 0 else zero
        effective_V[first + v] = accepted
        for j in range(n):
            x_B[v * n + j] = min(neg_VN[v, j] - top, zero) if accepted > 0 else zero
    for b in range(visits * n):
        x_B[b] = exp_negative(x_B[b])
    for v in range(visits):
        weight, sum_w, sum_ww = zero, zero, zero
        accepted = effective_V[first + v]
        for i in range(p):
            weight += weight_VP[v, i]
        for j in range(n):
            w = x_B[v * n + j] / q_VN[v, j] if ok_VN[v, j] else zero
            slope_neg_VN[v, j] = w
            sum_w += w
            sum_ww += w * w
        log_z = loss_V[first + v]
        loss_V[first + v] = 0
        answered = np.float32(accepted > 0)
        if accepted > 0:
            log_z += np.float32(np.log(sum_w / accepted))
            effective_V[first + v] = sum_w * sum_w / sum_ww
            for j in range(n):
                slope_neg_VN[v, j] *= weight / sum_w
        for i in range(p):
            slope_pos_VP[v, i] = -weight_VP[v, i] * answered
            loss_V[first + v] += weight_VP[v, i] * answered * (log_z - pos_VP[v, i])
    return None
