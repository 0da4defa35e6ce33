"""One step of an epoch: gradients of a batch of visits, then the rows they touched.

Contexts and items share one table θ of R = U + I rows, contexts first; biases b are a separate
table. Of the entries of a step that name the same row, the last one is its slot, in which all of
them add up their gradients; it is found a step ahead, by an atomic maximum. So the sums of a step
lie close together, in the cache, whatever the size of the tables.

Gradients are summed as integers, g · scale cut to 64 bits, because integer addition does not depend
on the order in which threads come: the same seed gives bit-identical results. A sum stays below
2^63 as long as

    Σ_b ω_b · (|∂l/∂s⁺_b| + Σ_j |∂l/∂s_bj|) · max |θ|  ≤  rows · max ω · slope_limit · theta_limit

from which the engine takes the scale. Slopes and parameters beyond these limits, NaN included,
raise a flag, since an integer cannot hold them.
"""

from __future__ import annotations

import triton
import triton.language as tl

from sdgar.kernels.triton.losses import WARP_HINGE, loss_and_slopes
from sdgar.kernels.triton.scores import (
    COSINE,
    bare_scores,
    context_gradient,
    item_gradients,
    project,
)
from sdgar.kernels.triton.steps import LAZY_ADAM, ROW_ADAGRAD, SGD, adagrad, lazy_adam, row_adagrad


@triton.jit
def _fixed(x, scale):
    """Return x in units of 1 / scale, cut to a whole number of 64 bits."""
    return (x * scale).to(tl.int64)


@triton.jit
def claim(claim_R, code, at):
    """claim_R[row] ← max(1 + at) over the entries that name the row."""
    row = tl.where(code < -1, ~code, code)
    # Relaxed, here and below: the next kernel begins after all memory of this one is written.
    tl.atomic_max(claim_R + row, at + 1, mask=row >= 0, sem="relaxed")


@triton.jit
def claim_rows(row_VW, claim_R, n_entries, TILE: tl.constexpr):
    """Claim the slots of the first step of a chunk; ``move_rows`` claims the next ones."""
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    code = tl.load(row_VW + at, mask=at < n_entries, other=-1)
    claim(claim_R, code, at)


@triton.jit(do_not_specialize=["step"])
def add_gradients(
    row_VW,
    claim_R,
    grad_LD,
    grad_L,
    touch_L,
    moved_L,
    theta_RD,
    bias_I,
    flag,
    weight_VP,
    log_q_VN,
    tries_V,
    stats,
    step,
    size,
    n_users,
    scale,
    temperature,
    margin,
    n_items,
    slope_limit,
    tau,
    rho,
    P: tl.constexpr,
    PP: tl.constexpr,
    N: tl.constexpr,
    NN: tl.constexpr,
    D: tl.constexpr,
    DD: tl.constexpr,
    LOSS: tl.constexpr,
    SCORE: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HOLD: tl.constexpr,
    WEIGHTED: tl.constexpr,
    HAS_Q: tl.constexpr,
    WIDE: tl.constexpr,
    TILE: tl.constexpr,
):
    """Add up the gradients of ``size`` visits, with P positives and N negatives each.

    The loss is Σ_b ω_b l_b. ``touch_L`` counts how often L2 weighs a row, in units of
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
    log_q = 0.0
    if HAS_Q:
        log_q = tl.load(log_q_VN + visit[:, None] * N + n[None, :], mask=accepted, other=0.0)
    slot = tl.load(claim_R + user, mask=there, other=0) - 1 - first
    slot_P = tl.load(claim_R + pos, mask=present, other=0) - 1 - first
    slot_N = tl.load(claim_R + neg, mask=drawn, other=0) - 1 - first
    # Offsets of 32 bits are faster, and enough for all but the largest tables.
    if WIDE:
        user, pos, neg = user.to(tl.int64), pos.to(tl.int64), neg.to(tl.int64)
        slot, slot_P, slot_N = slot.to(tl.int64), slot_P.to(tl.int64), slot_N.to(tl.int64)

    user_D = there[:, None] & (d < D)[None, :]
    pos_D = present[:, :, None] & (d < D)[None, None, :]
    neg_D = accepted[:, :, None] & (d < D)[None, None, :]
    u = tl.load(theta_RD + user[:, None] * D + d[None, :], mask=user_D, other=0.0)
    v_pos = tl.load(theta_RD + pos[:, :, None] * D + d[None, None, :], mask=pos_D, other=0.0)
    v_neg = tl.load(theta_RD + neg[:, :, None] * D + d[None, None, :], mask=neg_D, other=0.0)
    bare_pos, bare_neg = bare_scores(u, v_pos, tau, SCORE), bare_scores(u, v_neg, tau, SCORE)
    s_pos, s_neg = bare_pos, bare_neg
    if HAS_BIAS:
        s_pos += tl.load(bias_I + pos - n_users, mask=present, other=0.0)
        s_neg += tl.load(bias_I + neg - n_users, mask=accepted, other=0.0)

    here = tl.sum(present.to(tl.int32), axis=1)
    count = tl.sum(accepted.to(tl.int32), axis=1)
    tries = 0 * count
    if LOSS == WARP_HINGE:
        tries = tl.load(tries_V + visit, mask=there, other=1)
    loss, g_pos, g_neg, effective = loss_and_slopes(
        s_pos, s_neg, omega, present, accepted, count, log_q, tries,
        temperature, margin, rho, n_items, slope_limit, flag,
        LOSS, HOLD, HAS_Q, NN,
    )  # fmt: skip
    loss = tl.where(present, loss * omega, 0.0)

    g_u = context_gradient(g_pos, g_neg, u, v_pos, v_neg, bare_pos, bare_neg, tau, SCORE)
    # Whole numbers add up to the same sum in any order, as threads come in any order.
    g_u = _fixed(g_u, scale)
    g_vpos = _fixed(item_gradients(g_pos, u, v_pos, bare_pos, tau, SCORE), scale)
    g_vneg = _fixed(item_gradients(g_neg, u, v_neg, bare_neg, tau, SCORE), scale)
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
    row_VW,
    claim_R,
    grad_LD,
    grad_L,
    touch_L,
    moved_L,
    theta_RD,
    bias_I,
    flag,
    first_RD,
    second_RD,
    first_I,
    second_I,
    rates_S3,
    step,
    n_entries,
    n_claims,
    n_users,
    unit,
    l2,
    beta1,
    gain1,
    beta2,
    gain2,
    epsilon,
    theta_limit,
    D: tl.constexpr,
    DD: tl.constexpr,
    STEP: tl.constexpr,
    SCORE: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    WIDE: tl.constexpr,
    TILE: tl.constexpr,
):
    """θ ← θ - step(g) for the rows of the step, which leaves their slots at 0; claims the next.

        g = (sum · unit + l2 · touches · θ) / B,   unit = 1 / scale,   l2 = λ / N

    ``rates_S3`` holds for each step 1/B, the learning rate (divided by 1 - β₁ᵗ for Adam), and
    1/√(1 - β₂ᵗ); ``gain`` is 1 - β, which taken in float32 would lose four digits. ``first`` and
    ``second`` are Adam's moments; row Adagrad keeps its one number a row in ``second``. Rows of
    COSINE have no decay.
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
    if STEP == LAZY_ADAM:
        moved = lazy_adam(
            theta, g, first_RD + at, second_RD + at, wanted,
            rate, correct, beta1, gain1, beta2, gain2, epsilon,
        )  # fmt: skip
        moved_bias = lazy_adam(
            bias, g_bias, first_I + item, second_I + item, has_bias,
            rate, correct, beta1, gain1, beta2, gain2, epsilon,
        )  # fmt: skip
    elif STEP == ROW_ADAGRAD:
        moved = row_adagrad(theta, g, second_RD + row, there, rate, epsilon, D)
        moved_bias = adagrad(bias, g_bias, second_I + item, has_bias, rate, epsilon)
    else:
        tl.static_assert(STEP == SGD)
        moved, moved_bias = theta - rate * g, bias - rate * g_bias
    moved = project(moved, there, SCORE)

    inside = (tl.abs(theta) <= theta_limit) & (tl.abs(moved) <= theta_limit)
    inside_bias = (tl.abs(bias) <= theta_limit) & (tl.abs(moved_bias) <= theta_limit)
    outside = tl.maximum(tl.max((~inside).to(tl.int32), axis=1), (~inside_bias).to(tl.int32))
    if tl.max(outside, axis=0) > 0:
        tl.store(flag, 1)
    tl.store(theta_RD + at, moved, mask=wanted)
    tl.store(bias_I + item, moved_bias, mask=has_bias)
    # Slots are left at 0, so that no step begins with a pass over the buffers.
    tl.store(into, tl.zeros((TILE, DD), tl.int64), mask=wanted)
    tl.store(grad_L + entry, tl.zeros((TILE,), tl.int64), mask=has_bias)
    tl.store(touch_L + entry, tl.zeros((TILE,), tl.int32), mask=there)
