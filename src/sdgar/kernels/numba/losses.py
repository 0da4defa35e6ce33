"""Losses and slopes dl/ds of a block of visits, one kind for each class of objective."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import by_default, inner, variant
from sdgar.kernels.numba.draws import probability
from sdgar.kernels.numba.math import exp_negative, softplus_and_sigmoid


class Scored(NamedTuple):
    """Scores and slopes of some visits, and scratch arrays for B of either."""

    pos_VP: NDArray[np.float32]
    neg_VN: NDArray[np.float32]
    slope_pos_VP: NDArray[np.float32]
    slope_neg_VN: NDArray[np.float32]
    x_B: NDArray[np.float32]
    f_B: NDArray[np.float32]
    g_B: NDArray[np.float32]


class PairwiseLogistic(NamedTuple):
    """l_i = mean_j softplus(s_j - s_i)."""


class Logistic(NamedTuple):
    """l_i = ½ [softplus(-s_i) + mean_j softplus(s_j)]."""


class WeightedLogistic(NamedTuple):
    """l_i = ½ [softplus(-s_i) + Σ_j w_j f_j], f_j = softplus(s_j), w_j ∝ exp(f_j / T) / Q_j."""

    temperature: np.float32
    through: np.float32
    """1/T if the gradient goes through the weights, 0 if they are held."""


class WarpHinge(NamedTuple):
    """l_i = log(max(1, ⌊(M - 1) / tries⌋)) [margin + s_j - s_i]₊, with the one negative j."""

    n_items: int
    margin: np.float32


class CmlHinge(NamedTuple):
    """l_i = log(1 + r_i) [margin + max_j s_j - s_i]₊, r_i = ⌊M · share of j with a loss⌋."""

    n_items: int
    margin: np.float32


class SampledSoftmax(NamedTuple):
    """l_i = -s_i / ρ + log 1/n Σ_j exp(s_j)/Q_j."""

    rho: np.float32


@by_default
def weigh(loss, loop, visits, block):
    """Write Q(j|c) into ``block.q_VN`` if the loss needs it."""


@variant(weigh, WeightedLogistic, SampledSoftmax)
def _weigh(loss, loop, visits, block):
    probability(loop.proposal, loop.known, visits, block)


def gradient(loss, visits, first, block, scored, scratch):
    """Compute the slopes of a block of visits from its scores; shared negatives sum them over i.

    Losses and effective sample sizes go to place ``first`` of the batch and after.
    """


@by_default
def few_slopes(loss):
    """Return whether most negatives of a visit have a slope of 0, so that it pays to look."""
    return False


@variant(few_slopes, CmlHinge)
def _one_slope(loss):
    return True


@inner
def _softplus_all(n, x_B, f_B, g_B):
    """f = softplus(x) and g = df/dx: one long loop, so that it becomes vectors."""
    for b in range(n):
        f_B[b], g_B[b] = softplus_and_sigmoid(x_B[b])


@variant(gradient, PairwiseLogistic)
def _pairwise_logistic(loss, visits, first, block, scored, scratch):
    ok_VN, pos_VP, neg_VN = block.ok_VN, scored.pos_VP, scored.neg_VN
    slope_pos_VP, slope_neg_VN = scored.slope_pos_VP, scored.slope_neg_VN
    x_B, f_B, g_B = scored.x_B, scored.f_B, scored.g_B
    loss_V, weight_VP = scratch.loss_V, block.weight_VP
    p, n = pos_VP.shape[1], neg_VN.shape[1]
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
            # Refused negatives are multiplied by 0 and not skipped, so that loops become vectors.
            accepted = np.float32(0)
            for j in range(n):
                accepted += np.float32(ok_VN[v, j])
            scale = weight_VP[v, i] / max(accepted, np.float32(1))
            total, rising = np.float32(0), np.float32(0)
            for j in range(n):
                c = scale * np.float32(ok_VN[v, j])
                total += c * f_B[v * n + j]
                rising += c * g_B[v * n + j]
                slope_neg_VN[v, j] += c * g_B[v * n + j]
            slope_pos_VP[v, i] = -rising
            loss_V[first + v] += total


@inner
def _halves(visits, first, block, scored, loss_V):
    """Compute the positive half of a logistic loss, and leave f and g of the negatives."""
    weight_VP = block.weight_VP
    pos_VP, neg_VN, slope_pos_VP = scored.pos_VP, scored.neg_VN, scored.slope_pos_VP
    x_B, f_B, g_B = scored.x_B, scored.f_B, scored.g_B
    p, n = pos_VP.shape[1], neg_VN.shape[1]
    for v in range(visits):
        for i in range(p):
            x_B[v * p + i] = -pos_VP[v, i]
    _softplus_all(visits * p, x_B, f_B, g_B)
    for v in range(visits):
        total = np.float32(0)
        for i in range(p):
            c = np.float32(0.5) * weight_VP[v, i]
            total += c * f_B[v * p + i]
            slope_pos_VP[v, i] = -c * g_B[v * p + i]
        loss_V[first + v] = total
    for v in range(visits):
        for j in range(n):
            x_B[v * n + j] = neg_VN[v, j]
    _softplus_all(visits * n, x_B, f_B, g_B)


@inner
def _mean(visits, first, through, block, scored, scratch):
    """Σ_j w_j f_j / Σ_j w_j, with the weights that stand where the slopes will be."""
    weight_VP, loss_V, effective_V = block.weight_VP, scratch.loss_V, scratch.effective_V
    f_B, g_B, slope_neg_VN = scored.f_B, scored.g_B, scored.slope_neg_VN
    p, n = weight_VP.shape[1], slope_neg_VN.shape[1]
    for v in range(visits):
        weight = np.float32(0)
        for i in range(p):
            weight += np.float32(0.5) * weight_VP[v, i]
        sum_w, sum_wf, sum_ww = np.float32(0), np.float32(0), np.float32(0)
        for j in range(n):
            w = slope_neg_VN[v, j]
            sum_w += w
            sum_wf += w * f_B[v * n + j]
            sum_ww += w * w
        if sum_w > 0:
            mean = sum_wf / sum_w
            scale = weight / sum_w
            for j in range(n):
                rise = np.float32(1) + (f_B[v * n + j] - mean) * through
                slope_neg_VN[v, j] *= scale * rise * g_B[v * n + j]
            loss_V[first + v] += weight * mean
            # Kish's effective sample size: as many equal weights would vary as much.
            effective_V[first + v] = sum_w * sum_w / sum_ww
        else:
            effective_V[first + v] = 0


@variant(gradient, Logistic)
def _logistic(loss, visits, first, block, scored, scratch):
    ok_VN, slope_neg_VN = block.ok_VN, scored.slope_neg_VN
    _halves(visits, first, block, scored, scratch.loss_V)
    for v in range(visits):
        for j in range(ok_VN.shape[1]):
            slope_neg_VN[v, j] = np.float32(ok_VN[v, j])
    _mean(visits, first, np.float32(0), block, scored, scratch)


@variant(gradient, WeightedLogistic)
def _weighted_logistic(loss, visits, first, block, scored, scratch):
    ok_VN, q_VN, slope_neg_VN = block.ok_VN, block.q_VN, scored.slope_neg_VN
    x_B, f_B, n = scored.x_B, scored.f_B, ok_VN.shape[1]
    _halves(visits, first, block, scored, scratch.loss_V)
    inverse = np.float32(1) / loss.temperature
    # Measured from the largest f, so that nothing overflows.
    for v in range(visits):
        top = np.float32(0)
        for j in range(n):
            top = max(top, f_B[v * n + j] if ok_VN[v, j] else np.float32(0))
        for j in range(n):
            x_B[v * n + j] = min((f_B[v * n + j] - top) * inverse, np.float32(0))
    for b in range(visits * n):
        x_B[b] = exp_negative(x_B[b])
    for v in range(visits):
        for j in range(n):
            slope_neg_VN[v, j] = np.float32(ok_VN[v, j]) * (x_B[v * n + j] / q_VN[v, j])
    _mean(visits, first, loss.through, block, scored, scratch)


@variant(gradient, WarpHinge)
def _warp_hinge(loss, visits, first, block, scored, scratch):
    ok_VN, pos_VP, neg_VN = block.ok_VN, scored.pos_VP, scored.neg_VN
    slope_pos_VP, slope_neg_VN = scored.slope_pos_VP, scored.slope_neg_VN
    loss_V, weight_VP = scratch.loss_V, block.weight_VP
    for v in range(visits):
        loss_V[first + v] = slope_neg_VN[v, 0] = 0
        rank = max((loss.n_items - 1) // max(block.tries_V[v], 1), 1)
        log_rank = np.float32(np.log(np.float32(rank)))
        for i in range(pos_VP.shape[1]):
            hinge = loss.margin + neg_VN[v, 0] - pos_VP[v, i]
            slope = weight_VP[v, i] * log_rank
            if not ok_VN[v, 0] or hinge <= 0:
                slope = np.float32(0)
            slope_pos_VP[v, i] = -slope
            slope_neg_VN[v, 0] += slope
            loss_V[first + v] += slope * hinge


@variant(gradient, CmlHinge)
def _cml_hinge(loss, visits, first, block, scored, scratch):
    ok_VN, pos_VP, neg_VN = block.ok_VN, scored.pos_VP, scored.neg_VN
    slope_pos_VP, slope_neg_VN = scored.slope_pos_VP, scored.slope_neg_VN
    loss_V, weight_VP = scratch.loss_V, block.weight_VP
    n = neg_VN.shape[1]
    for v in range(visits):
        top, hardest, accepted = -np.float32(np.inf), 0, 0
        for j in range(n):
            slope_neg_VN[v, j] = 0
            accepted += ok_VN[v, j]
            # A score that is not a number becomes the largest, and stays it.
            if ok_VN[v, j] and not neg_VN[v, j] <= top and top == top:
                top, hardest = neg_VN[v, j], j
        loss_V[first + v] = 0
        for i in range(pos_VP.shape[1]):
            impostors = 0
            for j in range(n):
                impostors += ok_VN[v, j] and loss.margin + neg_VN[v, j] - pos_VP[v, i] > 0
            rank = loss.n_items * impostors // max(accepted, 1)
            slope = weight_VP[v, i] * np.float32(np.log1p(np.float32(rank)))
            hinge = loss.margin + top - pos_VP[v, i]
            if hinge <= 0:
                slope = hinge = np.float32(0)
            slope_pos_VP[v, i] = -slope
            slope_neg_VN[v, hardest] += slope
            loss_V[first + v] += slope * hinge


@variant(gradient, SampledSoftmax)
def _sampled_softmax(loss, visits, first, block, scored, scratch):
    ok_VN, q_VN, weight_VP = block.ok_VN, block.q_VN, block.weight_VP
    loss_V, effective_V = scratch.loss_V, scratch.effective_V
    pos_VP, neg_VN, x_B = scored.pos_VP, scored.neg_VN, scored.x_B
    slope_pos_VP, slope_neg_VN = scored.slope_pos_VP, scored.slope_neg_VN
    p, n = pos_VP.shape[1], neg_VN.shape[1]
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
            slope_pos_VP[v, i] = -weight_VP[v, i] * answered / loss.rho
            loss_V[first + v] += weight_VP[v, i] * answered * (log_z - pos_VP[v, i] / loss.rho)
