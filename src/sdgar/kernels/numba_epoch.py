"""One epoch of matrix factorization on the CPU: draw, score, weigh, update, batch by batch.

The family is one loop with a pluggable draw, gradient and step. It is deterministic for any number
of threads: a visit is computed by one thread, and every user and item is owned by one thread,
which adds up its gradient in the order of the batch and then steps it. Gradients are taken at the
parameters the batch started with. A batch has two parts, with all threads meeting after each:

    score    visits split over threads: negatives, scores, slopes dl/ds, the gradient of u_c
    move     owners add up slope · u_c over the entries of an item and step it; then the users

An entry is one (visit, item): P positives and N negatives a visit. Entries of one row are chained,
so nothing is added up in memory and a row is read and written once a batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.numba_draws import SUMS, draw
from sdgar.kernels.numba_math import exp_negative, softplus_and_sigmoid
from sdgar.kernels.numba_rng import permuted, words
from sdgar.kernels.numba_threads import meet, prefetch

PAIRWISE, LOGISTIC, WEIGHTED, WEIGHTED_HELD = 0, 1, 2, 3
SGD, ADAGRAD, ADAM = 0, 1, 2

_BLOCK = 32
"""Visits drawn ahead of scoring: enough to hide the latency of their rows, few enough for L1."""
_AHEAD = 4
"""Rows ahead of the one that is stepped."""


class Data(NamedTuple):
    """The training positives in CSR order; weight_E has length 0 if all weigh 1."""

    users_E: NDArray[np.int32]
    items_E: NDArray[np.int32]
    indptr_U1: NDArray[np.int64]
    weight_E: NDArray[np.float32]


class Order(NamedTuple):
    """The visits; user_V and place_V have length 0 if every visit is one positive."""

    n_visits: int
    positives: int
    batch: int
    user_V: NDArray[np.int32]
    place_V: NDArray[np.int32]
    strides: NDArray[np.uint64]
    left_bits: int
    right_bits: int


class Loss(NamedTuple):
    """What is minimised."""

    kind: int
    temperature: np.float32
    l2: np.float32


class Step(NamedTuple):
    """How a row moves."""

    kind: int
    rate: np.float32
    beta1: np.float32
    beta2: np.float32
    epsilon: np.float32


class Tables(NamedTuple):
    """Rows of θ, or of θ, m and v one after the other for Adam; an item's row ends with b_i.

    sum_* are Adagrad's state, of length 0 otherwise.
    """

    user: NDArray[np.float32]
    item: NDArray[np.float32]
    sum_U: NDArray[np.float32]
    sum_I: NDArray[np.float32]
    sum_bias_I: NDArray[np.float32]


class Scratch(NamedTuple):
    """What threads hand each other within a batch; V visits, e entries, T threads."""

    user_V: NDArray[np.int32]
    count_V: NDArray[np.int32]
    item_e: NDArray[np.int32]
    slope_e: NDArray[np.float32]
    next_e: NDArray[np.int32]
    next_V: NDArray[np.int32]
    u_VD: NDArray[np.float32]
    grad_VD: NDArray[np.float32]
    tail_I: NDArray[np.int32]
    tail_U: NDArray[np.int32]
    loss_V: NDArray[np.float32]
    effective_V: NDArray[np.float32]
    answered_V: NDArray[np.bool_]
    totals_3: NDArray[np.float64]
    """Loss, effective sample size and unanswered positives, summed over the epoch's rows."""


@numba.njit(error_model="numpy", fastmath=SUMS)
def _score(tables: Any, user: Any, item: Any, dim: Any) -> Any:
    total = np.float32(0)
    for d in range(dim):
        total += tables.user[user, d] * tables.item[item, d]
    return total + tables.item[item, dim]


@numba.njit(error_model="numpy")
def _slopes(loss: Any, count: Any, n: Any, score_S: Any, weight_P: Any, ok_N: Any, q_N: Any,
            f_N: Any, g_N: Any, slope_S: Any) -> Any:  # fmt: skip
    """Loss of a visit, dl/ds of its entries into slope_S, and the effective sample size.

    score_S holds the positives' scores first, then the negatives'.
    """
    one, half = np.float32(1), np.float32(0.5)
    accepted = np.float32(0)
    for j in range(n):
        accepted += np.float32(ok_N[j])
        slope_S[count + j] = 0
    total = np.float32(0)
    if loss.kind == PAIRWISE:
        share = one / max(accepted, one)
        for i in range(count):
            rising = np.float32(0)
            scale = weight_P[i] * share
            for j in range(n):
                f, g = softplus_and_sigmoid(score_S[count + j] - score_S[i])
                c = scale * np.float32(ok_N[j])
                total += c * f
                rising += c * g
                slope_S[count + j] += c * g
            slope_S[i] = -rising
        return total, np.float32(0)
    weight = np.float32(0)
    for i in range(count):
        f, g = softplus_and_sigmoid(-score_S[i])
        total += half * weight_P[i] * f
        slope_S[i] = -half * weight_P[i] * g
        weight += weight_P[i]
    weight *= half
    if accepted == 0:
        return total, np.float32(0)
    for j in range(n):
        f_N[j], g_N[j] = softplus_and_sigmoid(score_S[count + j])
    if loss.kind == LOGISTIC:
        for j in range(n):
            c = weight / accepted * np.float32(ok_N[j])
            total += c * f_N[j]
            slope_S[count + j] = c * g_N[j]
        return total, np.float32(0)
    # w_j ∝ exp(f_j / T) / Q_j, measured from the largest f so that nothing overflows.
    top = np.float32(0)
    for j in range(n):
        top = max(top, f_N[j] if ok_N[j] else np.float32(0))
    inverse = one / loss.temperature
    sum_w, sum_wf, sum_ww = np.float32(0), np.float32(0), np.float32(0)
    for j in range(n):
        w = np.float32(ok_N[j]) * exp_negative(min((f_N[j] - top) * inverse, np.float32(0))) / q_N[j]
        slope_S[count + j] = w
        sum_w += w
        sum_wf += w * f_N[j]
        sum_ww += w * w
    mean = sum_wf / sum_w
    through = inverse if loss.kind == WEIGHTED else np.float32(0)
    scale = weight / sum_w
    for j in range(n):
        slope_S[count + j] *= scale * (one + (f_N[j] - mean) * through) * g_N[j]
    return total + weight * mean, sum_w * sum_w / sum_ww


@numba.njit(error_model="numpy")
def _row(order: Any, data: Any, seed: Any, deal: Any, visit: Any, user: Any, i: Any) -> Any:
    """Row of the i-th positive of a visit; see ``engines.visits.Visits``."""
    start = data.indptr_U1[user]
    count = np.uint64(data.indptr_U1[user + 1] - start)
    w0, w1, _, _ = words(seed, user, 0, deal)
    stride = order.strides[w1 & np.uint64(3)] % count
    offset = (w0 * count) >> np.uint64(32)
    place = np.uint64(order.place_V[visit]) + np.uint64(i)
    return start + np.int64((offset + stride * place) % count)


@numba.njit(error_model="numpy")
def _score_part(
    first: Any, last: Any, begin: Any, keys: Any, tail: Any, deal: Any,
    data: Any, order: Any, proposal: Any, loss: Any, tables: Any, scratch: Any,
) -> Any:  # fmt: skip
    """Visits first … last - 1 of the batch that begins at place ``begin`` of the order."""
    n, p = proposal.n, order.positives
    s = p + n
    dim = scratch.u_VD.shape[1]
    row_B = np.empty(_BLOCK * p, np.int64)
    ok_B = np.empty(_BLOCK * n, np.bool_)
    q_B = np.empty(_BLOCK * n, np.float32)
    score_S, slope_S = np.empty(s, np.float32), np.empty(s, np.float32)
    weight_P = np.ones(p, np.float32)
    f_N, g_N = np.empty(n, np.float32), np.empty(n, np.float32)
    item_address = tables.item.ctypes.data
    item_bytes = np.uint64(tables.item.shape[1] * 4)
    lines = (dim * 4 + 4 + 63) // 64
    for block in range(first, last, _BLOCK):
        end = min(block + _BLOCK, last)
        for v in range(block, end):
            at = v * s
            visit = permuted(order.n_visits, keys, order.left_bits, order.right_bits, begin + v)
            if p == 1:
                user = np.int64(data.users_E[visit])
                count = 1
                row_B[v - block] = visit
                scratch.item_e[at] = data.items_E[visit]
            else:
                user = np.int64(order.user_V[visit])
                have = data.indptr_U1[user + 1] - data.indptr_U1[user]
                count = min(p, have - order.place_V[visit])
                for i in range(count):
                    row = _row(order, data, proposal.seed, deal, visit, user, i)
                    row_B[(v - block) * p + i] = row
                    scratch.item_e[at + i] = data.items_E[row]
                for i in range(count, p):
                    scratch.item_e[at + i] = -1
            scratch.user_V[v] = user
            scratch.count_V[v] = count
            here = (v - block) * n
            draw(
                proposal, tail, row_B[(v - block) * p], user, scratch.item_e[at], data.items_E,
                data.indptr_U1[user], data.indptr_U1[user + 1],
                scratch.item_e, at + p, ok_B, q_B, here,
            )  # fmt: skip
        for v in range(block, end):
            at = v * s
            user, count = np.int64(scratch.user_V[v]), scratch.count_V[v]
            here = (v - block) * n
            for i in range(count):
                score_S[i] = _score(tables, user, scratch.item_e[at + i], dim)
                if len(data.weight_E):
                    weight_P[i] = data.weight_E[row_B[(v - block) * p + i]]
            answered = False
            for j in range(n):
                score_S[count + j] = _score(tables, user, scratch.item_e[at + p + j], dim)
                answered |= ok_B[here + j]
            value, effective = _slopes(
                loss, count, n, score_S, weight_P, ok_B[here : here + n], q_B[here : here + n],
                f_N, g_N, slope_S,
            )  # fmt: skip
            scratch.loss_V[v], scratch.effective_V[v] = value, effective
            scratch.answered_V[v] = answered
            for d in range(dim):
                scratch.u_VD[v, d] = tables.user[user, d]
                scratch.grad_VD[v, d] = 0
            for i in range(count):
                c, item = slope_S[i], scratch.item_e[at + i]
                scratch.slope_e[at + i] = c
                for d in range(dim):
                    scratch.grad_VD[v, d] += c * tables.item[item, d]
            for j in range(n):
                c, item = slope_S[count + j], scratch.item_e[at + p + j]
                scratch.slope_e[at + p + j] = c
                for d in range(dim):
                    scratch.grad_VD[v, d] += c * tables.item[item, d]
    return None


@numba.njit(error_model="numpy")
def _move(step: Any, fix1: Any, fix2: Any, table: Any, row: Any, sum_R: Any, first: Any, last: Any,
          width: Any, g: Any) -> Any:  # fmt: skip
    """Move columns first … last - 1 of one row by its gradient."""
    if step.kind == SGD:
        for d in range(first, last):
            table[row, d] -= step.rate * g[d]
        return None
    if step.kind == ADAGRAD:
        total = np.float32(0)
        for d in range(first, last):
            total += g[d] * g[d]
        sum_R[row] += total / np.float32(last - first)
        c = step.rate / (np.sqrt(sum_R[row]) + step.epsilon)
        for d in range(first, last):
            table[row, d] -= c * g[d]
        return None
    one = np.float32(1)
    for d in range(first, last):
        m = step.beta1 * table[row, width + d] + (one - step.beta1) * g[d]
        v = step.beta2 * table[row, 2 * width + d] + (one - step.beta2) * g[d] * g[d]
        table[row, width + d] = m
        table[row, 2 * width + d] = v
        table[row, d] -= step.rate * (m * fix1) / (np.sqrt(v * fix2) + step.epsilon)
    return None


@numba.njit(error_model="numpy")
def _move_items(
    t: Any, threads: Any, visits: Any, share: Any, fix1: Any, fix2: Any,
    order: Any, n: Any, loss: Any, step: Any, tables: Any, scratch: Any, list_e: Any, g: Any,
) -> Any:  # fmt: skip
    p = order.positives
    s = p + n
    dim = scratch.u_VD.shape[1]
    width = dim + 1
    mine = 0
    for e in range(visits * s):
        item = scratch.item_e[e]
        if item < 0 or item % threads != t:
            continue
        before = scratch.tail_I[item]
        if before < 0:
            list_e[mine] = e
            mine += 1
        else:
            scratch.next_e[before] = e
        scratch.tail_I[item] = e
        scratch.next_e[e] = -1
    for k in range(mine):
        e = np.int64(list_e[k])
        item = np.int64(scratch.item_e[e])
        scratch.tail_I[item] = -1
        reg = np.float32(0)
        for d in range(width):
            g[d] = 0
        while e >= 0:
            v = e // s
            c = scratch.slope_e[e]
            for d in range(dim):
                g[d] += c * scratch.u_VD[v, d]
            g[dim] += c
            negative = e - v * s >= p
            reg += np.float32(scratch.count_V[v]) / np.float32(n) if negative else np.float32(1)
            e = np.int64(scratch.next_e[e])
        reg *= loss.l2
        for d in range(width):
            g[d] = share * (g[d] + reg * tables.item[item, d])
        if step.kind == ADAGRAD:
            _move(step, fix1, fix2, tables.item, item, tables.sum_I, 0, dim, width, g)
            _move(step, fix1, fix2, tables.item, item, tables.sum_bias_I, dim, width, width, g)
        else:
            _move(step, fix1, fix2, tables.item, item, tables.sum_I, 0, width, width, g)
    return None


@numba.njit(error_model="numpy")
def _move_users(
    t: Any, threads: Any, visits: Any, share: Any, fix1: Any, fix2: Any,
    loss: Any, step: Any, tables: Any, scratch: Any, list_e: Any, g: Any,
) -> Any:  # fmt: skip
    dim = scratch.u_VD.shape[1]
    mine = 0
    for v in range(visits):
        user = scratch.user_V[v]
        if user % threads != t:
            continue
        before = scratch.tail_U[user]
        if before < 0:
            list_e[mine] = v
            mine += 1
        else:
            scratch.next_V[before] = v
        scratch.tail_U[user] = v
        scratch.next_V[v] = -1
    for k in range(mine):
        v = np.int64(list_e[k])
        user = np.int64(scratch.user_V[v])
        scratch.tail_U[user] = -1
        reg = np.float32(0)
        for d in range(dim):
            g[d] = 0
        while v >= 0:
            for d in range(dim):
                g[d] += scratch.grad_VD[v, d]
            reg += np.float32(scratch.count_V[v])
            v = np.int64(scratch.next_V[v])
        reg *= loss.l2
        for d in range(dim):
            g[d] = share * (g[d] + reg * tables.user[user, d])
        _move(step, fix1, fix2, tables.user, user, tables.sum_U, 0, dim, dim, g)
    return None


@numba.njit(error_model="numpy", nogil=True, cache=True)
def epoch(
    t: Any, threads: Any, barrier_2: Any, keys: Any, tail: Any, deal: Any, steps_before: Any,
    data: Any, order: Any, proposal: Any, loss: Any, step: Any, tables: Any, scratch: Any,
) -> Any:  # fmt: skip
    """Thread t's part of an epoch; sums of loss and counts are left in ``scratch``."""
    s = order.positives + proposal.n
    list_e = np.empty(order.batch * s, np.int32)
    g = np.empty(scratch.u_VD.shape[1] + 1, np.float32)
    for begin in range(0, order.n_visits, order.batch):
        visits = min(order.batch, order.n_visits - begin)
        _score_part(
            visits * t // threads, visits * (t + 1) // threads, begin, keys, tail, deal,
            data, order, proposal, loss, tables, scratch,
        )  # fmt: skip
        meet(barrier_2, threads)
        rows = 0
        for v in range(visits):
            rows += scratch.count_V[v]
        if t == 0:
            for v in range(visits):
                count = scratch.count_V[v]
                scratch.totals_3[0] += scratch.loss_V[v]
                scratch.totals_3[1] += scratch.effective_V[v] * count
                scratch.totals_3[2] += 0 if scratch.answered_V[v] else count
        share = np.float32(1) / np.float32(rows)
        steps_before += 1
        fix1 = np.float32(1 / (1 - np.float64(step.beta1) ** steps_before))
        fix2 = np.float32(1 / (1 - np.float64(step.beta2) ** steps_before))
        _move_items(
            t, threads, visits, share, fix1, fix2, order, proposal.n, loss, step, tables, scratch,
            list_e, g,
        )  # fmt: skip
        _move_users(
            t, threads, visits, share, fix1, fix2, loss, step, tables, scratch, list_e, g
        )  # fmt: skip
        meet(barrier_2, threads)
    return None
