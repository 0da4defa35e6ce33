"""Sums over pairs of events, and ranks of next items, on the CPU; see ``maths/transitions.py``.

Every item is computed by one thread, in one order of adding up, so that its bytes do not depend on
the number of threads. Scratch memory is given by the caller, one for each call.
"""

from __future__ import annotations

import numpy as np

from sdgar.kernels.compiled import inner, outer
from sdgar.kernels.numba.math import exp_negative
from sdgar.kernels.numba.topk import sink

_ONE = np.float32(1)


@outer
def tails(first, last, start_U1, clock_E, step, tail_E3):
    """Σ_t 1, Σ_t exp(z_e - z_t + step) and Σ_t exp(2 (z_e - z_t + step)) over the events t > e."""
    for u in range(first, last):
        end = start_U1[u + 1]
        for e in range(end - 1, start_U1[u] - 1, -1):
            if e == end - 1:
                tail_E3[e, 0] = tail_E3[e, 1] = tail_E3[e, 2] = np.float32(0)
                continue
            gap = clock_E[e + 1] - clock_E[e]
            fade = np.exp(-gap)
            own = np.exp(step - gap)
            tail_E3[e, 0] = tail_E3[e + 1, 0] + _ONE
            tail_E3[e, 1] = fade * tail_E3[e + 1, 1] + own
            tail_E3[e, 2] = fade * fade * tail_E3[e + 1, 2] + own * own


@inner
def _strength(e, target, clock_E, step, floor):
    """s_e(t): how much event e counts for a later target t."""
    lag = np.float32(clock_E[e] - clock_E[target] + step)
    return floor + (_ONE - floor) * exp_negative(min(lag, np.float32(0)))


@inner
def _together(e, f, tail_E3, clock_E, floor):
    """Σ_t s_e(t) s_f(t) over the targets t after both."""
    later, rest = max(e, f), _ONE - floor
    fade = exp_negative(np.float32(-abs(clock_E[f] - clock_E[e])))
    return (
        floor * floor * tail_E3[later, 0]
        + floor * rest * (_ONE + fade) * tail_E3[later, 1]
        + rest * rest * fade * tail_E3[later, 2]
    )


@inner
def _count(
    item, start_I1, event_E, user_E, start_U1, item_E, tail_E3, clock_E, step, floor,
    same_I, past_I, met_I,
):  # fmt: skip
    """Add up what item j has with every item that its users have; list the items that were met.

    same_I = X'X and past_I = S'S of row j; same_I is above 0 for every item that was met.
    """
    met = 0
    for n in range(start_I1[item], start_I1[item + 1]):
        e = event_E[n]
        begin, end = start_U1[user_E[e]], start_U1[user_E[e] + 1]
        for f in range(begin, end):
            other = item_E[f]
            if same_I[other] == 0:
                met_I[met] = other
                met += 1
            same_I[other] += _ONE
            past_I[other] += _together(e, f, tail_E3, clock_E, floor)
    return met


@outer
def diagonals(
    first, last, start_I1, event_E, user_E, start_U1, item_E, tail_E3, clock_E, step, floor,
    diagonal_I2,
):  # fmt: skip
    """Fill the diagonals of X'X and S'S of some items."""
    for i in range(first, last):
        for n in range(start_I1[i], start_I1[i + 1]):
            e = event_E[n]
            # Further events of one user with the same item follow each other.
            for m in range(n, start_I1[i + 1]):
                f = event_E[m]
                if user_E[f] != user_E[e]:
                    break
                times = _ONE if m == n else np.float32(2)
                diagonal_I2[i, 0] += times
                diagonal_I2[i, 1] += times * _together(e, f, tail_E3, clock_E, floor)


@inner
def _forget(met, met_I, one_I, other_I):
    """Clear what was met alone, so that an item costs its own terms and not all items."""
    for m in range(met):
        one_I[met_I[m]] = other_I[met_I[m]] = np.float32(0)


@inner
def _targets(
    item, start_I1, event_E, user_E, start_U1, item_E, clock_E, step, floor, same_I, next_I, met_I,
):  # fmt: skip
    """Add up columns i of X'X and S'T; list the items that were met."""
    met = 0
    for n in range(start_I1[item], start_I1[item + 1]):
        e = event_E[n]
        begin, end = start_U1[user_E[e]], start_U1[user_E[e] + 1]
        for f in range(begin, end):
            other = item_E[f]
            if same_I[other] == 0:
                met_I[met] = other
                met += 1
            same_I[other] += _ONE
            if f < e:
                next_I[other] += _strength(f, e, clock_E, step, floor)
    return met


@outer
def nearest(
    first, last, start_I1, event_E, user_E, start_U1, item_E, clock_E, step, floor, diagonal_I2,
    share, shrink, repeats, near_IK, both_IK2, same_I, next_I, met_I, value_K, heap_K,
):  # fmt: skip
    """Find the k items j with the largest B_ji / (√(A_jj X'X_ii) + shrink), in ascending order.

    Their numbers of X'X and S'T are filled in. An item with fewer neighbours has -1 for the rest.
    """
    k = near_IK.shape[1]
    for i in range(first, last):
        met = _targets(
            i, start_I1, event_E, user_E, start_U1, item_E, clock_E, step, floor, same_I, next_I,
            met_I,
        )  # fmt: skip
        for n in range(k):
            value_K[n], heap_K[n] = -np.inf, -1
        for m in range(met):
            j = met_I[m]
            if j == i and not repeats:
                continue
            own = share * diagonal_I2[j, 0] + (_ONE - share) * diagonal_I2[j, 1]
            norm = np.sqrt(own * diagonal_I2[i, 0]) + shrink
            value = (share * same_I[j] + (_ONE - share) * next_I[j]) / norm
            if value > value_K[0] or (value == value_K[0] and j < heap_K[0]):
                sink(value_K, heap_K, k, value, np.int32(j))
        for n in range(1, k):  # a few numbers, by insertion; places without an item come last
            found, at = heap_K[n], n
            while at > 0 and (heap_K[at - 1] > found or heap_K[at - 1] < 0) and found >= 0:
                heap_K[at] = heap_K[at - 1]
                at -= 1
            heap_K[at] = found
        for n in range(k):
            j = heap_K[n]
            near_IK[i, n] = j
            both_IK2[i, n, 0] = same_I[j] if j >= 0 else 0.0
            both_IK2[i, n, 1] = next_I[j] if j >= 0 else 0.0
        _forget(met, met_I, same_I, next_I)


@outer
def between(
    first, last, start_I1, event_E, user_E, start_U1, item_E, tail_E3, clock_E, step, floor,
    near_BK, from_I1, of_R, same_BP, past_BP, same_I, past_I, met_I,
):  # fmt: skip
    """Fill row p of the upper halves of the systems whose p-th neighbour is j, for some j."""
    k = near_BK.shape[1]
    for j in range(first, last):
        if from_I1[j] == from_I1[j + 1]:
            continue
        met = _count(
            j, start_I1, event_E, user_E, start_U1, item_E, tail_E3, clock_E, step, floor,
            same_I, past_I, met_I,
        )  # fmt: skip
        for r in range(from_I1[j], from_I1[j + 1]):
            b, p = of_R[r], 0
            while near_BK[b, p] != j:
                p += 1
            at = p * k - p * (p + 1) // 2
            for n in range(p, k):
                if near_BK[b, n] < 0:
                    break
                same_BP[b, at + n] = same_I[near_BK[b, n]]
                past_BP[b, at + n] = past_I[near_BK[b, n]]
        _forget(met, met_I, same_I, past_I)


@outer
def ranks(
    first, last, start_T1, item_E, strength_E, target_T, weight_start_I1, weight_column_F, weight_F,
    scale_GI, hidden, rank_TG, sum_I, met_I, value_G,
):  # fmt: skip
    """Count how many items score above the target, under each of G scales of the items.

    A target without a positive score has rank -1; with ``hidden``, items of the history do not
    count.
    """
    for t in range(first, last):
        met = 0
        for e in range(start_T1[t], start_T1[t + 1]):
            j = item_E[e]
            for f in range(weight_start_I1[j], weight_start_I1[j + 1]):
                i = weight_column_F[f]
                if sum_I[i] == 0:
                    met_I[met] = i
                    met += 1
                    # A sum that comes back to 0 would be listed twice; the least number is none.
                    sum_I[i] = np.float32(1e-38)
                sum_I[i] += strength_E[e] * weight_F[f]
        if hidden:
            for e in range(start_T1[t], start_T1[t + 1]):
                if sum_I[item_E[e]] != 0:
                    sum_I[item_E[e]] = -np.inf
        own = sum_I[target_T[t]]
        for g in range(len(scale_GI)):
            rank_TG[t, g] = 0 if own > 0 else -1
            value_G[g] = own * scale_GI[g, target_T[t]]
        for m in range(met):
            i = met_I[m]
            if own > 0 and i != target_T[t]:
                for g in range(len(scale_GI)):
                    rank_TG[t, g] += sum_I[i] * scale_GI[g, i] >= value_G[g]
            sum_I[i] = np.float32(0)


@outer
def all_pairs(
    first, last, start_I1, event_E, user_E, start_U1, item_E, tail_E3, clock_E, step, floor,
    same_II, past_II, next_II,
):  # fmt: skip
    """Fill some rows j of X'X, S'S and S'T."""
    for j in range(first, last):
        for n in range(start_I1[j], start_I1[j + 1]):
            e = event_E[n]
            for f in range(start_U1[user_E[e]], start_U1[user_E[e] + 1]):
                other = item_E[f]
                same_II[j, other] += _ONE
                past_II[j, other] += _together(e, f, tail_E3, clock_E, floor)
                if f > e:
                    next_II[j, other] += _strength(e, f, clock_E, step, floor)
