"""One step of an epoch: gradients of a batch of visits, then the rows they touched.

Contexts and items share one table θ of R = U + I rows, contexts first; biases b are a table of
their own. Of the entries of a step that name the same row, the last one is its slot, in which all
of them add up their gradients; it is found a step ahead, by an atomic maximum. So the sums of a
step lie close together, in the cache, whatever the size of the tables.

Gradients are summed as integers, g · scale cut to 64 bits, because integer addition does not
depend on the order in which threads come: the same seed gives the same bytes. A sum stays below
2^63 as long as

    Σ_b ω_b · (|∂l/∂s⁺_b| + Σ_j |∂l/∂s_bj|) · max |θ|  ≤  rows · max ω · slope_limit · theta_limit

from which the engine takes the scale. Slopes and parameters beyond these limits, NaN included,
raise a flag, since an integer cannot hold them.
"""

from __future__ import annotations

import triton
import triton.language as tl

PAIRWISE, LOGISTIC = tl.constexpr(0), tl.constexpr(1)
WEIGHTED_LOGISTIC, SOFTMAX = tl.constexpr(2), tl.constexpr(5)
RANK_BY_TRIES, RANK_BY_IMPOSTORS = tl.constexpr(3), tl.constexpr(4)
"""Kinds of objective."""

DOT, METRIC, COSINE = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
"""Kinds of score."""

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
def claim(claim_R: tl.tensor, code: tl.tensor, at: tl.tensor) -> tl.tensor:
    """claim_R[row] ← max(1 + at) over the entries that name the row."""
    row = tl.where(code < -1, ~code, code)
    tl.atomic_max(claim_R + row, at + 1, mask=row >= 0, sem="relaxed")


@triton.jit
def claim_rows(
    row_VW: tl.tensor, claim_R: tl.tensor, n_entries: tl.tensor, TILE: tl.constexpr
) -> None:
    """Slots of the first step of a chunk; those of the others are found by ``move_rows``."""
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    code = tl.load(row_VW + at, mask=at < n_entries, other=-1)
    claim(claim_R, code, at)


@triton.jit(do_not_specialize=["step"])
def add_gradients(
    row_VW: tl.tensor,
    claim_R: tl.tensor,
    grad_LD: tl.tensor,
    grad_L: tl.tensor,
    touch_L: tl.tensor,
    moved_L: tl.tensor,
    theta_RD: tl.tensor,
    bias_I: tl.tensor,
    flag: tl.tensor,
    weight_VP: tl.tensor,
    log_q_VN: tl.tensor,
    tries_V: tl.tensor,
    stats: tl.tensor,
    step: tl.tensor,
    size: tl.tensor,
    n_users: tl.tensor,
    scale: tl.tensor,
    temperature: tl.tensor,
    margin: tl.tensor,
    n_items: tl.tensor,
    slope_limit: tl.tensor,
    tau: tl.tensor,
    rho: tl.tensor,
    P: tl.constexpr,
    PP: tl.constexpr,
    N: tl.constexpr,
    NN: tl.constexpr,
    D: tl.constexpr,
    DD: tl.constexpr,
    OBJECTIVE: tl.constexpr,
    SCORE: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HOLD: tl.constexpr,
    WEIGHTED: tl.constexpr,
    HAS_Q: tl.constexpr,
    WIDE: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    """Scores, losses, slopes and gradients of ``size`` visits, P positives and N negatives each.

        DOT      s = u · v + b         ∂/∂u = Σ_i g_i v_i,     ∂/∂v_i = g_i u,   ∂/∂b_i = g_i
        METRIC   s = 2 u · v - ‖v‖²    ∂/∂u = Σ_i 2 g_i v_i,   ∂/∂v_i = 2 g_i (u - v_i)
        COSINE   s = u · v / τ (+ b)   ∂/∂u = Σ_i g_i (v_i - (u · v_i) u) / τ, and mirrored

    with g the slopes of Σ_b ω_b l_b. ``touch_L`` counts how often L2 weighs a row, in units of
    1/N; ``moved_L`` gets the row of each slot, -1 for entries that are none. ``stats`` gets the
    sums of loss, effective sample size and unanswered rows of each program.
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
    slot = tl.load(claim_R + user, mask=there, other=0) - 1 - first
    slot_P = tl.load(claim_R + pos, mask=present, other=0) - 1 - first
    slot_N = tl.load(claim_R + neg, mask=drawn, other=0) - 1 - first
    if WIDE:
        user, pos, neg = user.to(tl.int64), pos.to(tl.int64), neg.to(tl.int64)
        slot, slot_P, slot_N = slot.to(tl.int64), slot_P.to(tl.int64), slot_N.to(tl.int64)

    user_D = there[:, None] & (d < D)[None, :]
    pos_D = present[:, :, None] & (d < D)[None, None, :]
    neg_D = accepted[:, :, None] & (d < D)[None, None, :]
    u = tl.load(theta_RD + user[:, None] * D + d[None, :], mask=user_D, other=0.0)
    v_pos = tl.load(theta_RD + pos[:, :, None] * D + d[None, None, :], mask=pos_D, other=0.0)
    v_neg = tl.load(theta_RD + neg[:, :, None] * D + d[None, None, :], mask=neg_D, other=0.0)
    if SCORE == METRIC:
        s_pos = tl.sum((2 * u[:, None, :] - v_pos) * v_pos, axis=2)
        s_neg = tl.sum((2 * u[:, None, :] - v_neg) * v_neg, axis=2)
    elif SCORE == COSINE:
        s_pos = tl.sum(u[:, None, :] * v_pos, axis=2) / tau
        s_neg = tl.sum(u[:, None, :] * v_neg, axis=2) / tau
    else:
        s_pos = tl.sum(u[:, None, :] * v_pos, axis=2)
        s_neg = tl.sum(u[:, None, :] * v_neg, axis=2)
    # Without their biases, which no vector feels.
    bare_pos, bare_neg = s_pos, s_neg
    if HAS_BIAS:
        s_pos += tl.load(bias_I + pos - n_users, mask=present, other=0.0)
        s_neg += tl.load(bias_I + neg - n_users, mask=accepted, other=0.0)

    here = tl.sum(present.to(tl.int32), axis=1)
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
    elif (OBJECTIVE == RANK_BY_TRIES) | (OBJECTIVE == RANK_BY_IMPOSTORS):
        hinge = margin + s_neg[:, None, :] - s_pos[:, :, None]
        violates = accepted[:, None, :] & present[:, :, None] & (hinge > 0)
        if OBJECTIVE == RANK_BY_TRIES:
            # One negative: the violation, or the last of the tries, whose hinge is 0.
            tries = tl.load(tries_V + visit, mask=there, other=1)
            rank = tl.maximum((n_items - 1) // tl.maximum(tries, 1), 1)[:, None] + 0 * pos
        else:
            impostors = tl.sum(violates.to(tl.int32), axis=2)
            rank = 1 + n_items * impostors // tl.maximum(count, 1)[:, None]
            # Of the hardest negatives the first: the others get no gradient.
            top = tl.max(tl.where(violates, hinge, 0.0), axis=2)
            place = tl.where(violates & (hinge == top[:, :, None]), n[None, None, :], NN)
            violates &= n[None, None, :] == tl.min(place, axis=2)[:, :, None]
        slope = tl.where(violates, tl.log(rank.to(tl.float32))[:, :, None], 0.0)
        loss = tl.sum(slope * tl.where(violates, hinge, 0.0), axis=2)
        slope *= omega[:, :, None]
        g_pos = -tl.sum(slope, axis=2)
        g_neg = tl.sum(slope, axis=1)
    elif OBJECTIVE == SOFTMAX:
        a = tl.where(accepted, s_neg - log_q, -1e38)
        most = tl.max(a, axis=1)
        e = tl.where(accepted, tl.exp(a - most[:, None]), 0.0)
        total = tl.where(count > 0, tl.sum(e, axis=1), 1.0)
        weight = e / total[:, None]
        square = tl.sum(weight * weight, axis=1)
        effective = tl.where(square > 0, 1.0 / tl.where(square > 0, square, 1.0), 0.0)
        log_z = tl.where(count > 0, most, 0.0) + tl.log(total * share)
        answered = (count > 0)[:, None]
        loss = tl.where(answered, log_z[:, None] - s_pos / rho, 0.0)
        g_pos = tl.where(answered, -omega / rho, 0.0)
        g_neg = tl.sum(omega, axis=1)[:, None] * weight
    else:
        f_pos, slope_pos = _softplus_and_slope(-s_pos)
        f, slope = _softplus_and_slope(s_neg)
        if OBJECTIVE == LOGISTIC:
            weight = tl.where(accepted, share[:, None], 0.0)
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
    if SCORE == METRIC:
        g_u = _fixed(2 * g_u, scale)
        g_vpos = _fixed(2 * g_pos[:, :, None] * (u[:, None, :] - v_pos), scale)
        g_vneg = _fixed(2 * g_neg[:, :, None] * (u[:, None, :] - v_neg), scale)
    elif SCORE == COSINE:
        along = tl.sum(g_pos * bare_pos, axis=1) + tl.sum(g_neg * bare_neg, axis=1)
        g_u = _fixed(g_u / tau - along[:, None] * u, scale)
        across = u[:, None, :] / tau - bare_pos[:, :, None] * v_pos
        g_vpos = _fixed(g_pos[:, :, None] * across, scale)
        across = u[:, None, :] / tau - bare_neg[:, :, None] * v_neg
        g_vneg = _fixed(g_neg[:, :, None] * across, scale)
    else:
        g_u = _fixed(g_u, scale)
        g_vpos = _fixed(g_pos[:, :, None] * u[:, None, :], scale)
        g_vneg = _fixed(g_neg[:, :, None] * u[:, None, :], scale)
    into = grad_LD + slot[:, None] * D + d[None, :]
    into_P = grad_LD + slot_P[:, :, None] * D + d[None, None, :]
    into_N = grad_LD + slot_N[:, :, None] * D + d[None, None, :]
    tl.atomic_add(into, g_u, mask=user_D, sem="relaxed")
    tl.atomic_add(into_P, g_vpos, mask=pos_D, sem="relaxed")
    tl.atomic_add(into_N, g_vneg, mask=neg_D, sem="relaxed")
    tl.atomic_add(grad_L + slot_P, _fixed(g_pos, scale), mask=present, sem="relaxed")
    tl.atomic_add(grad_L + slot_N, _fixed(g_neg, scale), mask=accepted, sem="relaxed")
    tl.atomic_add(touch_L + slot, N * here, mask=there, sem="relaxed")
    tl.atomic_add(touch_L + slot_P, N, mask=present, sem="relaxed")
    here_N = here[:, None] + 0 * n[None, :]
    tl.atomic_add(touch_L + slot_N, here_N, mask=drawn, sem="relaxed")

    moved = tl.where(there & (slot == entry), user, -1)
    moved_P = tl.where(present & (slot_P == entry_P), pos, -1)
    moved_N = tl.where(drawn & (slot_N == entry_N), neg, -1)
    tl.store(moved_L + entry, moved.to(tl.int32), mask=inside)
    tl.store(moved_L + entry_P, moved_P.to(tl.int32), mask=in_P)
    tl.store(moved_L + entry_N, moved_N.to(tl.int32), mask=in_N)

    into = stats + (step * tl.num_programs(0) + tl.program_id(0)) * 3
    tl.store(into, tl.sum(tl.sum(loss, axis=1), axis=0))
    tl.store(into + 1, tl.sum(effective * here.to(tl.float32), axis=0))
    tl.store(into + 2, tl.sum(tl.where(count == 0, here, 0), axis=0).to(tl.float32))


@triton.jit(do_not_specialize=["step", "n_claims"])
def move_rows(
    row_VW: tl.tensor,
    claim_R: tl.tensor,
    grad_LD: tl.tensor,
    grad_L: tl.tensor,
    touch_L: tl.tensor,
    moved_L: tl.tensor,
    theta_RD: tl.tensor,
    bias_I: tl.tensor,
    flag: tl.tensor,
    first_RD: tl.tensor,
    second_RD: tl.tensor,
    first_I: tl.tensor,
    second_I: tl.tensor,
    rates_S3: tl.tensor,
    step: tl.tensor,
    n_entries: tl.tensor,
    n_claims: tl.tensor,
    n_users: tl.tensor,
    unit: tl.tensor,
    l2: tl.tensor,
    beta1: tl.tensor,
    gain1: tl.tensor,
    beta2: tl.tensor,
    gain2: tl.tensor,
    epsilon: tl.tensor,
    theta_limit: tl.tensor,
    D: tl.constexpr,
    DD: tl.constexpr,
    OPTIMIZER: tl.constexpr,
    SCORE: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    WIDE: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    """θ ← θ - step(g) for the rows of the step, which leaves their slots at 0; claims the next.

        g = (sum · unit + l2 · touches · θ) / B,   unit = 1 / scale,   l2 = λ / N

    ``rates_S3`` holds for each step 1/B, the learning rate (divided by 1 - β₁ᵗ for Adam), and
    1/√(1 - β₂ᵗ); ``gain`` is 1 - β, which taken in float32 would lose four digits. ``first`` and
    ``second`` are Adam's moments; row Adagrad keeps its one number a row in ``second``. With
    METRIC, a row that left the unit ball is projected onto it; with COSINE a row has no decay and
    is brought back to the sphere.
    """
    entry = tl.program_id(0) * TILE + tl.arange(0, TILE)
    d = tl.arange(0, DD)
    row = tl.load(moved_L + entry, mask=entry < n_entries, other=-1)
    at = (step + 1) * n_entries + entry
    claim(claim_R, tl.load(row_VW + at, mask=entry < n_claims, other=-1), at)
    share = tl.load(rates_S3 + step * 3)
    rate = tl.load(rates_S3 + step * 3 + 1)
    correct = tl.load(rates_S3 + step * 3 + 2)
    if WIDE:
        entry, row = entry.to(tl.int64), row.to(tl.int64)
    there = row >= 0
    item = row - n_users
    if not HAS_BIAS:
        item = 0 * row - 1
    has_bias = item >= 0
    at = row[:, None] * D + d[None, :]
    into = grad_LD + entry[:, None] * D + d[None, :]
    wanted = there[:, None] & (d < D)[None, :]

    theta = tl.load(theta_RD + at, mask=wanted, other=0.0)
    bias = tl.load(bias_I + item, mask=has_bias, other=0.0)
    decay = tl.load(touch_L + entry, mask=there, other=0).to(tl.float32) * (l2 * share)
    g = tl.load(into, mask=wanted, other=0).to(tl.float32) * (unit * share)
    if SCORE != COSINE:
        g += decay[:, None] * theta
    g_bias = tl.load(grad_L + entry, mask=has_bias, other=0).to(tl.float32) * (unit * share)
    g_bias += decay * bias
    moved, moved_bias = theta, bias
    if OPTIMIZER == LAZY_ADAM:
        m = beta1 * tl.load(first_RD + at, mask=wanted, other=0.0) + gain1 * g
        v = beta2 * tl.load(second_RD + at, mask=wanted, other=0.0) + gain2 * g * g
        moved -= rate * m / (tl.sqrt_rn(v) * correct + epsilon)
        tl.store(first_RD + at, m, mask=wanted)
        tl.store(second_RD + at, v, mask=wanted)
        m = beta1 * tl.load(first_I + item, mask=has_bias, other=0.0) + gain1 * g_bias
        v = beta2 * tl.load(second_I + item, mask=has_bias, other=0.0) + gain2 * g_bias * g_bias
        moved_bias -= rate * m / (tl.sqrt_rn(v) * correct + epsilon)
        tl.store(first_I + item, m, mask=has_bias)
        tl.store(second_I + item, v, mask=has_bias)
    elif OPTIMIZER == ROW_ADAGRAD:
        a = tl.load(second_RD + row, mask=there, other=0.0) + tl.sum(g * g, axis=1) / D
        moved -= rate * g / (tl.sqrt_rn(a)[:, None] + epsilon)
        tl.store(second_RD + row, a, mask=there)
        a = tl.load(second_I + item, mask=has_bias, other=0.0) + g_bias * g_bias
        moved_bias -= rate * g_bias / (tl.sqrt_rn(a) + epsilon)
        tl.store(second_I + item, a, mask=has_bias)
    else:
        moved -= rate * g
        moved_bias -= rate * g_bias
    if SCORE == METRIC:
        moved /= tl.maximum(tl.sqrt_rn(tl.sum(moved * moved, axis=1)), 1.0)[:, None]
    elif SCORE == COSINE:
        moved /= tl.where(there, tl.sqrt_rn(tl.sum(moved * moved, axis=1)), 1.0)[:, None]

    inside = (tl.abs(theta) <= theta_limit) & (tl.abs(moved) <= theta_limit)
    inside_bias = (tl.abs(bias) <= theta_limit) & (tl.abs(moved_bias) <= theta_limit)
    outside = tl.maximum(tl.max((~inside).to(tl.int32), axis=1), (~inside_bias).to(tl.int32))
    if tl.max(outside, axis=0) > 0:
        tl.store(flag, 1)
    tl.store(theta_RD + at, moved, mask=wanted)
    tl.store(bias_I + item, moved_bias, mask=has_bias)
    tl.store(into, tl.zeros((TILE, DD), tl.int64), mask=wanted)
    tl.store(grad_L + entry, tl.zeros((TILE,), tl.int64), mask=has_bias)
    tl.store(touch_L + entry, tl.zeros((TILE,), tl.int32), mask=there)
