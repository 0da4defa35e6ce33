"""The visits of a chunk and their negatives, drawn at once, ahead of the steps that use them.

A visit is a program's lane, and a row of memory: W = 1 + P + N entries, which are its context,
its positives and its negatives. Contexts and items share one numbering, item i is row U + i:

    row_VW     row of each entry; -1 past the last visit or positive; ~row for a negative where
               every try met a known positive
    weight_VP  interaction weights ω of the positives
    log_q_VN   log Q(j | c) of the negatives, up to a constant of the visit

so a step of the epoch reads one row for each entry and needs no random number.
"""

from __future__ import annotations

import triton
import triton.language as tl

from sdgar.kernels.triton.mixtures import alias_entry
from sdgar.kernels.triton.rng import index_and_fraction, permuted, words

UNIFORM, POPULARITY = tl.constexpr(0), tl.constexpr(1)
DECOMPOSABLE, RANK_BY_FACTOR = tl.constexpr(2), tl.constexpr(3)
"""The kinds of draw, named like the classes of samplers. Samplers that look at scores draw their
candidates by UNIFORM."""

TRIES = tl.constexpr(16)


@triton.jit
def _known_below(items_E, first, stop, bound, wanted, steps, SLIDE: tl.constexpr):
    """#{j : p_j - SLIDE · j < bound} for ascending positives p_j at first … stop - 1."""
    low, high = first, stop
    for _ in range(steps):
        open_ = wanted & (low < high)
        middle = (low + high) >> 1
        value = tl.load(items_E + middle, mask=open_, other=0).to(tl.int64)
        below = value - SLIDE * (middle - first) < bound
        low = tl.where(open_ & below, middle + 1, low)
        high = tl.where(open_ & ~below, middle, high)
    return low - first


@triton.jit
def _is_known(items_E, first, stop, item, wanted, steps):
    at = first + _known_below(items_E, first, stop, item, wanted, steps, 0)
    found = tl.load(items_E + at, mask=wanted & (at < stop), other=-1)
    return found.to(tl.int64) == item


@triton.jit(do_not_specialize=["seed", "start", "n_visits", "steps"])
def draw_visits(
    row_VW,
    weight_VP,
    numbers,
    strides,
    seed,
    start,
    n_lanes,
    n_visits,
    user_E,
    items_E,
    weight_E,
    start_U1,
    context_V,
    place_V,
    state_bins,
    item_bins,
    order_KI,
    downward_UK,
    n_states,
    n_users,
    n_items,
    steps,
    P: tl.constexpr,
    PP: tl.constexpr,
    N: tl.constexpr,
    NN: tl.constexpr,
    DRAW: tl.constexpr,
    WEIGHTED: tl.constexpr,
    ROUNDS: tl.constexpr,
    LEFT_BITS: tl.constexpr,
    RIGHT_BITS: tl.constexpr,
    TILE: tl.constexpr,
):
    """Draw the visits at places start … start + n_lanes - 1 of the epoch, and their negatives.

    ``numbers`` holds what changes from epoch to epoch: stream << 24 | epoch for the negatives and
    for the deal, then the keys of the permutation. ``steps`` halvings search the longest history.
    PP and NN are P and N rounded up to powers of two.
    """
    lane = tl.program_id(0) * TILE + tl.arange(0, TILE)
    p, n = tl.arange(0, PP), tl.arange(0, NN)
    place = start + lane
    there = (lane < n_lanes) & (place < n_visits)
    place = tl.where(there, place, 0)
    visit = permuted(n_visits, numbers + 2, place, ROUNDS, LEFT_BITS, RIGHT_BITS)
    if P == 1:
        row = visit
        user = tl.load(user_E + row, mask=there, other=0).to(tl.int64)
        first = tl.load(start_U1 + user, mask=there, other=0)
        stop = tl.load(start_U1 + user + 1, mask=there, other=0)
        row_P = row[:, None] + 0 * p[None, :]
        present = there[:, None] & (p == 0)[None, :]
    else:
        user = tl.load(context_V + visit, mask=there, other=0).to(tl.int64)
        dealt = tl.load(place_V + visit, mask=there, other=0)
        first = tl.load(start_U1 + user, mask=there, other=0)
        stop = tl.load(start_U1 + user + 1, mask=there, other=1)
        count = tl.maximum(stop - first, 1)
        deal, choice, _, _ = words(seed, user, 0 * lane, tl.load(numbers + 1))
        stride = tl.load(strides + (choice & 3).to(tl.int64)) % count
        offset = ((deal.to(tl.uint64) * count.to(tl.uint64)) >> 32).to(tl.int64)
        row = first + (offset + stride * dealt) % count
        place_P = dealt[:, None] + p[None, :]
        row_P = first[:, None] + (offset[:, None] + stride[:, None] * place_P) % count[:, None]
        present = there[:, None] & (p < P)[None, :] & (place_P < count[:, None])
    pos = n_users + tl.load(items_E + row_P, mask=present, other=0)
    into = row_VW + lane.to(tl.int64) * (1 + P + N)
    inside = lane < n_lanes
    tl.store(into, tl.where(there, user, -1).to(tl.int32), mask=inside)
    held_P = inside[:, None] & (p < P)[None, :]
    tl.store(into[:, None] + 1 + p[None, :], tl.where(present, pos, -1), mask=held_P)
    if WEIGHTED:
        weight = tl.load(weight_E + row_P, mask=present, other=0.0)
        tl.store(weight_VP + lane[:, None] * P + p[None, :], weight, mask=held_P)

    wanted = there[:, None] & (n < N)[None, :]
    tail = tl.load(numbers)
    row_N = row[:, None] + 0 * n[None, :]
    user_N = user[:, None] + 0 * n[None, :]
    first_N = first[:, None] + 0 * n[None, :]
    stop_N = stop[:, None] + 0 * n[None, :]
    slot = n[None, :] + 0 * lane[:, None]
    if DRAW == UNIFORM:
        unknown = n_items - (stop_N - first_N)
        w0, w1, _, _ = words(seed, row_N, slot, tail)
        r, _ = index_and_fraction(unknown.to(tl.uint64), w0, w1)
        r = r.to(tl.int64)
        item = r + _known_below(items_E, first_N, stop_N, r + 1, wanted, steps, 1)
        failed = unknown == 0
        own = tl.load(items_E + row, mask=there, other=0).to(tl.int64)
        item = tl.where(failed, own[:, None], item)
    else:
        item = 0 * row_N
        failed = wanted
        t = 0
        left = 1
        # A tile tries again as long as one of its lanes has no negative yet.
        while (t < TRIES) & (left > 0):
            w0, w1, w2, w3 = words(seed, row_N, t * N + slot, tail)
            if DRAW == POPULARITY:
                drawn = alias_entry(item_bins, 0 * user_N, n_items, w0, w1, failed)
            elif DRAW == DECOMPOSABLE:
                state = alias_entry(state_bins, user_N, n_states, w0, w1, failed)
                drawn = alias_entry(item_bins, state, n_items, w2, w3, failed)
            else:
                tl.static_assert(DRAW == RANK_BY_FACTOR)
                factor = alias_entry(state_bins, user_N, n_states, w0, w1, failed)
                rank = alias_entry(item_bins, 0 * user_N, n_items, w2, w3, failed)
                down = tl.load(downward_UK + user_N * n_states + factor, mask=failed, other=0)
                ranked = tl.where(down != 0, rank, n_items - 1 - rank)
                drawn = tl.load(order_KI + factor * n_items + ranked, mask=failed, other=0)
                drawn = drawn.to(tl.int64)
            item = tl.where(failed, drawn, item)
            failed = failed & _is_known(items_E, first_N, stop_N, item, failed, steps)
            left = tl.max(tl.max(failed.to(tl.int32), axis=1), axis=0)
            t += 1
    # One number says which row it is and whether it counts: ~row is below -1, and -1 is no row.
    code = n_users + item
    code = tl.where(there[:, None], tl.where(failed, ~code, code), -1).to(tl.int32)
    held_N = inside[:, None] & (n < N)[None, :]
    tl.store(into[:, None] + 1 + P + n[None, :], code, mask=held_N)


@triton.jit
def log_q(
    log_q_VN,
    row_VW,
    x_UK,
    y_IK,
    log_q_I,
    start_U1,
    n_draws,
    n_users,
    n_items,
    P: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    KK: tl.constexpr,
    DRAW: tl.constexpr,
    TILE: tl.constexpr,
):
    """log Q(j | c) = log Σ_k x_ck y_jk, or what one table says, or -log of the unknown items."""
    draw = tl.program_id(0) * TILE + tl.arange(0, TILE)
    visit = row_VW + (draw // N).to(tl.int64) * (1 + P + N)
    user = tl.load(visit, mask=draw < n_draws, other=-1).to(tl.int64)
    there = user >= 0
    row = tl.load(visit + 1 + P + draw % N, mask=there, other=0).to(tl.int64)
    item = tl.where(row < 0, ~row, row) - n_users
    if DRAW == POPULARITY:
        value = tl.load(log_q_I + item, mask=there, other=0.0)
    elif DRAW == UNIFORM:
        first = tl.load(start_U1 + user, mask=there, other=0)
        stop = tl.load(start_U1 + user + 1, mask=there, other=0)
        value = -tl.log(tl.maximum(n_items - (stop - first), 1).to(tl.float32))
    else:
        tl.static_assert(DRAW == DECOMPOSABLE)
        k = tl.arange(0, KK)
        wanted = there[:, None] & (k < K)[None, :]
        x = tl.load(x_UK + user[:, None] * K + k[None, :], mask=wanted, other=0.0)
        y = tl.load(y_IK + item[:, None] * K + k[None, :], mask=wanted, other=0.0)
        value = tl.log(tl.where(there, tl.sum(x * y, axis=1), 1.0))
    tl.store(log_q_VN + draw, value, mask=there)
