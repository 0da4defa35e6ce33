"""One batch by several processes: each scores the visits of its own users, and all move the items.

    deal     whose visits are at the places of a batch
    score    own visits: negatives, scores, slopes, the gradient of u_c; their factors are packed
    move     factors of all visits are unpacked in the order of the batch; then items, and own users

What a visit adds to the gradients of its items is slope · u_c. The factors of a visit are thus u_c,
its P + N items and their slopes, and beside them its count of positives and what the log counts:

    u_c (D) | slopes (P + N) | items (P + N) | positives | loss | effective | answered

Each number has 32 bits.

All processes add factors up in the order of the batch, as ``epoch.py`` does, so that all have the
same items, which are those of one process.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import inner, outer
from sdgar.kernels.numba.epoch import count_up, move_all, part_of, score_block
from sdgar.kernels.numba.rng import permuted
from sdgar.kernels.numba.threads import meet, take


class Dealt(NamedTuple):
    """The visits of a batch, and the process of each."""

    edge_S1: NDArray[np.int64]
    """The number of the first visit of each shard."""
    owner_S: NDArray[np.int32]
    """The process that has the users of each shard."""
    owner_V: NDArray[np.int32]
    """The process of the visit at each place of the batch."""
    nth_V: NDArray[np.int32]
    """How many visits of its process are before it."""
    count_R: NDArray[np.int64]
    """The number of visits of each process."""
    own_V: NDArray[np.int64]
    """The visits of this process, in the order of the batch."""


class Packed(NamedTuple):
    """The factors of visits, by the same words as numbers of both kinds."""

    real_VW: NDArray[np.float32]
    whole_VW: NDArray[np.int32]


@outer
def deal(begin: Any, visits: Any, keys: Any, order: Any, number: Any, dealt: Any) -> Any:
    """Find whose visits are at places begin … begin + visits - 1 of the order."""
    edge_S1, owner_S, count_R = dealt.edge_S1, dealt.owner_S, dealt.count_R
    for r in range(len(count_R)):
        count_R[r] = 0
    for v in range(visits):
        visit = permuted(order.n_visits, keys, order.left_bits, order.right_bits, begin + v)
        s = 0
        while visit >= edge_S1[s + 1]:
            s += 1
        owner = owner_S[s]
        if owner == number:
            dealt.own_V[count_R[owner]] = visit
        dealt.owner_V[v] = owner
        dealt.nth_V[v] = count_R[owner]
        count_R[owner] += 1
    return None


@inner
def _pack(first: Any, last: Any, s: Any, scratch: Any, said: Any) -> Any:
    real_VW, whole_VW, dim = said.real_VW, said.whole_VW, scratch.u_VD.shape[1]
    for v in range(first, last):
        for d in range(dim):
            real_VW[v, d] = scratch.u_VD[v, d]
        for i in range(s):
            real_VW[v, dim + i] = scratch.slope_e[v * s + i]
            whole_VW[v, dim + s + i] = scratch.item_e[v * s + i]
        w = dim + 2 * s
        whole_VW[v, w] = scratch.count_V[v]
        real_VW[v, w + 1] = scratch.loss_V[v]
        real_VW[v, w + 2] = scratch.effective_V[v]
        whole_VW[v, w + 3] = scratch.answered_V[v]
    return None


@inner
def _unpack(
    first: Any, last: Any, s: Any, most: Any, dealt: Any, heard: Any, scratch: Any
) -> Any:  # fmt: skip
    """Bring factors to their places first … last - 1 of a batch; a process said ``most`` rows."""
    real_VW, whole_VW, dim = heard.real_VW, heard.whole_VW, scratch.u_VD.shape[1]
    for v in range(first, last):
        row = np.int64(dealt.owner_V[v]) * most + dealt.nth_V[v]
        for d in range(dim):
            scratch.u_VD[v, d] = real_VW[row, d]
        for i in range(s):
            scratch.slope_e[v * s + i] = real_VW[row, dim + i]
            scratch.item_e[v * s + i] = whole_VW[row, dim + s + i]
        w = dim + 2 * s
        scratch.count_V[v] = whole_VW[row, w]
        scratch.loss_V[v] = real_VW[row, w + 1]
        scratch.effective_V[v] = real_VW[row, w + 2]
        scratch.answered_V[v] = whole_VW[row, w + 3] != 0
    return None


@outer
def score_own(
    t: Any, threads: Any, barrier_4: Any, visits: Any, own_V: Any, tail: Any, deal: Any,
    rows: Any, known: Any, order: Any, proposal: Any, scores: Any, loss: Any, steps: Any,
    tables: Any, scratch: Any, said: Any, own: Any,
) -> Any:  # fmt: skip
    """Run thread t's part of the scoring of the first visits of ``own_V``, and pack them."""
    visit_V = own.visited.visit_V
    s = order.positives + proposal.n
    size = max(1, part_of(visits, threads, len(visit_V)))
    first = take(barrier_4, 0) * size
    while first < visits:
        last = min(first + size, visits)
        for block in range(first, last, len(visit_V)):
            here = min(len(visit_V), last - block)
            for v in range(here):
                visit_V[v] = own_V[block + v]
            score_block(
                block, here, tail, deal, rows, known, order, proposal, scores, loss, steps,
                tables, scratch, own,
            )  # fmt: skip
            _pack(block, block + here, s, scratch, said)
        first = take(barrier_4, 0) * size
    return None


@outer
def move_shared(
    t: Any, threads: Any, barrier_4: Any, visits: Any, most: Any, own_visits: Any, step: Any,
    dealt: Any, heard: Any, order: Any, proposal: Any, scores: Any, steps: Any, tables: Any,
    scratch: Any, own_scratch: Any, own: Any,
) -> Any:  # fmt: skip
    """Run thread t's part of step ``step``: all items move, and the users of own visits."""
    p, n = order.positives, proposal.n
    size = (visits + threads - 1) // threads
    _unpack(t * size, min((t + 1) * size, visits), p + n, most, dealt, heard, scratch)
    meet(barrier_4, threads)
    positives = count_up(t, visits, scratch)
    move_all(
        threads, barrier_4, 0, step, positives, p, n, scores, steps, tables, visits, scratch,
        own_visits, own_scratch, own,
    )  # fmt: skip
    return None
