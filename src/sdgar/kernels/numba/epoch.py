"""One epoch on the CPU: draw, score, weigh, update, batch by batch.

This is one loop with a draw, a score, a loss and a step plugged in: ``draws.py`` and ``picks.py``,
``scores.py``, ``losses.py`` and ``steps.py`` have the kinds of each, named like the parts they run.
It is deterministic for any number of threads: a visit is computed by one thread, and a user or an
item belongs to one share of the rows, whose thread adds up its gradient in the order of the batch
and then steps it. Gradients are taken at the parameters the batch started with. A batch has two
parts, with all threads meeting after each:

    score    some visits at a time: negatives, scores, slopes dl/ds, the gradient of u_c. While
             the cache lines of a block of visits are on their way, other blocks are worked on
    move     shares add up slope · u_c over the entries of an item and step it; then the users

Threads take visits and shares as they get there, so one that lost its core holds up little: some
visits, or one share.

An entry is one (visit, item): P positives and N negatives a visit. Entries of one row are chained,
so nothing is added up in memory and a row is read and written once a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import inner, outer
from sdgar.kernels.numba.contexts import add_up, pass_to_rows
from sdgar.kernels.numba.draws import Block, continue_draws, start_draws
from sdgar.kernels.numba.losses import Scored, few_slopes, gradient, weigh
from sdgar.kernels.numba.moves import move_items, move_users, steps_at
from sdgar.kernels.numba.picks import pick, propose
from sdgar.kernels.numba.rows import add_row, row_at, scale_row
from sdgar.kernels.numba.scores import factor, moved_by_slopes_alone, score
from sdgar.kernels.numba.steps import rests
from sdgar.kernels.numba.threads import meet, run, take
from sdgar.kernels.numba.visits import (
    Permuted,
    deliver,
    find_contexts,
    find_positives,
    find_rows,
    name_visits,
    prefetch_visits,
)
from sdgar.kernels.records import Record

_BLOCK = 96
"""The rows of a block of visits: all blocks under way fit in the caches of a core."""
_STAGES = 6
"""The stages of a block of visits, and the number of blocks under way."""
_PARTS = 16
"""How often a thread takes visits of a batch, if all are equally fast; one alone takes all at
once."""


class Scratch(NamedTuple):
    """What threads exchange within a batch; V visits, e entries, F rows of a context."""

    place_VF: NDArray[np.int32]
    """The rows that the context of a visit is a sum of: its row, or one for each field."""
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


class Loop(NamedTuple):
    """What all threads read and write in an epoch: its numbers, the data, the parts and tables."""

    keys: NDArray[np.uint64]
    """The keys of the order of visits."""
    tail: int
    """The last counter word of the numbers that draw negatives; see ``rng.words``."""
    deal: int
    """The last counter word of the numbers that deal out the positives of a context."""
    steps_before: int
    """The number of steps before the epoch."""
    rows: Any
    known: Any
    order: Any
    proposal: Any
    scores: Any
    loss: Any
    steps: Any
    tables: Any
    scratch: Scratch


class Workspace(NamedTuple):
    """What a thread needs for itself: K blocks of visits under way, and chains of entries."""

    place_K: NDArray[np.int64]
    """The place of each block in the batch."""
    count_K: NDArray[np.int64]
    """The number of visits of each block."""
    block_K: tuple[Block, ...]
    scored: Scored
    list_L: NDArray[np.int32]
    """The first entry of each chain, with as many places to sort them."""
    next_e: NDArray[np.int32]
    g_D: NDArray[np.float32]


_OTHER_TYPES: dict[str, type] = {
    "weight_VP": np.float32,
    "ok_VN": np.bool_,
    "q_VN": np.float32,
    "place_VN": np.uint64,
    "fraction_VN": np.uint64,
    "rest_VN": np.uint64,
}
"""The types of the arrays of a block that are not int64."""


def blocks(count: int, visits: int, positives: int, negatives: int) -> tuple[Block, ...]:
    """Allocate blocks of so many visits."""
    size = {"V": visits, "P": positives, "N": negatives}
    return tuple(
        Block(*(_zeros(name, _OTHER_TYPES.get(name, np.int64), size) for name in Block._fields))
        for _ in range(count)
    )


def workspace(dim: int, positives: int, negatives: int, batch: int, fields: int) -> Record:
    """Allocate what a thread needs for itself, as kernels allocate nothing."""
    visits = max(1, _BLOCK // (positives + negatives))
    entries = batch * max(positives + negatives, fields)
    size = {"V": visits, "P": positives, "N": negatives, "B": visits * max(positives, negatives)}
    return Record(Workspace(
        np.zeros(_STAGES, np.int64),
        np.zeros(_STAGES, np.int64),
        blocks(_STAGES, visits, positives, negatives),
        Scored(*(_zeros(name, np.float32, size) for name in Scored._fields)),
        np.zeros(2 * entries + 1, np.int32),
        np.zeros(entries + 1, np.int32),
        np.zeros(dim, np.float32),
    ))  # fmt: skip


def _zeros(name: str, dtype: type, size: Mapping[str, int]) -> Any:
    """Allocate an array whose shape is the axis letters of its name."""
    return np.zeros([size[axis] for axis in name.rpartition("_")[2]], dtype)


@inner
def score_drawn(place, visits, loop, block, own):
    """Score visits that were looked up, with what was drawn for them before there are scores."""
    scored, pos_VP = own.scored, own.scored.pos_VP
    add_up(loop.tables, visits, block.user_V, own.g_D)
    weigh(loop.loss, loop, visits, block)
    for v in range(visits):
        for i in range(loop.order.positives):
            pos_VP[v, i] = 0
        for i in range(block.count_V[v]):
            pos_VP[v, i] = score(loop.scores, loop.tables, block.user_V[v], block.item_VP[v, i])
    pick(loop.proposal, loop, visits, block, scored)
    gradient(loop.loss, visits, place, block, scored, loop.scratch)
    _write_entries(visits, place, loop, block, scored)


@inner
def score_all(threads, barrier_5, visits, source, loop, own):
    """Score the visits of a batch that this thread gets.

    Blocks of visits are under way, each at another stage. A stage prefetches the cache lines that
    the next one reads, and while they arrive, other blocks have their turn.
    """
    place_K, count_K, block_K = own.place_K, own.count_K, own.block_K
    proposal, known, tail = loop.proposal, loop.known, loop.tail
    most, entries = len(block_K[0].visit_V), loop.order.positives + proposal.n
    parts = threads * _PARTS * most
    size = max(1, (visits + parts - 1) // parts * most)
    if threads == 1:  # it takes the whole batch, so that its stages fill and drain only once
        size = max(1, visits)
    # An empty block costs a stage next to nothing, so no stage checks whether a block has come so
    # far.
    for k in range(_STAGES):
        count_K[k] = 0
    here, end, turn, over = 0, 0, 0, False
    while not over or turn < end:
        if not over and here >= end:
            here = take(barrier_5) * size
            over = here >= visits
            # After the last visits, some more turns finish the blocks that are still under way.
            end = turn + _STAGES - 1 if over else min(here + size, visits)
        # Every turn brings each block one stage further; block k of an earlier turn comes later.
        k = turn % _STAGES
        place_K[k] = here
        count_K[k] = 0 if over else min(most, end - here)
        here += count_K[k]
        name_visits(source, loop.order, place_K[k], count_K[k], block_K[k].visit_V)
        prefetch_visits(count_K[k], loop, block_K[k])

        k = (turn + _STAGES - 1) % _STAGES
        find_contexts(count_K[k], loop, block_K[k])

        k = (turn + _STAGES - 2) % _STAGES
        find_rows(count_K[k], loop, block_K[k])
        start_draws(proposal, known, tail, count_K[k], block_K[k])

        k = (turn + _STAGES - 3) % _STAGES
        find_positives(count_K[k], loop, block_K[k])
        continue_draws(proposal, known, count_K[k], block_K[k])

        k = (turn + _STAGES - 4) % _STAGES
        propose(proposal, loop, count_K[k], block_K[k])

        k = (turn + _STAGES - 5) % _STAGES
        score_drawn(place_K[k], count_K[k], loop, block_K[k], own)
        deliver(source, place_K[k], place_K[k] + count_K[k], entries, loop.scratch)
        turn += 1


@inner
def _write_entries(visits, first, loop, block, scored):
    """Write what the shares of rows need: entries, u_c, and its gradient Σ slope · v.

    A negative without a slope is no entry where nothing else would move it.
    """
    tables, scratch = loop.tables, loop.scratch
    user_UCD, item_ICD = tables.user_UCD, tables.item_ICD
    u_VD, grad_VD, item_e, slope_e = scratch.u_VD, scratch.grad_VD, scratch.item_e, scratch.slope_e
    item_VP, item_VN, ok_VN = block.item_VP, block.item_VN, block.ok_VN
    slope_pos_VP, slope_neg_VN = scored.slope_pos_VP, scored.slope_neg_VN
    dim, p, n = user_UCD.shape[2], item_VP.shape[1], item_VN.shape[1]
    s, a, look = p + n, factor(loop.scores), few_slopes(loop.loss)
    drop = moved_by_slopes_alone(loop.scores) and rests(loop.steps.item)
    for v in range(visits):
        b, user, count = first + v, block.user_V[v], block.count_V[v]
        scratch.count_V[b] = count
        grad = row_at(grad_VD, b)
        # A copy, because the row may move before the last item of the batch has used it.
        scale_row(row_at(u_VD, b), row_at(user_UCD, user), a, dim)
        scale_row(grad, row_at(item_ICD, item_VP[v, 0]), slope_pos_VP[v, 0] * a, dim)
        # Every visit has P + N places, so that the number of an entry gives its visit.
        for i in range(p):
            item_e[b * s + i] = item_VP[v, i] if i < count else -1
            slope_e[b * s + i] = slope_pos_VP[v, i]
        for i in range(1, count):
            add_row(grad, row_at(item_ICD, item_VP[v, i]), slope_pos_VP[v, i] * a, dim)
        answered = False
        for j in range(n):
            item = item_VN[v, j]
            answered |= ok_VN[v, j]
            item_e[b * s + p + j] = item
            slope_e[b * s + p + j] = slope_neg_VN[v, j]
            if look and slope_neg_VN[v, j] == 0:
                item_e[b * s + p + j] = -1 if drop else item
                continue
            add_row(grad, row_at(item_ICD, item), slope_neg_VN[v, j] * a, dim)
        scratch.answered_V[b] = answered
        pass_to_rows(tables, user, b, scratch.place_VF, grad_VD)


@inner
def count_up(t, visits, scratch):
    """Return the number of positives of a batch; thread 0 adds to the sums of the epoch."""
    # Every thread counts: that takes less time than to wait for the number of another one.
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


@outer
def epoch(t, threads, barrier_5, first, last, loop, own):
    """Run thread t's part of batches first … last - 1 of an epoch.

    ``loop.scratch`` holds the sums of loss and counts afterwards.
    """
    order, scratch = loop.order, loop.scratch
    for batch in range(first, last):
        begin = batch * order.batch
        visits = min(order.batch, order.n_visits - begin)
        score_all(threads, barrier_5, visits, Permuted(begin, loop.keys), loop, own)
        # Nothing moves before all is scored: gradients are taken at the parameters of the start.
        meet(barrier_5, threads)
        share = np.float32(1) / np.float32(count_up(t, visits, scratch))
        steps = steps_at(loop.steps, loop.steps_before + batch + 1)
        mine = take(barrier_5)
        while mine < threads:
            move_items(mine, threads, visits, share, steps, loop, scratch, own)
            move_users(mine, threads, visits, share, steps, loop, own)
            mine = take(barrier_5)
        meet(barrier_5, threads)


def run_batches(first: int, last: int, own_T: Sequence[Record], loop: Record) -> None:
    """Run some batches by one thread for each of ``own_T``."""

    def part(t: int, threads: int, barrier_5: NDArray[np.int32]) -> None:
        epoch(t, threads, barrier_5, first, last, loop, own_T[t])

    run(part, len(own_T))
