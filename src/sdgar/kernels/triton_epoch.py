"""One step of an epoch, in two kernels: what visits do alone, then the rows that several share.

Contexts and items share one table θ of R = U + I rows, contexts first; biases b are a table of
their own. A row that one entry of the step names alone is moved as soon as its gradient is known,
since nobody else reads it in this step. Of several entries that name a row, the last one is its
slot, in which all of them add up their gradients; ``move_shared`` then moves the row. Who shares
what is found a step ahead, by an atomic maximum. So the sums of a step lie close together, in the
cache, whatever the size of the tables.

Gradients are summed as integers, round(g · scale), because integer addition does not depend on
the order in which threads come: the same seed gives the same bytes. A sum stays below 2^63 as
long as

    Σ_b ω_b · (|∂l/∂s⁺_b| + Σ_j |∂l/∂s_bj|) · max |θ|  ≤  rows · max ω · slope_limit · theta_limit

from which the engine takes the scale. Slopes and parameters beyond these limits, NaN included,
raise a flag, since an integer cannot hold them.
"""

from __future__ import annotations

import triton
import triton.language as tl

PAIRWISE, LOGISTIC, WEIGHTED_LOGISTIC = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
"""Kinds of objective."""

SGD, LAZY_ADAM, ROW_ADAGRAD = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
"""Kinds of optimiser."""


@triton.jit
def _softplus_and_slope(x: tl.tensor) -> tl.tensor:
    """log(1 + e^x) and its derivative, both accurate for any x."""
    y = tl.exp(-tl.abs(x))
    u = 1.0 + y
    # log1p(y), for which Triton has no function: the rounding of 1 + y is divided out again.
    log1p = tl.where(u == 1.0, y, tl.log(u) * (y / tl.where(u == 1.0, 1.0, u - 1.0)))
    return tl.maximum(x, 0.0) + log1p, tl.where(x >= 0, 1.0, y) / u


@triton.jit
def _fixed(x: tl.tensor, scale: tl.tensor) -> tl.tensor:
    return (x * scale).to(tl.int64)


@triton.jit
def _claim(
    claim_R: tl.tensor, crowd_R: tl.tensor, code: tl.tensor, at: tl.tensor, first: tl.tensor
):
    """claim_R[row] ← max(1 + at) over the entries that name the row; a second one is a crowd.

    ``first`` is the first entry of the step, so that a claim of an earlier step is no rival.
    """
    row = tl.where(code < -1, ~code, code)
    before = tl.atomic_max(claim_R + row, at + 1, mask=row >= 0, sem="relaxed")
    tl.store(crowd_R + row, first + 1, mask=(row >= 0) & (before > first))


@triton.jit
def claim_rows(
    row_VW: tl.tensor,
    claim_R: tl.tensor,
    crowd_R: tl.tensor,
    n_entries: tl.tensor,
    TILE: tl.constexpr,
):
    """Claims of the first step of a chunk; those of the others are made by ``move_shared``."""
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    code = tl.load(row_VW + at, mask=at < n_entries, other=-1)
    _claim(claim_R, crowd_R, code, at, 0)


@triton.jit
def _row_rate(
    rate: tl.tensor,
    epsilon: tl.tensor,
    sum_R: tl.tensor,
    row: tl.tensor,
    wanted: tl.tensor,
    square: tl.tensor,
) -> tl.tensor:
    """η / (√a + ε) after a ← a + square: row-wise Adagrad."""
    a = tl.load(sum_R + row, mask=wanted, other=0.0) + square
    tl.store(sum_R + row, a, mask=wanted)
    return rate / (tl.sqrt_rn(a) + epsilon)


@triton.jit
def _moments(
    first: tl.tensor, second: tl.tensor, at: tl.tensor, wanted: tl.tensor, OPTIMIZER: tl.constexpr
) -> tl.tensor:
    """Adam's, which must be asked for early: loads are not moved ahead of other memory accesses."""
    if OPTIMIZER == LAZY_ADAM:
        m = tl.load(first + at, mask=wanted, other=0.0)
        q = tl.load(second + at, mask=wanted, other=0.0)
    else:
        m, q = 0.0, 0.0
    return m, q


@triton.jit
def _move(
    table: tl.tensor,
    first: tl.tensor,
    second: tl.tensor,
    at: tl.tensor,
    wanted: tl.tensor,
    theta: tl.tensor,
    m: tl.tensor,
    q: tl.tensor,
    g: tl.tensor,
    rate: tl.tensor,
    correct: tl.tensor,
    beta1: tl.tensor,
    gain1: tl.tensor,
    beta2: tl.tensor,
    gain2: tl.tensor,
    epsilon: tl.tensor,
    limit: tl.tensor,
    OPTIMIZER: tl.constexpr,
) -> tl.tensor:
    """θ ← θ - step(g) where wanted; positive if a parameter was or gets outside ±limit."""
    if OPTIMIZER == LAZY_ADAM:
        m = beta1 * m + gain1 * g
        q = beta2 * q + gain2 * g * g
        tl.store(first + at, m, mask=wanted)
        tl.store(second + at, q, mask=wanted)
        moved = theta - rate * m / (tl.sqrt_rn(q) * correct + epsilon)
    else:
        moved = theta - rate * g
    tl.store(table + at, moved, mask=wanted)
    inside = (tl.abs(theta) <= limit) & (tl.abs(moved) <= limit)
    return tl.max((wanted & ~inside).to(tl.int32))


@triton.jit(do_not_specialize=["step"])
def take_visits(
    row_VW: tl.tensor,
    claim_R: tl.tensor,
    crowd_R: tl.tensor,
    grad_LD: tl.tensor,
    grad_L: tl.tensor,
    touch_L: tl.tensor,
    moved_L: tl.tensor,
    theta_RD: tl.tensor,
    first_RD: tl.tensor,
    second_RD: tl.tensor,
    bias_I: tl.tensor,
    first_I: tl.tensor,
    second_I: tl.tensor,
    rates_S3: tl.tensor,
    flag: tl.tensor,
    weight_VP: tl.tensor,
    log_q_VN: tl.tensor,
    stats: tl.tensor,
    step: tl.tensor,
    size: tl.tensor,
    n_users: tl.tensor,
    l2: tl.tensor,
    beta1: tl.tensor,
    gain1: tl.tensor,
    beta2: tl.tensor,
    gain2: tl.tensor,
    epsilon: tl.tensor,
    theta_limit: tl.tensor,
    scale: tl.tensor,
    temperature: tl.tensor,
    slope_limit: tl.tensor,
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
    OPTIMIZER: tl.constexpr,
    WIDE: tl.constexpr,
    TILE: tl.constexpr,
):
    """Scores, losses, slopes and gradients of ``size`` visits, P positives and N negatives each.

        s = u · v + b,   ∂/∂u = Σ_i g_i v_i,   ∂/∂v_i = g_i u,   ∂/∂b_i = g_i

    with g the slopes of Σ_b ω_b l_b; then θ ← θ - step((∂ + l2 · touches · θ) / B) for rows that an
    entry names alone. For others the slot gets the sum of ∂ in ``grad``, how often L2 weighs the
    row, in units of 1/N, in ``touch_L``, and the row in ``moved_L``, which is -1 for all other
    entries. ``stats`` gets the sums of loss, effective sample size and unanswered rows of each
    program; for the other arguments see ``move_shared``.
    """
    W: tl.constexpr = 1 + P + N
    lane = tl.program_id(0) * TILE + tl.arange(0, TILE)
    p, n, d = tl.arange(0, PP), tl.arange(0, NN), tl.arange(0, DD)
    inside = lane < size
    in_P = inside[:, None] & (p < P)[None, :]
    in_N = inside[:, None] & (n < N)[None, :]
    visit = step * size + lane
    first = step * size * W
    entry = lane * W
    entry_P = entry[:, None] + 1 + p[None, :]
    entry_N = entry[:, None] + 1 + P + n[None, :]
    user = tl.load(row_VW + first + entry, mask=inside, other=-1)
    pos = tl.load(row_VW + first + entry_P, mask=in_P, other=-1)
    code = tl.load(row_VW + first + entry_N, mask=in_N, other=-1)
    neg = tl.where(code < -1, ~code, code)
    there, present, drawn, accepted = user >= 0, pos >= 0, neg >= 0, code >= 0
    if WEIGHTED:
        omega = tl.load(weight_VP + visit[:, None] * P + p[None, :], mask=present, other=0.0)
    else:
        omega = present.to(tl.float32)
    if HAS_Q:
        log_q = tl.load(log_q_VN + visit[:, None] * N + n[None, :], mask=accepted, other=0.0)
    b_pos = tl.load(bias_I + pos - n_users, mask=present, other=0.0)
    b_neg = tl.load(bias_I + neg - n_users, mask=drawn, other=0.0)
    slot = tl.load(claim_R + user, mask=there, other=0) - 1 - first
    slot_P = tl.load(claim_R + pos, mask=present, other=0) - 1 - first
    slot_N = tl.load(claim_R + neg, mask=drawn, other=0) - 1 - first
    crowd = there & (tl.load(crowd_R + user, mask=there, other=0) == first + 1)
    crowd_P = present & (tl.load(crowd_R + pos, mask=present, other=0) == first + 1)
    crowd_N = drawn & (tl.load(crowd_R + neg, mask=drawn, other=0) == first + 1)
    share = tl.load(rates_S3 + step * 3)
    rate = tl.load(rates_S3 + step * 3 + 1)
    correct = tl.load(rates_S3 + step * 3 + 2)
    if WIDE:
        user, pos, neg = user.to(tl.int64), pos.to(tl.int64), neg.to(tl.int64)
        slot, slot_P, slot_N = slot.to(tl.int64), slot_P.to(tl.int64), slot_N.to(tl.int64)

    at = user[:, None] * D + d[None, :]
    at_P = pos[:, :, None] * D + d[None, None, :]
    at_N = neg[:, :, None] * D + d[None, None, :]
    in_D = (d < D)[None, :]
    in_D3 = (d < D)[None, None, :]
    u = tl.load(theta_RD + at, mask=there[:, None] & in_D, other=0.0)
    v_pos = tl.load(theta_RD + at_P, mask=present[:, :, None] & in_D3, other=0.0)
    v_neg = tl.load(theta_RD + at_N, mask=drawn[:, :, None] & in_D3, other=0.0)
    alone, alone_P, alone_N = there & ~crowd, present & ~crowd_P, drawn & ~crowd_N
    alone_D = alone[:, None] & in_D
    alone_PD, alone_ND = alone_P[:, :, None] & in_D3, alone_N[:, :, None] & in_D3
    item_P, item_N = pos - n_users, neg - n_users
    m_u, q_u = _moments(first_RD, second_RD, at, alone_D, OPTIMIZER)
    m_vpos, q_vpos = _moments(first_RD, second_RD, at_P, alone_PD, OPTIMIZER)
    m_vneg, q_vneg = _moments(first_RD, second_RD, at_N, alone_ND, OPTIMIZER)
    m_bpos, q_bpos = _moments(first_I, second_I, item_P, alone_P, OPTIMIZER)
    m_bneg, q_bneg = _moments(first_I, second_I, item_N, alone_N, OPTIMIZER)
    s_pos = tl.sum(u[:, None, :] * v_pos, axis=2) + b_pos
    s_neg = tl.sum(u[:, None, :] * v_neg, axis=2) + b_neg

    here = tl.sum(present.to(tl.int32), axis=1)
    count = tl.sum(accepted.to(tl.int32), axis=1)
    each = 1.0 / tl.maximum(count, 1).to(tl.float32)
    effective = 0.0 * each
    if OBJECTIVE == PAIRWISE:
        f, slope = _softplus_and_slope(s_neg[:, None, :] - s_pos[:, :, None])
        pair = accepted[:, None, :] & present[:, :, None]
        f = tl.where(pair, f, 0.0) * each[:, None, None]
        slope = tl.where(pair, slope, 0.0) * each[:, None, None] * omega[:, :, None]
        loss = tl.sum(f, axis=2)
        g_pos = -tl.sum(slope, axis=2)
        g_neg = tl.sum(slope, axis=1)
    else:
        f_pos, slope_pos = _softplus_and_slope(-s_pos)
        f, slope = _softplus_and_slope(s_neg)
        if OBJECTIVE == LOGISTIC:
            weight = tl.where(accepted, each[:, None], 0.0)
        else:
            a = f / temperature
            if HAS_Q:
                a -= log_q
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
    g_vpos = g_pos[:, :, None] * u[:, None, :]
    g_vneg = g_neg[:, :, None] * u[:, None, :]
    touch = N * here
    touch_P = N * present.to(tl.int32)
    touch_N = here[:, None] + 0 * n[None, :]

    into = grad_LD + slot[:, None] * D + d[None, :]
    into_P = grad_LD + slot_P[:, :, None] * D + d[None, None, :]
    into_N = grad_LD + slot_N[:, :, None] * D + d[None, None, :]
    added_N = crowd_N & accepted
    tl.atomic_add(into, _fixed(g_u, scale), mask=crowd[:, None] & in_D, sem="relaxed")
    tl.atomic_add(into_P, _fixed(g_vpos, scale), mask=crowd_P[:, :, None] & in_D3, sem="relaxed")
    tl.atomic_add(into_N, _fixed(g_vneg, scale), mask=added_N[:, :, None] & in_D3, sem="relaxed")
    tl.atomic_add(grad_L + slot_P, _fixed(g_pos, scale), mask=crowd_P, sem="relaxed")
    tl.atomic_add(grad_L + slot_N, _fixed(g_neg, scale), mask=added_N, sem="relaxed")
    tl.atomic_add(touch_L + slot, touch, mask=crowd, sem="relaxed")
    tl.atomic_add(touch_L + slot_P, touch_P, mask=crowd_P, sem="relaxed")
    tl.atomic_add(touch_L + slot_N, touch_N, mask=crowd_N, sem="relaxed")
    moved = tl.where(crowd & (slot == entry), user, -1)
    moved_P = tl.where(crowd_P & (slot_P == entry_P), pos, -1)
    moved_N = tl.where(crowd_N & (slot_N == entry_N), neg, -1)
    tl.store(moved_L + entry, moved.to(tl.int32), mask=inside)
    tl.store(moved_L + entry_P, moved_P.to(tl.int32), mask=in_P)
    tl.store(moved_L + entry_N, moved_N.to(tl.int32), mask=in_N)

    decay, decay_P, decay_N = l2 * touch, l2 * touch_P, l2 * touch_N
    g_u = share * (g_u + decay[:, None] * u)
    g_vpos = share * (g_vpos + decay_P[:, :, None] * v_pos)
    g_vneg = share * (g_vneg + decay_N[:, :, None] * v_neg)
    g_pos = share * (g_pos + decay_P * b_pos)
    g_neg = share * (g_neg + decay_N * b_neg)
    rate_u, rate_vpos, rate_vneg, rate_pos, rate_neg = rate, rate, rate, rate, rate
    if OPTIMIZER == ROW_ADAGRAD:
        square = tl.sum(g_u * g_u, axis=1) / D
        square_P = tl.sum(g_vpos * g_vpos, axis=2) / D
        square_N = tl.sum(g_vneg * g_vneg, axis=2) / D
        rate_u = _row_rate(rate, epsilon, second_RD, user, alone, square)[:, None]
        rate_vpos = _row_rate(rate, epsilon, second_RD, pos, alone_P, square_P)[:, :, None]
        rate_vneg = _row_rate(rate, epsilon, second_RD, neg, alone_N, square_N)[:, :, None]
        rate_pos = _row_rate(rate, epsilon, second_I, item_P, alone_P, g_pos * g_pos)
        rate_neg = _row_rate(rate, epsilon, second_I, item_N, alone_N, g_neg * g_neg)
    outside = _move(
        theta_RD, first_RD, second_RD, at, alone_D, u, m_u, q_u, g_u, rate_u,
        correct, beta1, gain1, beta2, gain2, epsilon, theta_limit, OPTIMIZER,
    )  # fmt: skip
    outside += _move(
        theta_RD, first_RD, second_RD, at_P, alone_PD, v_pos, m_vpos, q_vpos, g_vpos, rate_vpos,
        correct, beta1, gain1, beta2, gain2, epsilon, theta_limit, OPTIMIZER,
    )  # fmt: skip
    outside += _move(
        theta_RD, first_RD, second_RD, at_N, alone_ND, v_neg, m_vneg, q_vneg, g_vneg, rate_vneg,
        correct, beta1, gain1, beta2, gain2, epsilon, theta_limit, OPTIMIZER,
    )  # fmt: skip
    outside += _move(
        bias_I, first_I, second_I, item_P, alone_P, b_pos, m_bpos, q_bpos, g_pos, rate_pos,
        correct, beta1, gain1, beta2, gain2, epsilon, theta_limit, OPTIMIZER,
    )  # fmt: skip
    outside += _move(
        bias_I, first_I, second_I, item_N, alone_N, b_neg, m_bneg, q_bneg, g_neg, rate_neg,
        correct, beta1, gain1, beta2, gain2, epsilon, theta_limit, OPTIMIZER,
    )  # fmt: skip
    if outside > 0:
        tl.store(flag, 1)

    into = stats + (step * tl.num_programs(0) + tl.program_id(0)) * 3
    tl.store(into, tl.sum(tl.sum(loss, axis=1), axis=0))
    tl.store(into + 1, tl.sum(effective * here.to(tl.float32), axis=0))
    tl.store(into + 2, tl.sum(tl.where(count == 0, here, 0), axis=0).to(tl.float32))


@triton.jit(do_not_specialize=["step", "n_claims"])
def move_shared(
    row_VW: tl.tensor,
    claim_R: tl.tensor,
    crowd_R: tl.tensor,
    grad_LD: tl.tensor,
    grad_L: tl.tensor,
    touch_L: tl.tensor,
    moved_L: tl.tensor,
    theta_RD: tl.tensor,
    first_RD: tl.tensor,
    second_RD: tl.tensor,
    bias_I: tl.tensor,
    first_I: tl.tensor,
    second_I: tl.tensor,
    rates_S3: tl.tensor,
    flag: tl.tensor,
    step: tl.tensor,
    n_entries: tl.tensor,
    n_claims: tl.tensor,
    n_users: tl.tensor,
    l2: tl.tensor,
    beta1: tl.tensor,
    gain1: tl.tensor,
    beta2: tl.tensor,
    gain2: tl.tensor,
    epsilon: tl.tensor,
    theta_limit: tl.tensor,
    unit: tl.tensor,
    D: tl.constexpr,
    DD: tl.constexpr,
    OPTIMIZER: tl.constexpr,
    WIDE: tl.constexpr,
    TILE: tl.constexpr,
):
    """θ ← θ - step(g) for rows that several entries share; then claims for the next step.

        g = (sum · unit + l2 · touches · θ) / B,   unit = 1 / scale,   l2 = λ / N

    It leaves the slots at 0. ``rates_S3`` holds for each step 1/B, the learning rate (divided by
    1 - β₁ᵗ for Adam), and 1/√(1 - β₂ᵗ); ``gain`` is 1 - β, which taken in float32 would lose four
    digits. ``first`` and ``second`` are Adam's moments; row-wise Adagrad keeps its one number a
    row in ``second``.
    """
    entry = tl.program_id(0) * TILE + tl.arange(0, TILE)
    d = tl.arange(0, DD)
    row = tl.load(moved_L + entry, mask=entry < n_entries, other=-1)
    next_first = (step + 1) * n_entries
    code = tl.load(row_VW + next_first + entry, mask=entry < n_claims, other=-1)
    _claim(claim_R, crowd_R, code, next_first + entry, next_first)
    share = tl.load(rates_S3 + step * 3)
    rate = tl.load(rates_S3 + step * 3 + 1)
    correct = tl.load(rates_S3 + step * 3 + 2)
    if WIDE:
        entry, row = entry.to(tl.int64), row.to(tl.int64)
    there = row >= 0
    item = row - n_users
    has_bias = item >= 0
    at = row[:, None] * D + d[None, :]
    into = grad_LD + entry[:, None] * D + d[None, :]
    wanted = there[:, None] & (d < D)[None, :]

    theta = tl.load(theta_RD + at, mask=wanted, other=0.0)
    bias = tl.load(bias_I + item, mask=has_bias, other=0.0)
    m, q = _moments(first_RD, second_RD, at, wanted, OPTIMIZER)
    m_bias, q_bias = _moments(first_I, second_I, item, has_bias, OPTIMIZER)
    decay = l2 * tl.load(touch_L + entry, mask=there, other=0)
    total = tl.load(into, mask=wanted, other=0).to(tl.float32) * unit
    total_bias = tl.load(grad_L + entry, mask=has_bias, other=0).to(tl.float32) * unit
    tl.store(into, tl.zeros((TILE, DD), tl.int64), mask=wanted)
    tl.store(grad_L + entry, tl.zeros((TILE,), tl.int64), mask=has_bias)
    tl.store(touch_L + entry, tl.zeros((TILE,), tl.int32), mask=there)

    g = share * (total + decay[:, None] * theta)
    g_bias = share * (total_bias + decay * bias)
    rate_theta, rate_bias = rate, rate
    if OPTIMIZER == ROW_ADAGRAD:
        square = tl.sum(g * g, axis=1) / D
        rate_theta = _row_rate(rate, epsilon, second_RD, row, there, square)[:, None]
        rate_bias = _row_rate(rate, epsilon, second_I, item, has_bias, g_bias * g_bias)
    outside = _move(
        theta_RD, first_RD, second_RD, at, wanted, theta, m, q, g, rate_theta,
        correct, beta1, gain1, beta2, gain2, epsilon, theta_limit, OPTIMIZER,
    )  # fmt: skip
    outside += _move(
        bias_I, first_I, second_I, item, has_bias, bias, m_bias, q_bias, g_bias, rate_bias,
        correct, beta1, gain1, beta2, gain2, epsilon, theta_limit, OPTIMIZER,
    )  # fmt: skip
    if outside > 0:
        tl.store(flag, 1)
