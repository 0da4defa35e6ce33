"""Some batches by several processes: each scores the visits of its users.

    deal     find the process of each visit of a batch
    score    own visits: negatives, scores, slopes, the gradient of u_c; factors go to their places
    move     items, each by one process of a machine, which takes shares of them; and own users

What a visit adds to the gradients of its items is slope · u_c. The factors of a visit are thus u_c,
its P + N items and their slopes, together with its count of positives and the numbers of the log.
The processes of one machine share the tables of items and the factors of a batch in memory, where
each visit has its place. Machines send each other the factors of their visits:

    u_c (D) | slopes (P + N) | items (P + N) | positives | loss | effective | answered

Each number has 32 bits.

Factors are added up in the order of the batch, as ``epoch.py`` does, so that every machine has the
same items as one process would have.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import inner, outer, variant
from sdgar.kernels.numba.epoch import count_up, score_all
from sdgar.kernels.numba.moves import move_items, move_users, steps_at
from sdgar.kernels.numba.rng import permuted
from sdgar.kernels.numba.threads import meet, take
from sdgar.kernels.numba.visits import deliver, name_visits
from sdgar.kernels.record_access import array_of


@inner
def meet_all(
    t: Any, threads: Any, barrier_5: Any, words_5: Any, processes: Any, lost_1: Any
) -> Any:
    """Wait until all threads of all processes are here; return whether an alarm came first.

    ``lost_1`` is where thread 0 leaves this for the other threads of its process.
    """
    meet(barrier_5, threads)
    if t == 0:
        lost_1[0] = meet(words_5, processes)
    meet(barrier_5, threads)
    return lost_1[0] != 0


SCORE, MOVE = 1, 2
"""The halves of a batch, between which machines exchange their factors."""


class Dealt(NamedTuple):
    """The visits of a batch, and the process of each."""

    edge_S1: NDArray[np.int64]
    """The number of the first visit of each shard."""
    owner_S: NDArray[np.int32]
    """The process that has the users of each shard."""
    machine_R: NDArray[np.int32]
    """The machine of each process."""
    number: int
    """The number of this process."""
    visit_V: NDArray[np.int64]
    """The visit at each place of the batch."""
    machine_V: NDArray[np.int32]
    """The machine of the visit at each place of the batch."""
    nth_V: NDArray[np.int32]
    """How many visits of its machine are before it."""
    count_M: NDArray[np.int64]
    """The number of visits of each machine."""
    own_V: NDArray[np.int64]
    """The visits of this process, in the order of the batch."""
    place_V: NDArray[np.int32]
    """The places of these visits in the batch."""
    count_1: NDArray[np.int64]
    """The number of these visits."""


class Shared(NamedTuple):
    """What belongs to a meeting of the processes of one machine."""

    words_5: NDArray[np.int32]
    """The words of their barrier; see ``threads.py``."""
    processes: int
    """How many they are."""
    threads: int
    """How many threads they have, all of them together."""
    lost_1: NDArray[np.int32]
    """Whether an alarm has ended the last meeting."""


class Packed(NamedTuple):
    """The factors of visits, by the same words as numbers of both kinds."""

    real_VW: NDArray[np.float32]
    whole_VW: NDArray[np.int32]


@inner
def deal_out(begin: Any, visits: Any, keys: Any, order: Any, dealt: Any) -> Any:
    """Find the processes of the visits at places begin … begin + visits - 1 of the order."""
    edge_S1, count_M = dealt.edge_S1, dealt.count_M
    for m in range(len(count_M)):
        count_M[m] = 0
    own = 0
    for v in range(visits):
        visit = permuted(order.n_visits, keys, order.left_bits, order.right_bits, begin + v)
        dealt.visit_V[v] = visit
        # Shards are few, and a search by halves would be guessed wrong half of the time.
        s = 0
        while visit >= edge_S1[s + 1]:
            s += 1
        owner = dealt.owner_S[s]
        if owner == dealt.number:
            dealt.own_V[own] = visit
            dealt.place_V[own] = v
            own += 1
        machine = dealt.machine_R[owner]
        dealt.machine_V[v] = machine
        dealt.nth_V[v] = count_M[machine]
        count_M[machine] += 1
    dealt.count_1[0] = own
    return None


class Shares(NamedTuple):
    """The visits of this process, and the batch that their factors belong to."""

    dealt: Any
    batch: Any


@variant(name_visits, Shares)
def _name_own(source: Any, order: Any, place: Any, visits: Any, visit_V: Any) -> Any:
    for v in range(visits):
        visit_V[v] = source.dealt.own_V[place + v]
    return None


@variant(deliver, Shares)
def _put(source: Any, first: Any, last: Any, s: Any, scratch: Any) -> Any:
    """Bring the factors of own visits first … last - 1 to their places in the batch."""
    batch = source.batch
    for own in range(first, last):
        v = source.dealt.place_V[own]
        for d in range(batch.u_VD.shape[1]):
            batch.u_VD[v, d] = scratch.u_VD[own, d]
        for i in range(s):
            batch.slope_e[v * s + i] = scratch.slope_e[own * s + i]
            batch.item_e[v * s + i] = scratch.item_e[own * s + i]
        batch.count_V[v] = scratch.count_V[own]
        batch.loss_V[v] = scratch.loss_V[own]
        batch.effective_V[v] = scratch.effective_V[own]
        batch.answered_V[v] = scratch.answered_V[own]
    return None


@outer
def pack(visits: Any, s: Any, machine: Any, dealt: Any, scratch: Any, said: Any) -> Any:
    """Write the factors of the visits of this machine one after the other."""
    real_VW, whole_VW, dim = said.real_VW, said.whole_VW, scratch.u_VD.shape[1]
    for v in range(visits):
        if dealt.machine_V[v] != machine:
            continue
        row = np.int64(dealt.nth_V[v])
        for d in range(dim):
            real_VW[row, d] = scratch.u_VD[v, d]
        for i in range(s):
            real_VW[row, dim + i] = scratch.slope_e[v * s + i]
            whole_VW[row, dim + s + i] = scratch.item_e[v * s + i]
        w = dim + 2 * s
        whole_VW[row, w] = scratch.count_V[v]
        real_VW[row, w + 1] = scratch.loss_V[v]
        real_VW[row, w + 2] = scratch.effective_V[v]
        whole_VW[row, w + 3] = scratch.answered_V[v]
    return None


@outer
def unpack(
    visits: Any, s: Any, machine: Any, most: Any, dealt: Any, heard: Any, scratch: Any
) -> Any:  # fmt: skip
    """Bring the factors of other machines to their places; a machine said ``most`` rows."""
    real_VW, whole_VW, dim = heard.real_VW, heard.whole_VW, scratch.u_VD.shape[1]
    for v in range(visits):
        if dealt.machine_V[v] == machine:
            continue
        row = np.int64(dealt.machine_V[v]) * most + dealt.nth_V[v]
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


@inner
def _move(
    t: Any, threads: Any, barrier_5: Any, visits: Any, step: Any, p: Any, n: Any,
    scores: Any, steps: Any, tables: Any, dealt: Any, shared: Any, scratch: Any, own_scratch: Any,
    own: Any,
) -> Any:  # fmt: skip
    """Step shares of the items, and own users."""
    share = np.float32(1) / np.float32(count_up(t, visits, scratch))
    now, words_5 = steps_at(steps, step), array_of(shared.words_5)
    # Items are shared by the machine, and users belong to this process: two counters of parts.
    mine = take(words_5)
    while mine < shared.threads:
        move_items(
            mine, shared.threads, visits, share, p, n, scores, now, tables, scratch, own.list_L,
            own.next_e, own.g_D,
        )  # fmt: skip
        mine = take(words_5)
    mine = take(barrier_5)
    while mine < threads:
        move_users(
            mine, threads, dealt.count_1[0], share, scores, now, tables, own_scratch, own.list_L,
            own.next_e, own.g_D,
        )  # fmt: skip
        mine = take(barrier_5)
    return None


@outer
def shared_epoch(
    t: Any, threads: Any, barrier_5: Any, halves: Any, first: Any, last: Any, keys: Any, tail: Any,
    deal: Any, steps_before: Any, rows: Any, known: Any, order: Any, proposal: Any, scores: Any,
    loss: Any, steps: Any, tables: Any, scratch: Any, own_scratch: Any, dealt: Any, shared: Any,
    own: Any,
) -> Any:  # fmt: skip
    """Run thread t's part of these halves of batches first … last - 1; return whether all did so.

    ``scratch`` has the visits of a batch, and ``own_scratch`` the visits of this process.
    """
    words_5 = array_of(shared.words_5)
    for batch in range(first, last):
        begin = batch * order.batch
        visits = min(order.batch, order.n_visits - begin)
        if halves & SCORE:
            if t == 0:
                deal_out(begin, visits, keys, order, dealt)
            meet(barrier_5, threads)
            score_all(
                threads, barrier_5, dealt.count_1[0], Shares(dealt, scratch), tail, deal,
                rows, known, order, proposal, scores, loss, steps, tables, own_scratch, own,
            )  # fmt: skip
            if meet_all(t, threads, barrier_5, words_5, shared.processes, shared.lost_1):
                return False
        if halves == MOVE and meet_all(  # the factors of other machines are there
            t, threads, barrier_5, words_5, shared.processes, shared.lost_1
        ):
            return False
        if halves & MOVE:
            _move(
                t, threads, barrier_5, visits, steps_before + batch + 1, order.positives,
                proposal.n, scores, steps, tables, dealt, shared, scratch, own_scratch, own,
            )  # fmt: skip
            if meet_all(t, threads, barrier_5, words_5, shared.processes, shared.lost_1):
                return False
    return True
