"""One step of an epoch: gradients of a batch of visits, then the rows they touched.

Contexts and items share one table θ of R = U + I rows, contexts first; biases b are a table of
their own. Gradients are summed as integers, round(g · scale), because integer addition does not
depend on the order in which threads come: the same seed gives the same bytes. A sum stays below
2^63 as long as

    Σ_b ω_b · (|∂l/∂s⁺_b| + Σ_j |∂l/∂s_bj|) · max |θ|  ≤  rows · max ω · slope_limit · theta_limit

from which the engine takes the scale. Slopes and parameters beyond these limits, NaN included,
raise a flag, since an integer cannot hold them.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

PAIRWISE, LOGISTIC, WEIGHTED_LOGISTIC = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
"""Kinds of objective."""

SGD, LAZY_ADAM, ROW_ADAGRAD = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
"""Kinds of optimiser."""


@triton.jit
def _softplus_and_slope(x: Any) -> Any:
    """log(1 + e^x) and its derivative, both accurate for any x."""
    y = tl.exp(-tl.abs(x))
    u = 1.0 + y
    # log1p(y), for which Triton has no function: the rounding of 1 + y is divided out again.
    log1p = tl.where(u == 1.0, y, tl.log(u) * (y / tl.where(u == 1.0, 1.0, u - 1.0)))
    return tl.maximum(x, 0.0) + log1p, tl.where(x >= 0, 1.0, y) / u


@triton.jit
def _fixed(x: Any, scale: Any) -> Any:
    return (x * scale).to(tl.int64)


@triton.jit(do_not_specialize=["step"])
def add_gradients(
    user_V: Any,
    pos_VP: Any,
    weight_VP: Any,
    item_VN: Any,
    log_q_VN: Any,
    theta_RD: Any,
    bias_I: Any,
    grad_RD: Any,
    grad_I: Any,
    touch_R: Any,
    row_L: Any,
    stats: Any,
    flag: Any,
    step: Any,
    size: Any,
    n_users: Any,
    scale: Any,
    temperature: Any,
    slope_limit: Any,
    P: tl.constexpr,
    PP: tl.constexpr,
    N: tl.constexpr,
    NN: tl.constexpr,
    D: tl.constexpr,
    DD: tl.constexpr,
    OBJECTIVE: tl.constexpr,
    HOLD: tl.constexpr,
    WEIGHTED: tl.constexpr,
    HAS_Q: tl.constexpr,
    TILE: tl.constexpr,
) -> Any:
    """Scores, losses, slopes and gradients of ``size`` visits, P positives and N negatives each.

        s = u · v + b,   ∂/∂u = Σ_i g_i v_i,   ∂/∂v_i = g_i u,   ∂/∂b_i = g_i

    with g the slopes of Σ_b ω_b l_b. ``touch_R`` counts how often L2 weighs a row, in units of
    1/N, and whoever finds it at 0 enters the row into the list ``row_L`` of rows to be moved.
    ``stats`` gets the sums of loss, effective sample size and unanswered rows of each program.
    """
    lane = tl.program_id(0) * TILE + tl.arange(0, TILE)
    p, n, d = tl.arange(0, PP), tl.arange(0, NN), tl.arange(0, DD)
    visit = step.to(tl.int64) * size + lane
    user = tl.load(user_V + visit, mask=lane < size, other=-1).to(tl.int64)
    there = user >= 0
    in_P = (lane < size)[:, None] & (p < P)[None, :]
    in_N = (lane < size)[:, None] & (n < N)[None, :]
    pos = tl.load(pos_VP + visit[:, None] * P + p[None, :], mask=in_P, other=-1).to(tl.int64)
    present = pos >= 0
    drawn = there[:, None] & (n < N)[None, :]
    code = tl.load(item_VN + visit[:, None] * N + n[None, :], mask=drawn, other=-1).to(tl.int64)
    accepted = code >= 0
    neg = tl.where(accepted, code, ~code)
    if WEIGHTED:
        omega = tl.load(weight_VP + visit[:, None] * P + p[None, :], mask=present, other=0.0)
    else:
        omega = present.to(tl.float32)

    here = tl.sum(present.to(tl.int32), axis=1)
    touch_user = tl.atomic_add(touch_R + user, N * here, mask=there, sem="relaxed")
    touch_pos = tl.atomic_add(touch_R + n_users + pos, N, mask=present, sem="relaxed")
    touch_neg = tl.atomic_add(
        touch_R + n_users + neg, here[:, None] + 0 * n[None, :], mask=drawn, sem="relaxed"
    )

    in_D = (d < D)[None, :]
    in_D3 = (d < D)[None, None, :]
    u = tl.load(theta_RD + user[:, None] * D + d[None, :], mask=there[:, None] & in_D, other=0.0)
    at_pos = (n_users + pos)[:, :, None] * D + d[None, None, :]
    v_pos = tl.load(theta_RD + at_pos, mask=present[:, :, None] & in_D3, other=0.0)
    at_neg = (n_users + neg)[:, :, None] * D + d[None, None, :]
    v_neg = tl.load(theta_RD + at_neg, mask=accepted[:, :, None] & in_D3, other=0.0)
    s_pos = tl.sum(u[:, None, :] * v_pos, axis=2) + tl.load(bias_I + pos, mask=present, other=0.0)
    s_neg = tl.sum(u[:, None, :] * v_neg, axis=2) + tl.load(bias_I + neg, mask=accepted, other=0.0)

    count = tl.sum(accepted.to(tl.int32), axis=1)
    share = 1.0 / tl.maximum(count, 1).to(tl.float32)
    effective = 0.0 * share
    if OBJECTIVE == PAIRWISE:
        f, slope = _softplus_and_slope(s_neg[:, None, :] - s_pos[:, :, None])
        pair = accepted[:, None, :] & present[:, :, None]
        f = tl.where(pair, f, 0.0) * share[:, None, None]
        slope = tl.where(pair, slope, 0.0) * share[:, None, None] * omega[:, :, None]
        loss = tl.sum(f, axis=2)
        g_pos = -tl.sum(slope, axis=2)
        g_neg = tl.sum(slope, axis=1)
    else:
        f_pos, slope_pos = _softplus_and_slope(-s_pos)
        f, slope = _softplus_and_slope(s_neg)
        if OBJECTIVE == LOGISTIC:
            weight = tl.where(accepted, share[:, None], 0.0)
        else:
            a = f / temperature
            if HAS_Q:
                at = log_q_VN + visit[:, None] * N + n[None, :]
                a -= tl.load(at, mask=accepted, other=0.0)
            # A finite floor instead of -inf: a visit without a negative would be inf - inf.
            a = tl.where(accepted, a, -1e38)
            e = tl.where(accepted, tl.exp(a - tl.max(a, axis=1)[:, None]), 0.0)
            total = tl.sum(e, axis=1)
            weight = e / tl.where(total > 0, total, 1.0)[:, None]
            square = tl.sum(weight * weight, axis=1)
            effective = tl.where(square > 0, 1.0 / tl.where(square > 0, square, 1.0), 0.0)
        mean = tl.sum(weight * tl.where(accepted, f, 0.0), axis=1)
        loss = 0.5 * (f_pos + mean[:, None])
        g_pos = -0.5 * omega * slope_pos
        g_neg = 0.5 * tl.sum(omega, axis=1)[:, None] * weight * slope
        if OBJECTIVE == WEIGHTED_LOGISTIC and not HOLD:
            g_neg *= 1.0 + (f - mean[:, None]) / temperature
            # Only here a slope has no bound of its own.
            steep = tl.sum(tl.abs(g_neg), axis=1) / slope_limit
            if tl.max((~(steep <= tl.sum(omega, axis=1))).to(tl.int32), axis=0) > 0:
                tl.store(flag, 1)
    loss = tl.where(present, loss * omega, 0.0)

    g_u = tl.sum(g_pos[:, :, None] * v_pos, axis=1) + tl.sum(g_neg[:, :, None] * v_neg, axis=1)
    tl.atomic_add(
        grad_RD + user[:, None] * D + d[None, :],
        _fixed(g_u, scale),
        mask=there[:, None] & in_D,
        sem="relaxed",
    )
    g_vpos = _fixed(g_pos[:, :, None] * u[:, None, :], scale)
    tl.atomic_add(grad_RD + at_pos, g_vpos, mask=present[:, :, None] & in_D3, sem="relaxed")
    g_vneg = _fixed(g_neg[:, :, None] * u[:, None, :], scale)
    tl.atomic_add(grad_RD + at_neg, g_vneg, mask=accepted[:, :, None] & in_D3, sem="relaxed")
    tl.atomic_add(grad_I + pos, _fixed(g_pos, scale), mask=present, sem="relaxed")
    tl.atomic_add(grad_I + neg, _fixed(g_neg, scale), mask=accepted, sem="relaxed")

    at_L = lane * (1 + P + N)
    moved = tl.where(there & (touch_user == 0), user, -1)
    tl.store(row_L + at_L, moved.to(tl.int32), mask=lane < size)
    moved_pos = tl.where(present & (touch_pos == 0), n_users + pos, -1)
    tl.store(row_L + at_L[:, None] + 1 + p[None, :], moved_pos.to(tl.int32), mask=in_P)
    moved_neg = tl.where(drawn & (touch_neg == 0), n_users + neg, -1)
    tl.store(row_L + at_L[:, None] + 1 + P + n[None, :], moved_neg.to(tl.int32), mask=in_N)

    into = stats + (step.to(tl.int64) * tl.num_programs(0) + tl.program_id(0)) * 3
    tl.store(into, tl.sum(tl.sum(loss, axis=1), axis=0))
    tl.store(into + 1, tl.sum(effective * here.to(tl.float32), axis=0))
    tl.store(into + 2, tl.sum(tl.where(count == 0, here, 0), axis=0).to(tl.float32))


@triton.jit(do_not_specialize=["step"])
def move_rows(
    row_L: Any,
    theta_RD: Any,
    bias_I: Any,
    grad_RD: Any,
    grad_I: Any,
    touch_R: Any,
    first_RD: Any,
    second_RD: Any,
    first_I: Any,
    second_I: Any,
    rates_S3: Any,
    flag: Any,
    step: Any,
    n_entries: Any,
    n_users: Any,
    unit: Any,
    l2: Any,
    beta1: Any,
    gain1: Any,
    beta2: Any,
    gain2: Any,
    epsilon: Any,
    theta_limit: Any,
    D: tl.constexpr,
    DD: tl.constexpr,
    OPTIMIZER: tl.constexpr,
    TILE: tl.constexpr,
) -> Any:
    """θ ← θ - step(g) for the rows in the list, which leaves their gradients at 0.

        g = (sum · unit + l2 · touches · θ) / B,   unit = 1 / scale,   l2 = λ / N

    ``rates_S3`` holds for each step 1/B, the learning rate (divided by 1 - β₁ᵗ for Adam), and
    1/√(1 - β₂ᵗ); ``gain`` is 1 - β, which loses four digits if taken in float32. ``first`` and ``second`` are Adam's moments; row Adagrad keeps its one number
    a row in ``second``.
    """
    entry = tl.program_id(0) * TILE + tl.arange(0, TILE)
    d = tl.arange(0, DD)
    row = tl.load(row_L + entry, mask=entry < n_entries, other=-1).to(tl.int64)
    share = tl.load(rates_S3 + step * 3)
    rate = tl.load(rates_S3 + step * 3 + 1)
    correct = tl.load(rates_S3 + step * 3 + 2)
    there = row >= 0
    item = row - n_users
    has_bias = item >= 0
    at = row[:, None] * D + d[None, :]
    wanted = there[:, None] & (d < D)[None, :]

    theta = tl.load(theta_RD + at, mask=wanted, other=0.0)
    bias = tl.load(bias_I + item, mask=has_bias, other=0.0)
    decay = tl.load(touch_R + row, mask=there, other=0).to(tl.float32) * (l2 * share)
    g = tl.load(grad_RD + at, mask=wanted, other=0).to(tl.float32) * (unit * share)
    g += decay[:, None] * theta
    g_bias = tl.load(grad_I + item, mask=has_bias, other=0).to(tl.float32) * (unit * share)
    g_bias += decay * bias
    if OPTIMIZER == SGD:
        theta -= rate * g
        bias -= rate * g_bias
    elif OPTIMIZER == LAZY_ADAM:
        m = beta1 * tl.load(first_RD + at, mask=wanted, other=0.0) + gain1 * g
        v = beta2 * tl.load(second_RD + at, mask=wanted, other=0.0) + gain2 * g * g
        theta -= rate * m / (tl.sqrt_rn(v) * correct + epsilon)
        tl.store(first_RD + at, m, mask=wanted)
        tl.store(second_RD + at, v, mask=wanted)
        m = beta1 * tl.load(first_I + item, mask=has_bias, other=0.0) + gain1 * g_bias
        v = beta2 * tl.load(second_I + item, mask=has_bias, other=0.0)
        v += gain2 * g_bias * g_bias
        bias -= rate * m / (tl.sqrt_rn(v) * correct + epsilon)
        tl.store(first_I + item, m, mask=has_bias)
        tl.store(second_I + item, v, mask=has_bias)
    else:
        a = tl.load(second_RD + row, mask=there, other=0.0) + tl.sum(g * g, axis=1) / D
        theta -= rate * g / (tl.sqrt_rn(a)[:, None] + epsilon)
        tl.store(second_RD + row, a, mask=there)
        a = tl.load(second_I + item, mask=has_bias, other=0.0) + g_bias * g_bias
        bias -= rate * g_bias / (tl.sqrt_rn(a) + epsilon)
        tl.store(second_I + item, a, mask=has_bias)

    outside = tl.max((~(tl.abs(theta) <= theta_limit)).to(tl.int32), axis=1)
    outside = tl.maximum(outside, (~(tl.abs(bias) <= theta_limit)).to(tl.int32))
    if tl.max(outside, axis=0) > 0:
        tl.store(flag, 1)
    tl.store(theta_RD + at, theta, mask=wanted)
    tl.store(bias_I + item, bias, mask=has_bias)
    tl.store(grad_RD + at, tl.zeros((TILE, DD), tl.int64), mask=wanted)
    tl.store(grad_I + item, tl.zeros((TILE,), tl.int64), mask=has_bias)
    tl.store(touch_R + row, tl.zeros((TILE,), tl.int32), mask=there)
