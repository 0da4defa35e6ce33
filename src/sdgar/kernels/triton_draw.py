"""The visits of a chunk and their negatives, drawn at once, ahead of the steps that use them.

A visit is a program's lane; its negatives are the columns. What is drawn lies in memory as

    user_V     context, -1 past the last visit
    pos_VP     positives of the visit, -1 past the last one
    weight_VP  their interaction weights ω
    item_VN    negatives j, or ~j where every try met a known positive
    log_q_VN   log Q(j | c), up to a constant of the visit

so a step of the epoch needs one look-up a row and no random number.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from sdgar.kernels.triton_rng import index_and_fraction, permuted, words

UNIFORM, ONE_TABLE, DECOMPOSED = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
"""Kinds of draw: from the unknown items; from one alias table; from a state's alias table."""

TRIES = tl.constexpr(16)


@triton.jit
def _known_below(
    items_E: Any, first: Any, stop: Any, bound: Any, wanted: Any, steps: Any, SLIDE: tl.constexpr
) -> Any:
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
def _is_known(items_E: Any, first: Any, stop: Any, item: Any, wanted: Any, steps: Any) -> Any:
    at = first + _known_below(items_E, first, stop, item, wanted, steps, 0)
    found = tl.load(items_E + at, mask=wanted & (at < stop), other=-1)
    return found.to(tl.int64) == item


@triton.jit
def _alias_draw(bins: Any, row: Any, n: Any, high: Any, low: Any, wanted: Any) -> Any:
    """``AliasTables.draw``: an entry of distribution ``row`` for each number (high, low)."""
    entry, fraction = index_and_fraction(n, high, low)
    found = tl.load(bins + row * n + entry.to(tl.int64), mask=wanted, other=0)
    return tl.where(
        fraction.to(tl.int64) < (found & 0xFFFFFFFF), entry.to(tl.int64), found >> 32
    )


@triton.jit(do_not_specialize=["start"])
def draw_visits(
    user_V: Any,
    pos_VP: Any,
    weight_VP: Any,
    item_VN: Any,
    numbers: Any,
    strides: Any,
    seed: Any,
    start: Any,
    n_lanes: Any,
    n_visits: Any,
    user_E: Any,
    items_E: Any,
    weight_E: Any,
    start_U1: Any,
    context_V: Any,
    place_V: Any,
    state_bins: Any,
    item_bins: Any,
    n_states: Any,
    n_items: Any,
    steps: Any,
    P: tl.constexpr,
    PP: tl.constexpr,
    N: tl.constexpr,
    NN: tl.constexpr,
    DRAW: tl.constexpr,
    WEIGHTED: tl.constexpr,
    LEFT_BITS: tl.constexpr,
    RIGHT_BITS: tl.constexpr,
    TILE: tl.constexpr,
) -> Any:
    """Visits at places start … start + n_lanes - 1 of the epoch, and their negatives.

    ``numbers`` holds what changes from epoch to epoch: the keys of the permutation, then
    stream << 24 | epoch for the negatives and for the deal. ``steps`` halvings search the
    longest history. PP and NN are P and N rounded up to powers of two.
    """
    lane = tl.program_id(0) * TILE + tl.arange(0, TILE)
    p, n = tl.arange(0, PP), tl.arange(0, NN)
    place = start + lane
    there = (lane < n_lanes) & (place < n_visits)
    visit = permuted(n_visits, numbers, tl.where(there, place, 0), LEFT_BITS, RIGHT_BITS)
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
        w0, w1, _, _ = words(seed, user, 0 * lane, tl.load(numbers + 7))
        stride = tl.load(strides + (w1 & 3).to(tl.int64)) % count
        offset = ((w0.to(tl.uint64) * count.to(tl.uint64)) >> 32).to(tl.int64)
        row = first + (offset + stride * dealt) % count
        place_P = dealt[:, None] + p[None, :]
        row_P = first[:, None] + (offset[:, None] + stride[:, None] * place_P) % count[:, None]
        present = there[:, None] & (p < P)[None, :] & (place_P < count[:, None])
    pos = tl.load(items_E + row_P, mask=present, other=-1)
    tl.store(user_V + lane, tl.where(there, user, -1).to(tl.int32), mask=lane < n_lanes)
    into_P = lane[:, None].to(tl.int64) * P + p[None, :]
    held_P = (lane < n_lanes)[:, None] & (p < P)[None, :]
    tl.store(pos_VP + into_P, pos, mask=held_P)
    if WEIGHTED:
        weight = tl.load(weight_E + row_P, mask=present, other=0.0)
        tl.store(weight_VP + into_P, weight, mask=held_P)

    wanted = there[:, None] & (n < N)[None, :]
    tail = tl.load(numbers + 6)
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
        while (t < TRIES) & (left > 0):
            w0, w1, w2, w3 = words(seed, row_N, t * N + slot, tail)
            if DRAW == ONE_TABLE:
                drawn = _alias_draw(item_bins, 0 * row_N, n_items, w0, w1, failed)
            else:
                state = _alias_draw(state_bins, user_N, n_states, w0, w1, failed)
                drawn = _alias_draw(item_bins, state, n_items, w2, w3, failed)
            item = tl.where(failed, drawn, item)
            failed = failed & _is_known(items_E, first_N, stop_N, item, failed, steps)
            left = tl.max(tl.max(failed.to(tl.int32), axis=1), axis=0)
            t += 1
    into_N = lane[:, None].to(tl.int64) * N + n[None, :]
    tl.store(item_VN + into_N, tl.where(failed, ~item, item).to(tl.int32), mask=wanted)


@triton.jit(do_not_specialize=["n_draws"])
def log_q(
    log_q_VN: Any,
    user_V: Any,
    item_VN: Any,
    x_UK: Any,
    y_IK: Any,
    log_q_I: Any,
    n_draws: Any,
    N: tl.constexpr,
    K: tl.constexpr,
    KK: tl.constexpr,
    DRAW: tl.constexpr,
    TILE: tl.constexpr,
) -> Any:
    """Log Q(j | c) = log Σ_k x_ck y_jk for a decomposed draw; a look-up for one table."""
    draw = tl.program_id(0) * TILE + tl.arange(0, TILE)
    user = tl.load(user_V + draw // N, mask=draw < n_draws, other=-1).to(tl.int64)
    there = user >= 0
    item = tl.load(item_VN + draw, mask=there, other=0).to(tl.int64)
    item = tl.where(item < 0, ~item, item)
    if DRAW == ONE_TABLE:
        value = tl.load(log_q_I + item, mask=there, other=0.0)
    else:
        k = tl.arange(0, KK)
        wanted = there[:, None] & (k < K)[None, :]
        x = tl.load(x_UK + user[:, None] * K + k[None, :], mask=wanted, other=0.0)
        y = tl.load(y_IK + item[:, None] * K + k[None, :], mask=wanted, other=0.0)
        value = tl.log(tl.where(there, tl.sum(x * y, axis=1), 1.0))
    tl.store(log_q_VN + draw, value, mask=there)
