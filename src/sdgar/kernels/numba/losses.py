"""Losses and slopes dl/ds of a block of visits, one kind for each class of objective."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import inner, variant
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


def weigh(loss: Any, proposal: Any, known: Any, visits: Any, user_V: Any, drawn: Any) -> Any:
    """Write Q(j|c) into ``drawn.q_VN`` if the loss needs it."""


@variant(weigh, PairwiseLogistic, Logistic, WarpHinge, CmlHinge)
def _weigh_not(loss: Any, proposal: Any, known: Any, visits: Any, user_V: Any, drawn: Any) -> Any:
    return None


@variant(weigh, WeightedLogistic, SampledSoftmax)
def _weigh(loss: Any, proposal: Any, known: Any, visits: Any, user_V: Any, drawn: Any) -> Any:
    probability(proposal, known, visits, user_V, drawn)
    return None


def gradient(
    loss: Any, visits: Any, first: Any, weight_VP: Any, drawn: Any, scored: Any, loss_V: Any,
    effective_V: Any,
) -> Any:  # fmt: skip
    """Compute the slopes of a block of visits from its scores; shared negatives sum them over i.

    Losses and effective sample sizes go to place ``first`` of the batch and after.
    """


def few_slopes(loss: Any) -> Any:
    """Return whether most negatives of a visit have a slope of 0, so that it pays to look."""


@variant(few_slopes, PairwiseLogistic, Logistic, WeightedLogistic, WarpHinge, SampledSoftmax)
def _many_slopes(loss: Any) -> Any:
    return False


@variant(few_slopes, CmlHinge)
def _one_slope(loss: Any) -> Any:
    return True


@inner
def _softplus_all(n: Any, x_B: Any, f_B: Any, g_B: Any) -> Any:
    """f = softplus(x) and g = df/dx: one long loop, so that it becomes vectors."""
    for b in range(n):
        f_B[b], g_B[b] = softplus_and_sigmoid(x_B[b])
    return None


@variant(gradient, PairwiseLogistic)
def _pairwise_logistic(
    loss: Any, visits: Any, first: Any, weight_VP: Any, drawn: Any, scored: Any, loss_V: Any,
    effective_V: Any,
) -> Any:  # fmt: skip
    ok_VN, pos_VP, neg_VN = drawn.ok_VN, scored.pos_VP, scored.neg_VN
    slope_pos_VP, slope_neg_VN = scored.slope_pos_VP, scored.slope_neg_VN
    x_B, f_B, g_B = scored.x_B, scored.f_B, scored.g_B
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
    return None


@inner
def _halves(visits: Any, first: Any, weight_VP: Any, scored: Any, loss_V: Any) -> Any:
    """Compute the positive half of a logistic loss, and leave f and g of the negatives."""
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
    return None


@inner
def _mean(
    visits: Any, first: Any, through: Any, weight_VP: Any, scored: Any, loss_V: Any,
    effective_V: Any,
) -> Any:  # fmt: skip
    """Σ_j w_j f_j / Σ_j w_j, with the weights that stand where the slopes will be."""
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
    return None


@variant(gradient, Logistic)
def _logistic(
    loss: Any, visits: Any, first: Any, weight_VP: Any, drawn: Any, scored: Any, loss_V: Any,
    effective_V: Any,
) -> Any:  # fmt: skip
    ok_VN, slope_neg_VN = drawn.ok_VN, scored.slope_neg_VN
    _halves(visits, first, weight_VP, scored, loss_V)
    for v in range(visits):
        for j in range(ok_VN.shape[1]):
            slope_neg_VN[v, j] = np.float32(ok_VN[v, j])
    _mean(visits, first, np.float32(0), weight_VP, scored, loss_V, effective_V)
    return None


@variant(gradient, WeightedLogistic)
def _weighted_logistic(
    loss: Any, visits: Any, first: Any, weight_VP: Any, drawn: Any, scored: Any, loss_V: Any,
    effective_V: Any,
) -> Any:  # fmt: skip
    ok_VN, q_VN, slope_neg_VN = drawn.ok_VN, drawn.q_VN, scored.slope_neg_VN
    x_B, f_B, n = scored.x_B, scored.f_B, ok_VN.shape[1]
    _halves(visits, first, weight_VP, scored, loss_V)
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
    _mean(visits, first, loss.through, weight_VP, scored, loss_V, effective_V)
    return None


@variant(gradient, WarpHinge)
def _warp_hinge(
    loss: Any, visits: Any, first: Any, weight_VP: Any, drawn: Any, scored: Any, loss_V: Any,
    effective_V: Any,
) -> Any:  # fmt: skip
    ok_VN, pos_VP, neg_VN = drawn.ok_VN, scored.pos_VP, scored.neg_VN
    slope_pos_VP, slope_neg_VN = scored.slope_pos_VP, scored.slope_neg_VN
    for v in range(visits):
        loss_V[first + v] = slope_neg_VN[v, 0] = 0
        rank = max((loss.n_items - 1) // max(drawn.tries_V[v], 1), 1)
        log_rank = np.float32(np.log(np.float32(rank)))
        for i in range(pos_VP.shape[1]):
            hinge = loss.margin + neg_VN[v, 0] - pos_VP[v, i]
            slope = weight_VP[v, i] * log_rank
            if not ok_VN[v, 0] or hinge <= 0:
                slope = np.float32(0)
            slope_pos_VP[v, i] = -slope
            slope_neg_VN[v, 0] += slope
            loss_V[first + v] += slope * hinge
    return None


@variant(gradient, CmlHinge)
def _cml_hinge(
    loss: Any, visits: Any, first: Any, weight_VP: Any, drawn: Any, scored: Any, loss_V: Any,
    effective_V: Any,
) -> Any:  # fmt: skip
    ok_VN, pos_VP, neg_VN = drawn.ok_VN, scored.pos_VP, scored.neg_VN
    slope_pos_VP, slope_neg_VN = scored.slope_pos_VP, scored.slope_neg_VN
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
    return None


@variant(gradient, SampledSoftmax)
def _sampled_softmax(
    loss: Any, visits: Any, first: Any, weight_VP: Any, drawn: Any, scored: Any, loss_V: Any,
    effective_V: Any,
) -> Any:  # fmt: skip
    ok_VN, q_VN = drawn.ok_VN, drawn.q_VN
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
    return None
