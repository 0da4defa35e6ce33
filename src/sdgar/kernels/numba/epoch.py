"""One epoch on the CPU: draw, score, weigh, update, batch by batch.

This is one loop with a draw, a score, a loss and a step plugged in: ``draws.py`` and ``picks.py``,
``scores.py``, ``losses.py`` and ``steps.py`` have the kinds of each, named like the parts they run.
It is deterministic for any number of threads: a visit is computed by one thread, and a user or an
item belongs to one share of the rows, whose thread adds up its gradient in the order of the batch
and then steps it. Gradients are taken at the parameters the batch started with. A batch has two
parts, with all threads meeting after each, and between them one more if rows pull at each other:

    score    some visits at a time: negatives, scores, slopes dl/ds, the gradient of u_c
    survey   the covariances between the axes of all vectors of the batch; see ``covariances.py``
    move     shares add up slope · u_c over the entries of an item and step it; then the users

Threads take visits and shares as they get there, so one that lost its core holds up little.

An entry is one (visit, item): P positives and N negatives a visit. Entries of one row are chained,
so nothing is added up in memory and a row is read and written once a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import inner, outer
from sdgar.kernels.numba.contexts import add_up, ask_for, hand_down, move_row
from sdgar.kernels.numba.draws import Bins, Drawn
from sdgar.kernels.numba.losses import Scored, few_slopes, gradient, weigh
from sdgar.kernels.numba.owners import owns
from sdgar.kernels.numba.picks import pick, propose
from sdgar.kernels.numba.rng import permuted, words
from sdgar.kernels.numba.scores import factor, move_item, moved_by_slopes_alone, score, survey
from sdgar.kernels.numba.steps import at, rests
from sdgar.kernels.numba.threads import meet, prefetch, prefetch_row, run, take

_BLOCK = 96
"""Rows asked for ahead of scoring: enough to hide their latency, few enough for L1."""
_AHEAD = 8
"""Rows ahead of the one that is stepped."""
_PARTS, _SHARES = 16, 2
"""How often a thread takes visits of a batch, and how often shares of the rows, if all are equally
fast; one thread alone takes all at once."""


class Rows(NamedTuple):
    """The training positives row by row; weight_E has length 0 if all weigh 1."""

    indptr_U1: NDArray[np.int64]
    users_E: NDArray[np.int32]
    items_E: NDArray[np.int32]
    weight_E: NDArray[np.float32]


class Order(NamedTuple):
    """The visits; user_V and place_V have length 0 if every visit is one positive."""

    seed: np.uint64
    n_visits: int
    positives: int
    batch: int
    user_V: NDArray[np.int32]
    place_V: NDArray[np.int32]
    strides: NDArray[np.uint64]
    left_bits: int
    right_bits: int


class Steps(NamedTuple):
    """How each table moves, each by one of ``steps.py``; l2 draws all rows towards 0."""

    user: Any
    item: Any
    bias: Any
    l2: np.float32


class Scratch(NamedTuple):
    """What threads hand each other within a batch; V visits, e entries, T threads."""

    place_VF: NDArray[np.int32]
    """The rows whose vectors make up that of a visit's context: itself, or those of its fields."""
    count_V: NDArray[np.int32]
    item_e: NDArray[np.int32]
    slope_e: NDArray[np.float32]
    u_VD: NDArray[np.float32]
    grad_VD: NDArray[np.float32]
    tail_I: NDArray[np.int32]
    tail_R: NDArray[np.int32]
    loss_V: NDArray[np.float32]
    effective_V: NDArray[np.float32]
    answered_V: NDArray[np.bool_]
    totals_3: NDArray[np.float64]
    """Loss, effective sample size and unanswered positives, summed over the epoch's rows."""


class Visited(NamedTuple):
    """The contexts that are visited, each with its positives."""

    visit_V: NDArray[np.int64]
    user_V: NDArray[np.int64]
    count_V: NDArray[np.int64]
    row_VP: NDArray[np.int64]
    item_VP: NDArray[np.int64]
    weight_VP: NDArray[np.float32]


class Own(NamedTuple):
    """What a thread needs for itself: a block of visits, and chains of entries."""

    visited: Visited
    drawn: Drawn
    bins: Bins
    scored: Scored
    list_e: NDArray[np.int32]
    next_e: NDArray[np.int32]
    g_D: NDArray[np.float32]


def own(dim: int, positives: int, negatives: int, batch: int, fields: int) -> Own:
    """Allocate what a thread needs for itself, as kernels allocate nothing."""
    visits = max(4, _BLOCK // (positives + negatives))
    size = {
        "V": visits, "P": positives, "N": negatives, "D": dim,
        "B": visits * max(positives, negatives), "e": batch * max(positives + negatives, fields),
    }  # fmt: skip

    def room(name: str, dtype: type) -> Any:
        """Allocate an array whose shape is the axis letters of its name."""
        return np.zeros([size[axis] for axis in name.rpartition("_")[2]], dtype)

    return Own(
        Visited(
            room("visit_V", np.int64), room("user_V", np.int64), room("count_V", np.int64),
            room("row_VP", np.int64), room("item_VP", np.int64), room("weight_VP", np.float32),
        ),
        Drawn(
            room("item_VN", np.int64), room("ok_VN", np.bool_), room("q_VN", np.float32),
            room("tries_V", np.int64),
        ),
        Bins(*(room(name, np.uint64) for name in Bins._fields)),
        Scored(*(room(name, np.float32) for name in Scored._fields)),
        room("list_e", np.int32),
        room("next_e", np.int32),
        room("g_D", np.float32),
    )  # fmt: skip


@inner
def _row(
    indptr_U1: Any, strides: Any, seed: Any, deal: Any, user: Any, place: Any
) -> Any:  # fmt: skip
    """Return the row of the positive at a place of a context; see ``engines.visits.Visits``."""
    start = indptr_U1[user]
    count = np.uint64(indptr_U1[user + 1] - start)
    w0, w1, _, _ = words(seed, user, 0, deal)
    stride = strides[w1 & np.uint64(3)] % count
    offset = (w0 * count) >> np.uint64(32)
    return start + np.int64((offset + stride * np.uint64(place)) % count)


@inner
def positives_at(order: Any, indptr_U1: Any, visit: Any) -> Any:
    """Return how many positives a visit has."""
    if order.positives == 1:
        return 1
    user = np.int64(order.user_V[visit])
    return min(order.positives, indptr_U1[user + 1] - indptr_U1[user] - order.place_V[visit])


@inner
def look_up(
    visits: Any, deal: Any, order: Any, rows: Any, known: Any, tables: Any, visited: Any
) -> Any:  # fmt: skip
    """Find the contexts and positives of the first visits of ``visited.visit_V``."""
    users_E, items_E, indptr_U1 = rows.users_E, rows.items_E, rows.indptr_U1
    user_V, count_V, weight_E = visited.user_V, visited.count_V, rows.weight_E
    row_VP, item_VP, weight_VP = visited.row_VP, visited.item_VP, visited.weight_VP
    visit_user_V, place_V, strides = order.user_V, order.place_V, order.strides
    user_UCD, item_ICD = tables.user_UCD, tables.item_ICD
    user_address, item_address = user_UCD.ctypes.data, item_ICD.ctypes.data
    known_address, users_address = known.items_E.ctypes.data, users_E.ctypes.data
    items_address = items_E.ctypes.data
    user_bytes = np.uint64(user_UCD.shape[1] * user_UCD.shape[2] * 4)
    item_bytes = np.uint64(item_ICD.shape[1] * item_ICD.shape[2] * 4)
    used = np.uint64(item_ICD.shape[2] * 4)
    p = order.positives
    for v in range(visits):
        visit = visited.visit_V[v]
        count = positives_at(order, indptr_U1, visit)
        if p == 1:
            row_VP[v, 0] = visit
            prefetch(users_address + np.uint64(visit) * np.uint64(4))
            prefetch(items_address + np.uint64(visit) * np.uint64(4))
        else:
            user = np.int64(visit_user_V[visit])
            place = np.int64(place_V[visit])
            user_V[v] = user
            for i in range(count):
                row_VP[v, i] = _row(indptr_U1, strides, order.seed, deal, user, place + i)
        count_V[v] = count
    for v in range(visits):
        if p == 1:
            user_V[v] = users_E[row_VP[v, 0]]
        prefetch_row(user_address, user_V[v], user_bytes, used)
        prefetch(known_address + np.uint64(known.indptr_U1[user_V[v]]) * np.uint64(4))
        for i in range(p):
            weight_VP[v, i] = 0
        for i in range(count_V[v]):
            item_VP[v, i] = items_E[row_VP[v, i]]
            weight_VP[v, i] = weight_E[row_VP[v, i]] if len(weight_E) else np.float32(1)
            prefetch_row(item_address, item_VP[v, i], item_bytes, used)
    return None


@inner
def score_block(
    block: Any, visits: Any, tail: Any, deal: Any, rows: Any, known: Any, order: Any,
    proposal: Any, scores: Any, loss: Any, steps: Any, tables: Any, scratch: Any, own: Any,
) -> Any:  # fmt: skip
    """Score the first visits of ``own.visited.visit_V`` into places block … of ``scratch``."""
    visited = own.visited
    look_up(visits, deal, order, rows, known, tables, visited)
    propose(
        proposal, tables.item_ICD, known, tail, visits, visited.user_V, visited.row_VP, own.bins,
        own.drawn,
    )  # fmt: skip
    score_drawn(
        block, visits, tail, known, order, proposal, scores, loss, steps, tables, scratch, own
    )  # fmt: skip
    return None


@inner
def score_drawn(
    block: Any, visits: Any, tail: Any, known: Any, order: Any, proposal: Any, scores: Any,
    loss: Any, steps: Any, tables: Any, scratch: Any, own: Any,
) -> Any:  # fmt: skip
    """Score visits that were looked up, with what was drawn for them before there are scores."""
    visited, drawn, scored = own.visited, own.drawn, own.scored
    user_V, row_VP, item_VP = visited.user_V, visited.row_VP, visited.item_VP
    pos_VP, neg_VN = scored.pos_VP, scored.neg_VN
    add_up(tables, visits, user_V, own.g_D)
    weigh(loss, proposal, known, visits, user_V, drawn)
    for v in range(visits):
        for i in range(order.positives):
            pos_VP[v, i] = 0
        for i in range(visited.count_V[v]):
            pos_VP[v, i] = score(scores, tables, user_V[v], item_VP[v, i])
    pick(
        proposal, scores, tables, known, tail, visits, user_V, row_VP, pos_VP, neg_VN, drawn
    )  # fmt: skip
    gradient(
        loss, visits, block, visited.weight_VP, drawn, scored, scratch.loss_V,
        scratch.effective_V,
    )  # fmt: skip
    _hand_over(visits, block, scores, loss, steps, tables, scratch, visited, drawn, scored)
    return None


@inner
def _score_part(
    first: Any, last: Any, begin: Any, keys: Any, tail: Any, deal: Any, rows: Any, known: Any,
    order: Any, proposal: Any, scores: Any, loss: Any, steps: Any, tables: Any, scratch: Any,
    own: Any,
) -> Any:  # fmt: skip
    """Score visits first … last - 1 of the batch that begins at place ``begin`` of the order."""
    visit_V = own.visited.visit_V
    for block in range(first, last, len(visit_V)):
        visits = min(len(visit_V), last - block)
        for v in range(visits):
            visit_V[v] = permuted(
                order.n_visits, keys, order.left_bits, order.right_bits, begin + block + v
            )
        score_block(
            block, visits, tail, deal, rows, known, order, proposal, scores, loss, steps, tables,
            scratch, own,
        )  # fmt: skip
    return None


@inner
def _hand_over(
    visits: Any, first: Any, scores: Any, loss: Any, steps: Any, tables: Any, scratch: Any,
    visited: Any, drawn: Any, scored: Any,
) -> Any:  # fmt: skip
    """Leave what the owners of rows need: entries, u_c, and its gradient Σ slope · v.

    A negative without a slope is no entry where nothing else would move it.
    """
    user_UCD, item_ICD = tables.user_UCD, tables.item_ICD
    u_VD, grad_VD, item_e, slope_e = scratch.u_VD, scratch.grad_VD, scratch.item_e, scratch.slope_e
    item_VP, item_VN, ok_VN = visited.item_VP, drawn.item_VN, drawn.ok_VN
    slope_pos_VP, slope_neg_VN = scored.slope_pos_VP, scored.slope_neg_VN
    dim, p, n = user_UCD.shape[2], item_VP.shape[1], item_VN.shape[1]
    s, a, look = p + n, factor(scores), few_slopes(loss)
    drop = moved_by_slopes_alone(scores) and rests(steps.item)
    for v in range(visits):
        b, user, count = first + v, visited.user_V[v], visited.count_V[v]
        scratch.count_V[b] = count
        for d in range(dim):
            u_VD[b, d] = a * user_UCD[user, 0, d]
        item = item_VP[v, 0]
        c = slope_pos_VP[v, 0] * a
        for d in range(dim):
            grad_VD[b, d] = c * item_ICD[item, 0, d]
        for i in range(p):
            item_e[b * s + i] = item_VP[v, i] if i < count else -1
            slope_e[b * s + i] = slope_pos_VP[v, i]
        for i in range(1, count):
            item = item_VP[v, i]
            c = slope_pos_VP[v, i] * a
            for d in range(dim):
                grad_VD[b, d] += c * item_ICD[item, 0, d]
        answered = False
        for j in range(n):
            item = item_VN[v, j]
            answered |= ok_VN[v, j]
            item_e[b * s + p + j] = item
            slope_e[b * s + p + j] = slope_neg_VN[v, j]
            if look and slope_neg_VN[v, j] == 0:
                item_e[b * s + p + j] = -1 if drop else item
                continue
            c = slope_neg_VN[v, j] * a
            for d in range(dim):
                grad_VD[b, d] += c * item_ICD[item, 0, d]
        scratch.answered_V[b] = answered
        hand_down(tables, user, b, scratch.place_VF, grad_VD)
    return None


@inner
def _chain(entries: Any, key_e: Any, own: Any, shares: Any, tail_R: Any, next_e: Any,
           list_e: Any) -> Any:  # fmt: skip
    """Chain the entries of each row of share ``own``; list_e gets the first of every chain."""
    mine = 0
    for e in range(entries):
        row = key_e[e]
        if row < 0 or not owns(own, shares, row):
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
def move_items(
    own: Any, shares: Any, visits: Any, share: Any, p: Any, n: Any, scores: Any, steps: Any,
    tables: Any, scratch: Any, list_e: Any, next_e: Any, g_D: Any,
) -> Any:  # fmt: skip
    """Step the items of share ``own``: g = (Σ slope · u + λ · touches · θ) / rows."""
    s = p + n
    item_ICD = tables.item_ICD
    item_e, slope_e, tail_I = scratch.item_e, scratch.slope_e, scratch.tail_I
    u_VD, count_V = scratch.u_VD, scratch.count_V
    dim = item_ICD.shape[2]
    share_n = share / np.float32(n)
    address = item_ICD.ctypes.data
    row_bytes = np.uint64(item_ICD.shape[1] * dim * 4)
    u_address, u_bytes = u_VD.ctypes.data, np.uint64(dim * 4)
    mine = _chain(visits * s, item_e, own, shares, tail_I, next_e, list_e)
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
        move_item(scores, steps, tables, item, g_D, c, u_VD, v, slope, reg * steps.l2)
        if not single:
            for d in range(dim):
                g_D[d] = 0
    return None


@inner
def move_users(
    own: Any, shares: Any, visits: Any, share: Any, scores: Any, steps: Any, tables: Any,
    scratch: Any, list_e: Any, next_e: Any, g_D: Any,
) -> Any:  # fmt: skip
    """Step the users of share ``own``, or values of fields, by what scoring has left for them."""
    place_VF, tail_R = scratch.place_VF, scratch.tail_R
    grad_VD, count_V = scratch.grad_VD, scratch.count_V
    dim, f = grad_VD.shape[1], place_VF.shape[1]
    place_e = place_VF.reshape(-1)
    grad_address, grad_bytes = grad_VD.ctypes.data, np.uint64(dim * 4)
    mine = _chain(visits * f, place_e, own, shares, tail_R, next_e, list_e)
    for k in range(mine):
        if k + _AHEAD < mine:
            ahead = list_e[k + _AHEAD]
            ask_for(tables, place_e[ahead])
            prefetch_row(grad_address, ahead // f, grad_bytes, grad_bytes)
        e = np.int64(list_e[k])
        row = np.int64(place_e[e])
        tail_R[row] = -1
        reg, v = np.float32(0), e // f
        single = True
        while e >= 0:
            v = e // f
            reg += share * np.float32(count_V[v])
            e = np.int64(next_e[e])
            if e >= 0:
                single = False
                for d in range(dim):
                    g_D[d] += share * grad_VD[v, d]
        move_row(tables, scores, steps, row, g_D, share, grad_VD, v, reg * steps.l2)
        if not single:
            for d in range(dim):
                g_D[d] = 0
    return None


@inner
def part_of(visits: Any, threads: Any, block: Any) -> Any:
    """Return how many visits of a batch are taken at once: some whole blocks."""
    if threads == 1:
        return visits
    parts = threads * _PARTS * block
    return (visits + parts - 1) // parts * block


@inner
def shares_of(threads: Any) -> Any:
    """Return how many shares the rows of a table have, for so many threads to take."""
    return 1 if threads == 1 else threads * _SHARES


@inner
def count_up(t: Any, visits: Any, scratch: Any) -> Any:
    """Return the number of positives of a batch; thread 0 adds to the sums of the epoch."""
    positives = 0
    for v in range(visits):
        positives += scratch.count_V[v]
    if t == 0:
        for v in range(visits):
            count = scratch.count_V[v]
            scratch.totals_3[0] += scratch.loss_V[v]
            scratch.totals_3[1] += scratch.effective_V[v] * count
            scratch.totals_3[2] += 0 if scratch.answered_V[v] else count
    return positives


@inner
def steps_at(steps: Any, step: Any) -> Any:
    """Return the steps of all tables as they are at step ``step``."""
    return Steps(at(steps.user, step), at(steps.item, step), at(steps.bias, step), steps.l2)


@inner
def _move_all(
    threads: Any, barrier_4: Any, taken: Any, step: Any, positives: Any, p: Any, n: Any,
    scores: Any, steps: Any, tables: Any, visits: Any, scratch: Any, own: Any,
) -> Any:  # fmt: skip
    """Step the items and the users of a batch; return the number of parts that were taken."""
    share = np.float32(1) / np.float32(positives)
    now = steps_at(steps, step)
    shares = shares_of(threads)
    mine = take(barrier_4, taken)
    while mine < shares:
        move_items(
            mine, shares, visits, share, p, n, scores, now, tables, scratch, own.list_e,
            own.next_e, own.g_D,
        )  # fmt: skip
        move_users(
            mine, shares, visits, share, scores, now, tables, scratch, own.list_e, own.next_e,
            own.g_D,
        )  # fmt: skip
        mine = take(barrier_4, taken)
    taken += shares + threads
    meet(barrier_4, threads)
    return taken


@outer
def epoch(
    t: Any, threads: Any, barrier_4: Any, first: Any, last: Any, keys: Any, tail: Any, deal: Any,
    steps_before: Any, rows: Any, known: Any, order: Any, proposal: Any, scores: Any, loss: Any,
    steps: Any, tables: Any, scratch: Any, own: Any,
) -> Any:  # fmt: skip
    """Run thread t's part of batches first … last - 1 of an epoch.

    ``scratch`` is left with the sums of loss and counts; ``steps_before`` counts from the epoch's
    start.
    """
    steps_before += first
    taken = 0
    for batch in range(first, last):
        begin = batch * order.batch
        visits = min(order.batch, order.n_visits - begin)
        size = part_of(visits, threads, len(own.visited.user_V))
        mine = take(barrier_4, taken) * size
        while mine < visits:
            _score_part(
                mine, min(mine + size, visits), begin, keys, tail, deal, rows, known, order,
                proposal, scores, loss, steps, tables, scratch, own,
            )  # fmt: skip
            mine = take(barrier_4, taken) * size
        taken += (visits + size - 1) // size + threads
        meet(barrier_4, threads)
        positives = count_up(t, visits, scratch)
        survey(
            scores, t, threads, barrier_4, visits, positives, order.positives, proposal.n, tables,
            scratch,
        )  # fmt: skip
        steps_before += 1
        taken = _move_all(
            threads, barrier_4, taken, steps_before, positives, order.positives, proposal.n,
            scores, steps, tables, visits, scratch, own,
        )  # fmt: skip
    return None


def run_batches(first: int, last: int, own_T: Sequence[Own], *args: Any) -> None:
    """Run some batches by one thread for each of ``own_T``."""

    def part(t: int, threads: int, barrier_4: NDArray[np.int32]) -> None:
        epoch(t, threads, barrier_4, first, last, *args, own_T[t])

    run(part, len(own_T))
