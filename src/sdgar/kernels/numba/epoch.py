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
from sdgar.kernels.numba.draws import Bins, Drawn, continue_draws, start_draws
from sdgar.kernels.numba.losses import Scored, few_slopes, gradient, weigh
from sdgar.kernels.numba.moves import move_items, move_users, steps_at
from sdgar.kernels.numba.picks import pick, propose
from sdgar.kernels.numba.rows import add_row, row_at, scale_row
from sdgar.kernels.numba.scores import (
    factor,
    moved_by_slopes_alone,
    score,
)
from sdgar.kernels.numba.steps import rests
from sdgar.kernels.numba.threads import meet, run, take
from sdgar.kernels.numba.visits import (
    Permuted,
    Visited,
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
    """What threads exchange within a batch; V visits, e entries, T threads."""

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


class Workspace(NamedTuple):
    """What a thread needs for itself: K blocks of visits under way, and chains of entries."""

    place_K: NDArray[np.int64]
    """The place of each block in the batch."""
    count_K: NDArray[np.int64]
    """The number of visits of each block."""
    visited_K: tuple[Visited, ...]
    drawn_K: tuple[Drawn, ...]
    bins_K: tuple[Bins, ...]
    scored: Scored
    list_L: NDArray[np.int32]
    """The first entry of each chain, with as many places to sort them."""
    next_e: NDArray[np.int32]
    g_D: NDArray[np.float32]


def workspace(dim: int, positives: int, negatives: int, batch: int, fields: int) -> Record:
    """Allocate what a thread needs for itself, as kernels allocate nothing."""
    visits = max(1, _BLOCK // (positives + negatives))
    size = {
        "K": _STAGES, "V": visits, "P": positives, "N": negatives, "D": dim,
        "B": visits * max(positives, negatives),
        "e": batch * max(positives + negatives, fields) + 1,
        "L": 2 * batch * max(positives + negatives, fields) + 1,
    }  # fmt: skip

    def zeros(name: str, dtype: type) -> Any:
        """Allocate an array whose shape is the axis letters of its name."""
        return np.zeros([size[axis] for axis in name.rpartition("_")[2]], dtype)

    def zeros_of_blocks(kind: Any, dtypes: Mapping[str, type], other: type) -> Any:
        """Allocate what is kept of each block under way."""
        return tuple(
            kind(*(zeros(name, dtypes.get(name, other)) for name in kind._fields))
            for _ in range(_STAGES)
        )

    return Record(Workspace(
        zeros("place_K", np.int64),
        zeros("count_K", np.int64),
        zeros_of_blocks(Visited, {"weight_VP": np.float32}, np.int64),
        zeros_of_blocks(Drawn, {"ok_VN": np.bool_, "q_VN": np.float32}, np.int64),
        zeros_of_blocks(Bins, {}, np.uint64),
        Scored(*(zeros(name, np.float32) for name in Scored._fields)),
        zeros("list_L", np.int32),
        zeros("next_e", np.int32),
        zeros("g_D", np.float32),
    ))  # fmt: skip


@inner
def score_drawn(
    block: Any, visits: Any, tail: Any, known: Any, order: Any, proposal: Any, scores: Any,
    loss: Any, steps: Any, tables: Any, scratch: Any, visited: Any, drawn: Any, own: Any,
) -> Any:  # fmt: skip
    """Score visits that were looked up, with what was drawn for them before there are scores."""
    scored = own.scored
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
    _write_entries(visits, block, scores, loss, steps, tables, scratch, visited, drawn, scored)
    return None


@inner
def score_all(
    threads: Any, barrier_5: Any, visits: Any, source: Any, tail: Any, deal: Any,
    rows: Any, known: Any, order: Any, proposal: Any, scores: Any, loss: Any, steps: Any,
    tables: Any, scratch: Any, own: Any,
) -> Any:  # fmt: skip
    """Score the visits of a batch that this thread gets.

    Blocks of visits are under way, each at another stage. A stage prefetches the cache lines that
    the next one reads, and while they arrive, other blocks have their turn.
    """
    place_K, count_K = own.place_K, own.count_K
    block, p, n = len(own.visited_K[0].visit_V), order.positives, proposal.n
    # One thread takes the whole batch, so that its stages fill and drain only once.
    size = max(1, part_of(visits, threads, block))
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
        count_K[k] = 0 if over else min(block, end - here)
        here += count_K[k]
        visited = own.visited_K[k]
        name_visits(source, order, place_K[k], count_K[k], visited.visit_V)
        prefetch_visits(count_K[k], order, rows, visited)

        k = (turn + _STAGES - 1) % _STAGES
        find_contexts(count_K[k], order, rows, known, tables, own.visited_K[k])

        k = (turn + _STAGES - 2) % _STAGES
        visited, bins = own.visited_K[k], own.bins_K[k]
        find_rows(count_K[k], deal, order, rows, known, tables, visited)
        start_draws(proposal, known, tail, count_K[k], visited.user_V, visited.row_VP, bins)

        k = (turn + _STAGES - 3) % _STAGES
        visited, bins = own.visited_K[k], own.bins_K[k]
        find_positives(count_K[k], rows, scores, tables, visited)
        continue_draws(proposal, known, count_K[k], visited.user_V, bins)

        k = (turn + _STAGES - 4) % _STAGES
        visited, bins, drawn = own.visited_K[k], own.bins_K[k], own.drawn_K[k]
        propose(
            proposal, scores, tables, known, tail, count_K[k], visited.user_V, visited.row_VP,
            bins, drawn,
        )  # fmt: skip

        k = (turn + _STAGES - 5) % _STAGES
        score_drawn(
            place_K[k], count_K[k], tail, known, order, proposal, scores, loss, steps, tables,
            scratch, own.visited_K[k], own.drawn_K[k], own,
        )  # fmt: skip
        deliver(source, place_K[k], place_K[k] + count_K[k], p + n, scratch)
        turn += 1
    return None


@inner
def _write_entries(
    visits: Any, first: Any, scores: Any, loss: Any, steps: Any, tables: Any, scratch: Any,
    visited: Any, drawn: Any, scored: Any,
) -> Any:  # fmt: skip
    """Write what the shares of rows need: entries, u_c, and its gradient Σ slope · v.

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
    return None


@inner
def part_of(visits: Any, threads: Any, block: Any) -> Any:
    """Return how many visits of a batch are taken at once: some whole blocks."""
    if threads == 1:
        return visits
    parts = threads * _PARTS * block
    return (visits + parts - 1) // parts * block


@inner
def count_up(t: Any, visits: Any, scratch: Any) -> Any:
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


@inner
def _move_all(
    threads: Any, barrier_5: Any, step: Any, positives: Any, p: Any, n: Any,
    scores: Any, steps: Any, tables: Any, visits: Any, scratch: Any, own: Any,
) -> Any:  # fmt: skip
    """Step the items and the users of a batch."""
    share = np.float32(1) / np.float32(positives)
    now = steps_at(steps, step)
    mine = take(barrier_5)
    while mine < threads:
        move_items(
            mine, threads, visits, share, p, n, scores, now, tables, scratch, own.list_L,
            own.next_e, own.g_D,
        )  # fmt: skip
        move_users(
            mine, threads, visits, share, scores, now, tables, scratch, own.list_L, own.next_e,
            own.g_D,
        )  # fmt: skip
        mine = take(barrier_5)
    meet(barrier_5, threads)
    return None


@outer
def epoch(
    t: Any, threads: Any, barrier_5: Any, first: Any, last: Any, keys: Any, tail: Any, deal: Any,
    steps_before: Any, rows: Any, known: Any, order: Any, proposal: Any, scores: Any, loss: Any,
    steps: Any, tables: Any, scratch: Any, own: Any,
) -> Any:  # fmt: skip
    """Run thread t's part of batches first … last - 1 of an epoch.

    ``scratch`` holds the sums of loss and counts afterwards; ``steps_before`` counts from the
    epoch's start.
    """
    steps_before += first
    for batch in range(first, last):
        begin = batch * order.batch
        visits = min(order.batch, order.n_visits - begin)
        score_all(
            threads, barrier_5, visits, Permuted(begin, keys), tail, deal, rows, known,
            order, proposal, scores, loss, steps, tables, scratch, own,
        )  # fmt: skip
        # Nothing moves before all is scored: gradients are taken at the parameters of the start.
        meet(barrier_5, threads)
        positives = count_up(t, visits, scratch)
        steps_before += 1
        _move_all(
            threads, barrier_5, steps_before, positives, order.positives, proposal.n,
            scores, steps, tables, visits, scratch, own,
        )  # fmt: skip
    return None


def run_batches(first: int, last: int, own_T: Sequence[Record], *args: Any) -> None:
    """Run some batches by one thread for each of ``own_T``; records are best laid out before."""

    def part(t: int, threads: int, barrier_5: NDArray[np.int32]) -> None:
        epoch(t, threads, barrier_5, first, last, *args, own_T[t])

    run(part, len(own_T))
