"""Losses and their slopes on a GPU, one function for each class of objective.

Each function takes the scores of a tile of visits, s_pos (visits × P) and s_neg (visits × N), the
interaction weights ω (0 where there is no positive), and which entries are ``present`` and
``accepted``. It returns

    loss       l of every positive, not yet weighed by ω
    g_pos      ω ∂l/∂s⁺ of every positive
    g_neg      Σ_p ω_p ∂l_p/∂s_j of every negative
    effective  the effective number of negatives of every visit; 0 if the loss has no weights
"""

from __future__ import annotations

import triton
import triton.language as tl

PAIRWISE_LOGISTIC, LOGISTIC, WEIGHTED_LOGISTIC = (
    tl.constexpr(0),
    tl.constexpr(1),
    tl.constexpr(2),
)
WARP_HINGE, CML_HINGE, SAMPLED_SOFTMAX = tl.constexpr(3), tl.constexpr(4), tl.constexpr(5)
"""The kinds of loss, named like the classes of objectives."""


@triton.jit
def _softplus_and_slope(x):
    """Return log(1 + e^x) and its derivative, both accurate for any x."""
    y = tl.exp(-tl.abs(x))
    u = 1.0 + y
    # log1p(y), for which Triton has no function: the rounding of 1 + y is divided out again.
    log1p = tl.where(u == 1.0, y, tl.log(u) * (y / tl.where(u == 1.0, 1.0, u - 1.0)))
    return tl.maximum(x, 0.0) + log1p, tl.where(x >= 0, 1.0, y) / u


@triton.jit
def _effective(weight):
    """Return 1 / Σ_j w_j², or 0 for a visit without weights."""
    square = tl.sum(weight * weight, axis=1)
    return tl.where(square > 0, 1.0 / tl.where(square > 0, square, 1.0), 0.0)


@triton.jit
def _pairwise_logistic(s_pos, s_neg, omega, present, accepted, share):
    """l = mean_j softplus(s_j - s⁺)."""
    f, slope = _softplus_and_slope(s_neg[:, None, :] - s_pos[:, :, None])
    pair = accepted[:, None, :] & present[:, :, None]
    f = tl.where(pair, f, 0.0) * share[:, None, None]
    slope = tl.where(pair, slope, 0.0) * share[:, None, None] * omega[:, :, None]
    return tl.sum(f, axis=2), -tl.sum(slope, axis=2), tl.sum(slope, axis=1), 0.0 * share


@triton.jit
def _hinge(hinge, violates, rank, omega, share):
    """l = Σ_j log(rank) [hinge_j]₊ over the negatives that violate."""
    slope = tl.where(violates, tl.log(rank.to(tl.float32))[:, :, None], 0.0)
    loss = tl.sum(slope * tl.where(violates, hinge, 0.0), axis=2)
    slope *= omega[:, :, None]
    return loss, -tl.sum(slope, axis=2), tl.sum(slope, axis=1), 0.0 * share


@triton.jit
def _warp_hinge(s_pos, s_neg, omega, present, accepted, share, tries, margin, n_items):
    """l = log(max(1, ⌊(M - 1) / tries⌋)) [margin + s_j - s⁺]₊.

    There is one negative: the violation, or the last of the tries, whose hinge is 0.
    """
    hinge = margin + s_neg[:, None, :] - s_pos[:, :, None]
    violates = accepted[:, None, :] & present[:, :, None] & (hinge > 0)
    rank = tl.maximum((n_items - 1) // tl.maximum(tries, 1), 1)[:, None]
    rank = rank + 0 * present.to(tl.int32)
    return _hinge(hinge, violates, rank, omega, share)


@triton.jit
def _cml_hinge(
    s_pos, s_neg, omega, present, accepted, count, share, margin, n_items, NN: tl.constexpr
):
    """l = log(rank) max_j [margin + s_j - s⁺]₊, rank = 1 + ⌊M · impostors / n⌋.

    Of the hardest negatives the first one gets the gradient, and the others get none.
    """
    n = tl.arange(0, NN)
    hinge = margin + s_neg[:, None, :] - s_pos[:, :, None]
    violates = accepted[:, None, :] & present[:, :, None] & (hinge > 0)
    impostors = tl.sum(violates.to(tl.int32), axis=2)
    rank = 1 + n_items * impostors // tl.maximum(count, 1)[:, None]
    top = tl.max(tl.where(violates, hinge, 0.0), axis=2)
    place = tl.where(violates & (hinge == top[:, :, None]), n[None, None, :], NN)
    violates &= n[None, None, :] == tl.min(place, axis=2)[:, :, None]
    return _hinge(hinge, violates, rank, omega, share)


@triton.jit
def _sampled_softmax(s_pos, s_neg, omega, accepted, count, share, log_q, rho):
    """l = -s⁺ / ρ + log 1/n Σ_j exp(s_j - log Q_j)."""
    a = tl.where(accepted, s_neg - log_q, -1e38)
    most = tl.max(a, axis=1)
    e = tl.where(accepted, tl.exp(a - most[:, None]), 0.0)
    total = tl.where(count > 0, tl.sum(e, axis=1), 1.0)
    weight = e / total[:, None]
    log_z = tl.where(count > 0, most, 0.0) + tl.log(total * share)
    answered = (count > 0)[:, None]
    loss = tl.where(answered, log_z[:, None] - s_pos / rho, 0.0)
    g_pos = tl.where(answered, -omega / rho, 0.0)
    g_neg = tl.sum(omega, axis=1)[:, None] * weight
    return loss, g_pos, g_neg, _effective(weight)


@triton.jit
def _logistic(s_pos, s_neg, omega, accepted, share):
    """l = ½ [softplus(-s⁺) + mean_j softplus(s_j)]."""
    f_pos, slope_pos = _softplus_and_slope(-s_pos)
    f, slope = _softplus_and_slope(s_neg)
    weight = tl.where(accepted, share[:, None], 0.0)
    mean = tl.sum(weight * tl.where(accepted, f, 0.0), axis=1)
    loss = 0.5 * (f_pos + mean[:, None])
    g_neg = 0.5 * tl.sum(omega, axis=1)[:, None] * weight * slope
    return loss, -0.5 * omega * slope_pos, g_neg, 0.0 * share


@triton.jit
def _weighted_logistic(
    s_pos,
    s_neg,
    omega,
    accepted,
    log_q,
    temperature,
    slope_limit,
    flag,
    HOLD: tl.constexpr,
    HAS_Q: tl.constexpr,
):
    """l = ½ [softplus(-s⁺) + Σ_j w_j f_j], f_j = softplus(s_j), w_j ∝ exp(f_j / T) / Q_j.

    Only here a slope is not bounded: one beyond ``slope_limit`` raises the flag.
    """
    f_pos, slope_pos = _softplus_and_slope(-s_pos)
    f, slope = _softplus_and_slope(s_neg)
    a = f / temperature
    if HAS_Q:
        a -= log_q
    # A finite floor instead of -inf: a visit without a negative would be inf - inf.
    a = tl.where(accepted, a, -1e38)
    e = tl.where(accepted, tl.exp(a - tl.max(a, axis=1)[:, None]), 0.0)
    total = tl.sum(e, axis=1)
    weight = e / tl.where(total > 0, total, 1.0)[:, None]
    mean = tl.sum(weight * tl.where(accepted, f, 0.0), axis=1)
    loss = 0.5 * (f_pos + mean[:, None])
    g_neg = 0.5 * tl.sum(omega, axis=1)[:, None] * weight * slope
    if not HOLD:
        g_neg *= 1.0 + (f - mean[:, None]) / temperature
        steep = tl.sum(tl.abs(g_neg), axis=1) / slope_limit
        if tl.max((~(steep <= tl.sum(omega, axis=1))).to(tl.int32), axis=0) > 0:
            tl.store(flag, 1)
    return loss, -0.5 * omega * slope_pos, g_neg, _effective(weight)


@triton.jit
def loss_and_slopes(
    s_pos,
    s_neg,
    omega,
    present,
    accepted,
    count,
    log_q,
    tries,
    temperature,
    margin,
    rho,
    n_items,
    slope_limit,
    flag,
    LOSS: tl.constexpr,
    HOLD: tl.constexpr,
    HAS_Q: tl.constexpr,
    NN: tl.constexpr,
):
    """Return loss, g_pos, g_neg and effective of the loss that LOSS names."""
    share = 1.0 / tl.maximum(count, 1).to(tl.float32)
    if LOSS == PAIRWISE_LOGISTIC:
        found = _pairwise_logistic(s_pos, s_neg, omega, present, accepted, share)
    elif LOSS == WARP_HINGE:
        found = _warp_hinge(s_pos, s_neg, omega, present, accepted, share, tries, margin, n_items)
    elif LOSS == CML_HINGE:
        found = _cml_hinge(
            s_pos, s_neg, omega, present, accepted, count, share, margin, n_items, NN
        )
    elif LOSS == SAMPLED_SOFTMAX:
        found = _sampled_softmax(s_pos, s_neg, omega, accepted, count, share, log_q, rho)
    elif LOSS == LOGISTIC:
        found = _logistic(s_pos, s_neg, omega, accepted, share)
    else:
        tl.static_assert(LOSS == WEIGHTED_LOGISTIC)
        found = _weighted_logistic(
            s_pos, s_neg, omega, accepted, log_q, temperature, slope_limit, flag, HOLD, HAS_Q
        )
    return found
