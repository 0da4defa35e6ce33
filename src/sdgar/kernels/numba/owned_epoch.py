"""A batch by several processes, each of which has some of the items; between its parts they talk.

    draw     own visits: positives, and the states and random words of negatives
    accept   which drawn items are no known positives, and the words of further tries for the rest
    score    own visits, with the rows of their items in a small table; as ``epoch.py`` does
    pack     the factors of own visits, for the owners of their items
    unpack   the factors that concern own items, to their places in the batch
    move     own items and own users; as ``epoch.py`` does

Of a visit, the owner of some of its items is told

    its place in the batch | how many entries follow | u_c (D) | slot, item, slope of each entry

where each number has 32 bits. Factors are added up in the order of the batch, so that items are
those of one process.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import inner, outer, variant
from sdgar.kernels.numba.draws import MAX_TRIES, Decomposable, Uniform, draw, from_table, state_at
from sdgar.kernels.numba.epoch import (
    count_up,
    move_items,
    move_users,
    part_of,
    score_drawn,
    steps_at,
)
from sdgar.kernels.numba.known import is_known
from sdgar.kernels.numba.shared_epoch import deal_out
from sdgar.kernels.numba.threads import take
from sdgar.kernels.numba.visits import look_up, positives_at

TRIES = MAX_TRIES - 1
"""The further tries of a draw whose first one is a known positive."""
HEAD, ENTRY = 2, 3
"""The numbers of a visit beside its vector, and those of an entry."""
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


class Met(NamedTuple):
    """The items of the own visits of a batch, by their numbers or by places in a small table."""

    user_V: NDArray[np.int64]
    row_V: NDArray[np.int64]
    """The row of a visit's first positive, by which its draws are addressed."""
    item_VS: NDArray[np.int64]
    """The P positives and N negatives; where there are fewer positives, the first stands in."""
    ok_VN: NDArray[np.bool_]
    """Whether each negative is accepted."""
    words_A3: NDArray[np.int32]
    """The state of each negative and the two words by which it draws an item."""


def begin(
    p: Any, known: Any, tail: Any, visits: Any, user_V: Any, row_VP: Any, bins: Any, drawn: Any
) -> Any:
    """Draw what needs no table of another process: items, or else states and words."""


@variant(begin, Uniform)
def _draw_items(
    p: Any, known: Any, tail: Any, visits: Any, user_V: Any, row_VP: Any, bins: Any, drawn: Any
) -> Any:
    draw(p, known, tail, visits, user_V, row_VP, bins, drawn)
    return None


@variant(begin, Decomposable)
def _draw_states(
    p: Any, known: Any, tail: Any, visits: Any, user_V: Any, row_VP: Any, bins: Any, drawn: Any
) -> Any:
    for v in range(visits):
        for j in range(p.n):
            state, high, low = state_at(p, tail, row_VP[v, 0], j, user_V[v])
            bins.place_VN[v, j] = state
            bins.rest_VN[v, j] = (high << _HALF) | low
    return None


@inner
def _ask(words_A3: Any, a: Any, state: Any, high: Any, low: Any) -> Any:
    words_A3[a, 0] = np.int32(state)
    words_A3[a, 1] = np.int32(np.uint32(high))
    words_A3[a, 2] = np.int32(np.uint32(low))
    return None


@outer
def draw_own(
    first: Any, visits: Any, keys: Any, tail: Any, deal: Any, rows: Any, known: Any, order: Any,
    proposal: Any, scores: Any, tables: Any, dealt: Any, scratch: Any, met: Any, own: Any,
) -> Any:  # fmt: skip
    """Find the own visits of a batch with their positives, and draw; return how many they are."""
    deal_out(first, visits, keys, order, dealt)
    for v in range(visits):
        scratch.count_V[v] = positives_at(order, rows.indptr_U1, dealt.visit_V[v])
    visited, drawn, bins = own.visited_K[0], own.drawn_K[0], own.bins_K[0]
    p, n, size = order.positives, proposal.n, len(visited.visit_V)
    mine = dealt.count_1[0]
    for block in range(0, mine, size):
        here = min(size, mine - block)
        for v in range(here):
            visited.visit_V[v] = dealt.own_V[block + v]
        look_up(here, deal, order, rows, known, scores, tables, visited)
        begin(proposal, known, tail, here, visited.user_V, visited.row_VP, bins, drawn)
        for v in range(here):
            b = block + v
            met.user_V[b], met.row_V[b] = visited.user_V[v], visited.row_VP[v, 0]
            for i in range(p):
                met.item_VS[b, i] = visited.item_VP[v, i if i < visited.count_V[v] else 0]
            for j in range(n):
                met.item_VS[b, p + j] = drawn.item_VN[v, j]
                met.ok_VN[b, j] = drawn.ok_VN[v, j]
                rest = bins.rest_VN[v, j]
                _ask(met.words_A3, b * n + j, bins.place_VN[v, j], rest >> _HALF, rest & _LOW)
    return mine


@outer
def open_bins(words_A3: Any, n_items: Any, item_bins: Any, item_A: Any) -> Any:
    """Read the item that each of these draws finds, in the own tables that their words name."""
    for a in range(len(item_A)):
        high, low = np.uint64(np.uint32(words_A3[a, 1])), np.uint64(np.uint32(words_A3[a, 2]))
        item_A[a] = from_table(item_bins, np.int64(words_A3[a, 0]), n_items, high, low)
    return None


@outer
def take_first(visits: Any, p: Any, known: Any, item_A: Any, met: Any) -> Any:
    """Take the items of first tries; return how many of them are refused."""
    n, refused = met.ok_VN.shape[1], 0
    for v in range(visits):
        for j in range(n):
            item = np.int64(item_A[v * n + j])
            met.item_VS[v, p + j] = item
            ok = not is_known(known, met.user_V[v], item)
            met.ok_VN[v, j] = ok
            refused += not ok
    return refused


@outer
def ask_again(visits: Any, tail: Any, proposal: Any, met: Any, words_A3: Any) -> Any:
    """Draw the states and words of all further tries of what was refused."""
    n, a = met.ok_VN.shape[1], 0
    for v in range(visits):
        for j in range(n):
            for t in range(1, 1 if met.ok_VN[v, j] else MAX_TRIES):
                state, high, low = state_at(
                    proposal, tail, met.row_V[v], t * n + j, met.user_V[v]
                )  # fmt: skip
                _ask(words_A3, a, state, high, low)
                a += 1
    return None


@outer
def take_again(visits: Any, p: Any, known: Any, item_A: Any, met: Any) -> Any:
    """Take the first of all further tries that is accepted, or else the last one."""
    n, a = met.ok_VN.shape[1], 0
    for v in range(visits):
        for j in range(n):
            if met.ok_VN[v, j]:
                continue
            refused, t = True, 0
            while refused and t < TRIES:
                item = np.int64(item_A[a + t])
                met.item_VS[v, p + j] = item
                refused = is_known(known, met.user_V[v], item)
                t += 1
            met.ok_VN[v, j] = not refused
            a += TRIES
    return None


@outer
def score_own(
    t: Any, threads: Any, barrier_4: Any, tail: Any, deal: Any, rows: Any, known: Any, order: Any,
    proposal: Any, scores: Any, loss: Any, steps: Any, tables: Any, dealt: Any, index_VS: Any,
    met: Any, own_scratch: Any, own: Any,
) -> Any:  # fmt: skip
    """Score thread t's part of the own visits; index_VS has the places of items in ``tables``."""
    visited, drawn = own.visited_K[0], own.drawn_K[0]
    visits, block_size = dealt.count_1[0], len(visited.visit_V)
    p, n = order.positives, proposal.n
    size = max(1, part_of(visits, threads, block_size))
    first = take(barrier_4, 0) * size
    while first < visits:
        last = min(first + size, visits)
        for block in range(first, last, block_size):
            here = min(block_size, last - block)
            for v in range(here):
                visited.visit_V[v] = dealt.own_V[block + v]
            look_up(here, deal, order, rows, known, scores, tables, visited)
            for v in range(here):
                for i in range(p):
                    visited.item_VP[v, i] = index_VS[block + v, i]
                for j in range(n):
                    drawn.item_VN[v, j] = index_VS[block + v, p + j]
                    drawn.ok_VN[v, j] = met.ok_VN[block + v, j]
            score_drawn(
                block, here, tail, known, order, proposal, scores, loss, steps, tables,
                own_scratch, visited, drawn, own,
            )  # fmt: skip
        first = take(barrier_4, 0) * size
    return None


@outer
def count_factors(
    visits: Any, s: Any, owner_U: Any, scratch: Any, last_R: Any, count_R2: Any
) -> Any:
    """Count the visits and the entries that each owner is told of."""
    for r in range(len(last_R)):
        last_R[r] = -1
        count_R2[r, 0] = count_R2[r, 1] = 0
    for v in range(visits):
        for i in range(s):
            item = scratch.item_e[v * s + i]
            if item < 0:
                continue
            r = owner_U[item]
            count_R2[r, 0] += last_R[r] != v
            count_R2[r, 1] += 1
            last_R[r] = v
    return None


@outer
def pack(
    visits: Any, s: Any, owner_U: Any, place_U: Any, dealt: Any, scratch: Any, last_R: Any,
    head_R: Any, end_R: Any, real_W: Any, whole_W: Any,
) -> Any:  # fmt: skip
    """Write the factors of own visits, from ``end_R[r]`` on for owner r."""
    u_VD = scratch.u_VD
    dim = u_VD.shape[1]
    for r in range(len(last_R)):
        last_R[r] = -1
    for v in range(visits):
        for i in range(s):
            item = scratch.item_e[v * s + i]
            if item < 0:
                continue
            r = owner_U[item]
            w = end_R[r]
            if last_R[r] != v:
                last_R[r], head_R[r] = v, w
                whole_W[w], whole_W[w + 1] = dealt.place_V[v], 0
                for d in range(dim):
                    real_W[w + HEAD + d] = u_VD[v, d]
                w += HEAD + dim
            whole_W[head_R[r] + 1] += 1
            whole_W[w], whole_W[w + 1] = i, place_U[item]
            real_W[w + 2] = scratch.slope_e[v * s + i]
            end_R[r] = w + ENTRY
    return None


@outer
def unpack(visits: Any, s: Any, real_W: Any, whole_W: Any, scratch: Any) -> Any:
    """Bring the factors that concern own items to their places; other entries are none."""
    u_VD, item_e, slope_e = scratch.u_VD, scratch.item_e, scratch.slope_e
    dim = u_VD.shape[1]
    for e in range(visits * s):
        item_e[e] = -1
    w = 0
    while w < len(whole_W):
        v, entries = np.int64(whole_W[w]), whole_W[w + 1]
        w += HEAD
        for d in range(dim):
            u_VD[v, d] = real_W[w + d]
        w += dim
        for _ in range(entries):
            e = v * s + whole_W[w]
            item_e[e] = whole_W[w + 1]
            slope_e[e] = real_W[w + 2]
            w += ENTRY
    return None


@outer
def move_own(
    t: Any, threads: Any, barrier_4: Any, visits: Any, step: Any, p: Any, n: Any, scores: Any,
    steps: Any, tables: Any, dealt: Any, scratch: Any, own_scratch: Any, own: Any,
) -> Any:  # fmt: skip
    """Step own items by the factors of all, and own users; ``scratch`` has the whole batch."""
    mine = dealt.count_1[0]
    count_up(t, mine, own_scratch)
    positives = 0
    for v in range(visits):
        positives += scratch.count_V[v]
    share = np.float32(1) / np.float32(positives)
    now = steps_at(steps, step)
    part = take(barrier_4, 0)
    while part < threads:
        move_items(
            part, threads, visits, share, p, n, scores, now, tables, scratch, own.list_L,
            own.next_e, own.g_D,
        )  # fmt: skip
        move_users(
            part, threads, mine, share, scores, now, tables, own_scratch, own.list_L, own.next_e,
            own.g_D,
        )  # fmt: skip
        part = take(barrier_4, 0)
    return None
