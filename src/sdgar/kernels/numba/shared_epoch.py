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


@inner
def meet_all(t, threads, barrier_5, words_5, shared):
    """Wait until all threads of all processes are here; return whether an alarm came first."""
    meet(barrier_5, threads)
    if t == 0:
        shared.lost_1[0] = meet(words_5, shared.processes)
    meet(barrier_5, threads)
    return shared.lost_1[0] != 0


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
    """What belongs to a meeting of the processes of one machine, besides their barrier."""

    processes: int
    """How many they are."""
    threads: int
    """How many threads they have, all of them together."""
    lost_1: NDArray[np.int32]
    """Whether an alarm has ended the last meeting, for the other threads of a process."""


@inner
def deal_out(begin, visits, keys, order, dealt):
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


class Shares(NamedTuple):
    """The visits of this process, and the batch that their factors belong to."""

    dealt: Any
    batch: Any


@variant(name_visits, Shares)
def _name_own(source, order, place, visits, visit_V):
    for v in range(visits):
        visit_V[v] = source.dealt.own_V[place + v]


@variant(deliver, Shares)
def _put(source, first, last, s, scratch):
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


@outer
def shared_epoch(
    t, threads, barrier_5, words_5, halves, first, last, loop, scratch, dealt, shared, own
):
    """Run thread t's part of these halves of batches first … last - 1; return whether all did so.

    ``words_5`` is the barrier of all processes. ``scratch`` has the visits of a batch, and
    ``loop.scratch`` the visits of this process.
    """
    order = loop.order
    for batch in range(first, last):
        begin = batch * order.batch
        visits = min(order.batch, order.n_visits - begin)
        if halves & SCORE:
            if t == 0:
                deal_out(begin, visits, loop.keys, order, dealt)
            meet(barrier_5, threads)
            own_visits = Shares(dealt, scratch)
            score_all(threads, barrier_5, dealt.count_1[0], own_visits, loop, own)
            if meet_all(t, threads, barrier_5, words_5, shared):
                return False
        # The factors of other machines are there once all have met.
        if halves == MOVE and meet_all(t, threads, barrier_5, words_5, shared):
            return False
        if halves & MOVE:
            share = np.float32(1) / np.float32(count_up(t, visits, scratch))
            steps = steps_at(loop.steps, loop.steps_before + batch + 1)
            # Items are shared by the machine, and users belong to this process: two counters.
            mine = take(words_5)
            while mine < shared.threads:
                move_items(mine, shared.threads, visits, share, steps, loop, scratch, own)
                mine = take(words_5)
            mine = take(barrier_5)
            while mine < threads:
                move_users(mine, threads, dealt.count_1[0], share, steps, loop, own)
                mine = take(barrier_5)
            if meet_all(t, threads, barrier_5, words_5, shared):
                return False
    return True
