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

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import inner, outer, summing
from sdgar.kernels.numba_draws import draw, probability
from sdgar.kernels.numba_gradients import (
    PAIRWISE,
    RANK_HINGE,
    SOFTMAX,
    logistic,
    pairwise,
    rank_hinge,
    softmax,
)
from sdgar.kernels.numba_math import dot
from sdgar.kernels.numba_picks import NONE, pick
from sdgar.kernels.numba_rng import permuted, words
from sdgar.kernels.numba_threads import meet, prefetch, prefetch_row

SGD, ADAGRAD, ADAM = 0, 1, 2

_BLOCK = 96
"""Rows asked for ahead of scoring: enough to hide their latency, few enough for L1."""
_SPREAD, _LOW, _HALF = np.uint64(0x9E3779B1), np.uint64(0xFFFFFFFF), np.uint64(32)
_LINE = np.uint64(4)
"""Rows are owned 16 at a time, by the thread in whose share of 2^32 a multiple of their number
lies: two threads never write to one cache line of a table with one number a row."""
_AHEAD = 8
"""Rows ahead of the one that is stepped."""


class Rows(NamedTuple):
    """The training positives row by row; weight_E has length 0 if all weigh 1."""

    users_E: NDArray[np.int32]
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
    margin: np.float32
    l2: np.float32
    tau: np.float32


class Step(NamedTuple):
    """How a row moves."""

    kind: int
    rate: np.float32
    beta1: np.float32
    beta2: np.float32
    epsilon: np.float32


class Tables(NamedTuple):
    """A row is θ, or θ, m and v for Adam, side by side; sum_* are Adagrad's state, or empty.

    The biases have a table of their own: it stays in the caches, and a row of 32 numbers then
    takes two cache lines, not three.
    """

    user_UCD: NDArray[np.float32]
    item_ICD: NDArray[np.float32]
    bias_IC: NDArray[np.float32]
    sum_U: NDArray[np.float32]
    sum_I: NDArray[np.float32]
    sum_bias_I: NDArray[np.float32]
    inverse_U: NDArray[np.float32]
    inverse_I: NDArray[np.float32]
    """1/‖u‖ and 1/‖v‖, if scores are cosines; else empty."""


class Scratch(NamedTuple):
    """What threads hand each other within a batch; V visits, e entries, T threads."""

    user_V: NDArray[np.int32]
    count_V: NDArray[np.int32]
    item_e: NDArray[np.int32]
    slope_e: NDArray[np.float32]
    u_VD: NDArray[np.float32]
    grad_VD: NDArray[np.float32]
    tail_I: NDArray[np.int32]
    tail_U: NDArray[np.int32]
    loss_V: NDArray[np.float32]
    effective_V: NDArray[np.float32]
    answered_V: NDArray[np.bool_]
    totals_3: NDArray[np.float64]
    """Loss, effective sample size and unanswered positives, summed over the epoch's rows."""


_OWN: dict[str, type] = {
    "who_TV": np.int64, "how_many_TV": np.int64, "address_TV": np.int64,
    "row_TVP": np.int64, "item_TVP": np.int64,
    "weight_TVP": np.float32, "pos_TVP": np.float32, "slope_pos_TVP": np.float32,
    "tries_TV": np.int64, "item_TVN": np.int64, "ok_TVN": np.bool_,
    "place_TVN": np.uint64, "fraction_TVN": np.uint64, "rest_TVN": np.uint64,
    "q_TVN": np.float32, "neg_TVN": np.float32, "slope_neg_TVN": np.float32,
    "x_TB": np.float32, "f_TB": np.float32, "g_TB": np.float32,
    "list_TE": np.int32, "next_TE": np.int32, "g_TD": np.float32,
}  # fmt: skip
Own: Any = namedtuple("Own", list(_OWN))  # type: ignore[misc]
"""What each thread T needs for itself, for a block of V visits; kernels allocate nothing."""


def own(threads: int, dim: int, positives: int, negatives: int, batch: int) -> Any:
    """Allocate it; the axis letters of a name are its shape."""
    visits = max(4, _BLOCK // (positives + negatives))
    size = {
        "T": threads, "V": visits, "P": positives, "N": negatives, "D": dim,
        "B": visits * max(positives, negatives), "E": batch * (positives + negatives),
    }  # fmt: skip
    return Own(
        *(
            np.zeros([size[axis] for axis in name.rpartition("_")[2]], dtype)
            for name, dtype in _OWN.items()
        )
    )


@inner
def _row(
    indptr_U1: Any, strides: Any, seed: Any, deal: Any, user: Any, place: Any
) -> Any:  # fmt: skip
    """Row of the positive at a place of a context; see ``engines.visits.Visits``."""
    start = indptr_U1[user]
    count = np.uint64(indptr_U1[user + 1] - start)
    w0, w1, _, _ = words(seed, user, 0, deal)
    stride = strides[w1 & np.uint64(3)] % count
    offset = (w0 * count) >> np.uint64(32)
    return start + np.int64((offset + stride * np.uint64(place)) % count)


@inner
def _visit(
    begin: Any, visits: Any, keys: Any, seed: Any, deal: Any, order: Any, rows: Any, known: Any,
    tables: Any, user_V: Any, count_V: Any, row_VP: Any, item_VP: Any,
) -> Any:  # fmt: skip
    """Who is visited at places begin … begin + visits - 1 of the order, with which positives."""
    users_E, items_E, indptr_U1 = rows.users_E, known.items_E, known.indptr_U1
    visit_user_V, place_V, strides = order.user_V, order.place_V, order.strides
    user_UCD, item_ICD = tables.user_UCD, tables.item_ICD
    user_address, item_address = user_UCD.ctypes.data, item_ICD.ctypes.data
    known_address, users_address = items_E.ctypes.data, users_E.ctypes.data
    user_bytes = np.uint64(user_UCD.shape[1] * user_UCD.shape[2] * 4)
    item_bytes = np.uint64(item_ICD.shape[1] * item_ICD.shape[2] * 4)
    used = np.uint64(item_ICD.shape[2] * 4)
    p = order.positives
    for v in range(visits):
        visit = permuted(order.n_visits, keys, order.left_bits, order.right_bits, begin + v)
        count, place = 1, np.int64(0)
        if p == 1:
            row_VP[v, 0] = visit
            prefetch(users_address + np.uint64(visit) * np.uint64(4))
            prefetch(known_address + np.uint64(visit) * np.uint64(4))
        else:
            user = np.int64(visit_user_V[visit])
            place = np.int64(place_V[visit])
            count = min(p, indptr_U1[user + 1] - indptr_U1[user] - place)
            user_V[v] = user
            for i in range(count):
                row_VP[v, i] = _row(indptr_U1, strides, seed, deal, user, place + i)
        count_V[v] = count
    for v in range(visits):
        if p == 1:
            user_V[v] = users_E[row_VP[v, 0]]
        prefetch_row(user_address, user_V[v], user_bytes, used)
        prefetch(known_address + np.uint64(indptr_U1[user_V[v]]) * np.uint64(4))
        for i in range(count_V[v]):
            item_VP[v, i] = items_E[row_VP[v, i]]
            prefetch_row(item_address, item_VP[v, i], item_bytes, used)
    return None


@inner
def _prefetch_items(visits: Any, n: Any, item_ICD: Any, item_VN: Any) -> Any:
    address = item_ICD.ctypes.data
    row_bytes = np.uint64(item_ICD.shape[1] * item_ICD.shape[2] * 4)
    used = np.uint64(item_ICD.shape[2] * 4)
    for v in range(visits):
        for j in range(n):
            prefetch_row(address, item_VN[v, j], row_bytes, used)
    return None


@inner
def _score_part(
    t: Any, first: Any, last: Any, begin: Any, keys: Any, tail: Any, deal: Any,
    rows: Any, known: Any, order: Any, proposal: Any, loss: Any, tables: Any, scratch: Any,
    own: Any,
) -> Any:  # fmt: skip
    """Visits first … last - 1 of the batch that begins at place ``begin`` of the order."""
    n, p = proposal.n, order.positives
    s = p + n
    user_UCD, item_ICD, bias_IC = tables.user_UCD, tables.item_ICD, tables.bias_IC
    inverse_U, inverse_I = tables.inverse_U, tables.inverse_I
    cosine = len(inverse_U) > 0
    weight_E = rows.weight_E
    u_VD, grad_VD, item_e, slope_e = scratch.u_VD, scratch.grad_VD, scratch.item_e, scratch.slope_e
    user_V, count_V = scratch.user_V, scratch.count_V
    loss_V, effective_V, answered_V = scratch.loss_V, scratch.effective_V, scratch.answered_V
    dim = user_UCD.shape[2]
    who_V, how_many_V, address_V = own.who_TV[t], own.how_many_TV[t], own.address_TV[t]
    row_VP, item_VP, weight_VP = own.row_TVP[t], own.item_TVP[t], own.weight_TVP[t]
    pos_VP, slope_pos_VP = own.pos_TVP[t], own.slope_pos_TVP[t]
    neg_VN, slope_neg_VN = own.neg_TVN[t], own.slope_neg_TVN[t]
    item_VN, ok_VN, q_VN = own.item_TVN[t], own.ok_TVN[t], own.q_TVN[t]
    place_VN, fraction_VN, rest_VN = own.place_TVN[t], own.fraction_TVN[t], own.rest_TVN[t]
    tries_V = own.tries_TV[t]
    x_B, f_B, g_B = own.x_TB[t], own.f_TB[t], own.g_TB[t]
    for block in range(first, last, len(who_V)):
        visits = min(len(who_V), last - block)
        _visit(
            begin + block, visits, keys, proposal.seed, deal, order, rows, known, tables, who_V,
            how_many_V, row_VP, item_VP,
        )  # fmt: skip
        for v in range(visits):
            address_V[v] = row_VP[v, 0]
        if proposal.pick == NONE:
            draw(
                proposal, known, tail, visits, address_V, who_V, place_VN, fraction_VN, rest_VN,
                item_VN, ok_VN,
            )  # fmt: skip
            _prefetch_items(visits, n, item_ICD, item_VN)
        if proposal.weighted:
            probability(proposal, visits, who_V, known.indptr_U1, item_VN, q_VN)
        for v in range(visits):
            user, count = who_V[v], how_many_V[v]
            # A cosine is a product with one more factor for each of its two vectors.
            unit = inverse_U[user] / loss.tau if cosine else np.float32(1)
            for i in range(p):
                pos_VP[v, i] = weight_VP[v, i] = 0
            for i in range(count):
                item = item_VP[v, i]
                product = dot(user_UCD, item_ICD, user, item)
                scaled = product * unit * inverse_I[item] if cosine else product
                pos_VP[v, i] = scaled + bias_IC[item, 0]
                weight_VP[v, i] = weight_E[row_VP[v, i]] if len(weight_E) else np.float32(1)
            for j in range(n if proposal.pick == NONE else 0):
                item = item_VN[v, j]
                product = dot(user_UCD, item_ICD, user, item)
                scaled = product * unit * inverse_I[item] if cosine else product
                neg_VN[v, j] = scaled + bias_IC[item, 0]
        if proposal.pick != NONE:
            pick(
                proposal, known, tail, visits, address_V, who_V, pos_VP, user_UCD, item_ICD,
                bias_IC, item_VN, ok_VN, neg_VN, tries_V,
            )  # fmt: skip
        if loss.kind == PAIRWISE:
            pairwise(
                visits, weight_VP, ok_VN, pos_VP, neg_VN, x_B, f_B, g_B, slope_pos_VP,
                slope_neg_VN, loss_V, block,
            )  # fmt: skip
        elif loss.kind == RANK_HINGE:
            rank_hinge(
                loss.margin, proposal.n_items, visits, weight_VP, ok_VN, tries_V, pos_VP, neg_VN,
                slope_pos_VP, slope_neg_VN, loss_V, block,
            )  # fmt: skip
        elif loss.kind == SOFTMAX:
            softmax(
                visits, weight_VP, ok_VN, q_VN, pos_VP, neg_VN, x_B, slope_pos_VP, slope_neg_VN,
                loss_V, effective_V, block,
            )  # fmt: skip
        else:
            logistic(
                loss.kind, loss.temperature, visits, weight_VP, ok_VN, q_VN, pos_VP, neg_VN,
                x_B, f_B, g_B, slope_pos_VP, slope_neg_VN, loss_V, effective_V, block,
            )  # fmt: skip
        for v in range(visits):
            b, user, count = block + v, who_V[v], how_many_V[v]
            user_V[b], count_V[b] = user, count
            unit = inverse_U[user] / loss.tau if cosine else np.float32(1)
            for d in range(dim):
                u_VD[b, d] = unit * user_UCD[user, 0, d]
            item = item_VP[v, 0]
            c = slope_pos_VP[v, 0] * (inverse_I[item] / loss.tau if cosine else np.float32(1))
            for d in range(dim):
                grad_VD[b, d] = c * item_ICD[item, 0, d]
            for i in range(p):
                item_e[b * s + i] = item_VP[v, i] if i < count else -1
                slope_e[b * s + i] = slope_pos_VP[v, i]
            for i in range(1, count):
                item = item_VP[v, i]
                c = slope_pos_VP[v, i] * (inverse_I[item] / loss.tau if cosine else np.float32(1))
                for d in range(dim):
                    grad_VD[b, d] += c * item_ICD[item, 0, d]
            answered = False
            for j in range(n):
                c, item = slope_neg_VN[v, j], item_VN[v, j]
                answered |= ok_VN[v, j]
                item_e[b * s + p + j] = item
                slope_e[b * s + p + j] = c
                c *= inverse_I[item] / loss.tau if cosine else np.float32(1)
                for d in range(dim):
                    grad_VD[b, d] += c * item_ICD[item, 0, d]
            answered_V[b] = answered
    return None


@inner
def _move(kind: Any, rate: Any, beta1: Any, beta2: Any, epsilon: Any, fix1: Any, fix2: Any,
          table_RCD: Any, row: Any, g_D: Any, c: Any, u_VD: Any, v: Any,
          reg: Any) -> Any:  # fmt: skip
    """Move a row by its gradient g + c u + reg θ: SGD or Adam."""
    dim = table_RCD.shape[2]
    if kind == SGD:
        for d in range(dim):
            theta = table_RCD[row, 0, d]
            table_RCD[row, 0, d] = theta - rate * (g_D[d] + c * u_VD[v, d] + reg * theta)
        return None
    # η m̂ / (√v̂ + ε), with the corrections of bias taken out of the loop.
    rate, epsilon = rate * fix1 / np.sqrt(fix2), epsilon / np.sqrt(fix2)
    rest1, rest2 = np.float32(1) - beta1, np.float32(1) - beta2
    for d in range(dim):
        theta = table_RCD[row, 0, d]
        g = g_D[d] + c * u_VD[v, d] + reg * theta
        m = beta1 * table_RCD[row, 1, d] + rest1 * g
        s = beta2 * table_RCD[row, 2, d] + rest2 * g * g
        table_RCD[row, 1, d] = m
        table_RCD[row, 2, d] = s
        table_RCD[row, 0, d] = theta - rate * m / (np.sqrt(s) + epsilon)
    return None


@summing
def _move_adagrad(rate: Any, epsilon: Any, table_RCD: Any, sum_R: Any, row: Any, g_D: Any, c: Any,
                  u_VD: Any, v: Any, reg: Any) -> Any:  # fmt: skip
    """Move a row by its gradient g + c u + reg θ, over the root of its mean squares."""
    dim = table_RCD.shape[2]
    total = np.float32(0)
    for d in range(dim):
        g = g_D[d] + c * u_VD[v, d] + reg * table_RCD[row, 0, d]
        total += g * g
    sum_R[row] += total / np.float32(dim)
    rate /= np.sqrt(sum_R[row]) + epsilon
    for d in range(dim):
        theta = table_RCD[row, 0, d]
        table_RCD[row, 0, d] = theta - rate * (g_D[d] + c * u_VD[v, d] + reg * theta)
    return None


@summing
def _square(table_RCD: Any, row: Any) -> Any:
    total = np.float32(0)
    for d in range(table_RCD.shape[2]):
        total += table_RCD[row, 0, d] * table_RCD[row, 0, d]
    return total


@summing
def _along(g_D: Any, table_RCD: Any, row: Any) -> Any:
    total = np.float32(0)
    for d in range(table_RCD.shape[2]):
        total += g_D[d] * table_RCD[row, 0, d]
    return total


@inner
def _turn(g_D: Any, c: Any, u_VD: Any, v: Any, table_RCD: Any, inverse_R: Any, row: Any) -> Any:
    """From the gradient g + c u by θ̂ to that by θ: (g - (g · θ̂) θ̂) / ‖θ‖."""
    inverse = inverse_R[row]
    for d in range(table_RCD.shape[2]):
        g_D[d] += c * u_VD[v, d]
    along = _along(g_D, table_RCD, row) * inverse * inverse
    for d in range(table_RCD.shape[2]):
        g_D[d] = (g_D[d] - along * table_RCD[row, 0, d]) * inverse
    return None


@inner
def _chain(entries: Any, key_e: Any, t: Any, threads: Any, tail_R: Any, next_e: Any,
           list_e: Any) -> Any:  # fmt: skip
    """Chain the entries of each row that thread t owns; list_e gets the first of every chain."""
    mine = 0
    for e in range(entries):
        row = key_e[e]
        if row < 0:
            continue
        if (((np.uint64(row) >> _LINE) * _SPREAD) & _LOW) * np.uint64(threads) >> _HALF != t:
            continue
        before = tail_R[row]
        if before < 0:
            list_e[mine] = e
            mine += 1
        else:
            next_e[before] = e
        tail_R[row] = e
        next_e[e] = -1
    return mine


@inner
def _move_items(
    t: Any, threads: Any, visits: Any, share: Any, fix1: Any, fix2: Any,
    p: Any, n: Any, loss: Any, step: Any, tables: Any, scratch: Any, list_e: Any, next_e: Any,
    g_D: Any,
) -> Any:  # fmt: skip
    """Step the items that thread t owns: g = (Σ slope · u + λ · touches · θ) / rows."""
    s = p + n
    item_ICD, bias_IC = tables.item_ICD, tables.bias_IC
    sum_I, sum_bias_I = tables.sum_I, tables.sum_bias_I
    item_e, slope_e, tail_I = scratch.item_e, scratch.slope_e, scratch.tail_I
    u_VD, count_V = scratch.u_VD, scratch.count_V
    inverse_I = tables.inverse_I
    cosine = len(inverse_I) > 0
    dim = item_ICD.shape[2]
    share_n = share / np.float32(n)
    address = item_ICD.ctypes.data
    row_bytes = np.uint64(item_ICD.shape[1] * dim * 4)
    u_address, u_bytes = u_VD.ctypes.data, np.uint64(dim * 4)
    mine = _chain(visits * s, item_e, t, threads, tail_I, next_e, list_e)
    for k in range(mine):
        if k + _AHEAD < mine:
            ahead = list_e[k + _AHEAD]
            prefetch_row(address, item_e[ahead], row_bytes, row_bytes)
            prefetch_row(u_address, ahead // s, u_bytes, u_bytes)
        e = np.int64(list_e[k])
        item = np.int64(item_e[e])
        tail_I[item] = -1
        reg, slope, c, v = np.float32(0), np.float32(0), np.float32(0), np.int64(0)
        single = True
        while e >= 0:
            v = e // s
            c = share * slope_e[e]
            slope += c
            negative = e - v * s >= p
            reg += np.float32(count_V[v]) * share_n if negative else share
            e = np.int64(next_e[e])
            if e >= 0:
                # All but the last entry of a chain are added up; the last goes into the step.
                single = False
                for d in range(dim):
                    g_D[d] += c * u_VD[v, d]
        reg *= loss.l2
        if cosine:
            _turn(g_D, c, u_VD, v, item_ICD, inverse_I, item)
            single, c, slope = False, np.float32(0), np.float32(0)
        slope += reg * bias_IC[item, 0]
        if step.kind == ADAGRAD:
            _move_adagrad(step.rate, step.epsilon, item_ICD, sum_I, item, g_D, c, u_VD, v, reg)
            sum_bias_I[item] += slope * slope
            spread = np.sqrt(sum_bias_I[item]) + step.epsilon
            bias_IC[item, 0] -= step.rate * slope / spread
        else:
            _move(step.kind, step.rate, step.beta1, step.beta2, step.epsilon, fix1, fix2,
                  item_ICD, item, g_D, c, u_VD, v, reg)  # fmt: skip
            if step.kind == SGD:
                bias_IC[item, 0] -= step.rate * slope
            else:
                one = np.float32(1)
                m = step.beta1 * bias_IC[item, 1] + (one - step.beta1) * slope
                r = step.beta2 * bias_IC[item, 2] + (one - step.beta2) * slope * slope
                bias_IC[item, 1], bias_IC[item, 2] = m, r
                bias_IC[item, 0] -= step.rate * (m * fix1) / (np.sqrt(r * fix2) + step.epsilon)
        if cosine:
            inverse_I[item] = np.float32(1) / np.sqrt(_square(item_ICD, item))
        if not single:
            for d in range(dim):
                g_D[d] = 0
    return None


@inner
def _move_users(
    t: Any, threads: Any, visits: Any, share: Any, fix1: Any, fix2: Any,
    loss: Any, step: Any, tables: Any, scratch: Any, list_e: Any, next_e: Any,
    g_D: Any,
) -> Any:  # fmt: skip
    """Step the users that thread t owns, by the gradients that scoring has left."""
    user_UCD, sum_U = tables.user_UCD, tables.sum_U
    user_V, tail_U = scratch.user_V, scratch.tail_U
    grad_VD, count_V = scratch.grad_VD, scratch.count_V
    inverse_U = tables.inverse_U
    cosine = len(inverse_U) > 0
    dim = grad_VD.shape[1]
    address = user_UCD.ctypes.data
    row_bytes = np.uint64(user_UCD.shape[1] * user_UCD.shape[2] * 4)
    grad_address, grad_bytes = grad_VD.ctypes.data, np.uint64(dim * 4)
    mine = _chain(visits, user_V, t, threads, tail_U, next_e, list_e)
    for k in range(mine):
        if k + _AHEAD < mine:
            ahead = list_e[k + _AHEAD]
            prefetch_row(address, user_V[ahead], row_bytes, row_bytes)
            prefetch_row(grad_address, ahead, grad_bytes, grad_bytes)
        v = np.int64(list_e[k])
        user = np.int64(user_V[v])
        tail_U[user] = -1
        reg, last = np.float32(0), v
        single = True
        while v >= 0:
            last = v
            reg += share * np.float32(count_V[v])
            v = np.int64(next_e[v])
            if v >= 0:
                single = False
                for d in range(dim):
                    g_D[d] += share * grad_VD[last, d]
        reg *= loss.l2
        c = share
        if cosine:
            _turn(g_D, c, grad_VD, last, user_UCD, inverse_U, user)
            single, c = False, np.float32(0)
        if step.kind == ADAGRAD:
            _move_adagrad(
                step.rate, step.epsilon, user_UCD, sum_U, user, g_D, c, grad_VD, last, reg
            )  # fmt: skip
        else:
            _move(step.kind, step.rate, step.beta1, step.beta2, step.epsilon, fix1, fix2,
                  user_UCD, user, g_D, c, grad_VD, last, reg)  # fmt: skip
        if cosine:
            inverse_U[user] = np.float32(1) / np.sqrt(_square(user_UCD, user))
        if not single:
            for d in range(dim):
                g_D[d] = 0
    return None


@outer
def epoch(
    t: Any, threads: Any, barrier_2: Any, keys: Any, tail: Any, deal: Any, steps_before: Any,
    rows: Any, known: Any, order: Any, proposal: Any, loss: Any, step: Any, tables: Any,
    scratch: Any, own: Any,
) -> Any:  # fmt: skip
    """Thread t's part of an epoch; sums of loss and counts are left in ``scratch``."""
    list_e, next_e, g_D = own.list_TE[t], own.next_TE[t], own.g_TD[t]
    for begin in range(0, order.n_visits, order.batch):
        visits = min(order.batch, order.n_visits - begin)
        _score_part(
            t, visits * t // threads, visits * (t + 1) // threads, begin, keys, tail, deal,
            rows, known, order, proposal, loss, tables, scratch, own,
        )  # fmt: skip
        meet(barrier_2, threads)
        positives = 0
        for v in range(visits):
            positives += scratch.count_V[v]
        if t == 0:
            for v in range(visits):
                count = scratch.count_V[v]
                scratch.totals_3[0] += scratch.loss_V[v]
                scratch.totals_3[1] += scratch.effective_V[v] * count
                scratch.totals_3[2] += 0 if scratch.answered_V[v] else count
        share = np.float32(1) / np.float32(positives)
        steps_before += 1
        fix1 = np.float32(1 / (1 - np.float64(step.beta1) ** steps_before))
        fix2 = np.float32(1 / (1 - np.float64(step.beta2) ** steps_before))
        _move_items(
            t, threads, visits, share, fix1, fix2, order.positives, proposal.n, loss, step, tables,
            scratch, list_e, next_e, g_D,
        )  # fmt: skip
        _move_users(
            t, threads, visits, share, fix1, fix2, loss, step, tables, scratch, list_e, next_e,
            g_D,
        )  # fmt: skip
        meet(barrier_2, threads)
    return None
