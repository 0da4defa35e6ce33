"""How the rows of a batch move, once all its visits are scored.

Items and users are divided into shares, and one thread at a time steps a share: it adds up the
gradients of a row in the order of the batch, so that every sum has one order for any number of
threads. The entries of one row are chained, so nothing is added up in memory, and a row is read and
written once a batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sdgar.kernels.compiled import inner
from sdgar.kernels.numba.contexts import move_row, prefetch_moved
from sdgar.kernels.numba.math import chosen, quotient, reciprocal
from sdgar.kernels.numba.rows import add_row, clear_row, row_at
from sdgar.kernels.numba.scores import decay_of_item, move_bias, move_vector, prefetch_bias
from sdgar.kernels.numba.steps import Gradient, at, prefetch_sums
from sdgar.kernels.numba.threads import prefetch_row

_SPREAD, _LOW, _HALF = np.uint64(0x9E3779B1), np.uint64(0xFFFFFFFF), np.uint64(32)
_LINE = np.uint64(4)
_AHEAD = 8
"""Rows between the one that is prefetched and the one that is stepped."""


@inner
def owns(own, shares, row):
    """Return whether a row belongs to share ``own`` of so many shares.

    Rows go together 16 at a time, into the share of 2^32 that a multiple of their number lies in:
    two threads never write to one cache line of a table with one number a row.
    """
    place = ((np.uint64(row) >> _LINE) * _SPREAD) & _LOW
    return np.int64(place * np.uint64(shares) >> _HALF) == own


class Steps(NamedTuple):
    """How each table moves, each by one of ``steps.py``; l2 draws all rows towards 0."""

    user: Any
    item: Any
    bias: Any
    l2: np.float32


@inner
def _chain(entries, key_e, own, shares, tail_R, next_e, list_e):
    """Chain the entries of each row of share ``own``; list_e gets the first of every chain.

    Nothing here is skipped, because a processor cannot guess which rows are of a share, or new:
    what is of no use is written over, or goes to the place after all entries. Rows with a single
    entry come first, so that it need not guess either where each of their chains ends.
    """
    found, mine = 0, 0
    for e in range(entries):
        list_e[found] = e
        row = key_e[e]
        found += (row >= 0) & owns(own, shares, row)
    for k in range(found):
        entry = np.int64(list_e[k])
        row = key_e[entry]
        before = tail_R[row]
        list_e[mine] = entry
        mine += before < 0
        next_e[before if before >= 0 else entries] = entry
        tail_R[row] = entry
        next_e[entry] = -1
    alone, others = 0, 0
    for k in range(mine):
        entry = np.int64(list_e[k])
        goes_on = next_e[entry] >= 0
        list_e[alone] = entry
        list_e[entries + others] = entry
        alone += not goes_on
        others += goes_on
    for k in range(others):
        list_e[alone + k] = list_e[entries + k]
    return mine


@inner
def move_items(mine, shares, visits, share, steps, loop, scratch, own):
    """Step the items of share ``mine``: g = (Σ slope · u + λ · touches · θ) / rows."""
    scores, tables, p, n = loop.scores, loop.tables, loop.order.positives, loop.proposal.n
    s = p + n
    item_ICD, list_e, next_e, g_D = tables.item_ICD, own.list_L, own.next_e, own.g_D
    item_e, slope_e, tail_I = scratch.item_e, scratch.slope_e, scratch.tail_I
    u_VD, count_V = scratch.u_VD, scratch.count_V
    dim = item_ICD.shape[2]
    # Entry e is of visit e // s, and a division takes longer than all else that an entry needs.
    share_n, (over_s, shift) = share / np.float32(n), reciprocal(s)
    address = item_ICD.ctypes.data
    row_bytes = np.uint64(item_ICD.shape[1] * dim * 4)
    u_address, u_bytes = u_VD.ctypes.data, np.uint64(dim * 4)
    rows = _chain(visits * s, item_e, mine, shares, tail_I, next_e, list_e)
    for k in range(rows):
        # Rows come in the order of the batch, which no processor can foresee.
        if k + _AHEAD < rows:
            ahead = list_e[k + _AHEAD]
            prefetch_row(address, np.int64(item_e[ahead]), row_bytes, row_bytes)
            prefetch_row(u_address, quotient(ahead, over_s, shift), u_bytes, u_bytes)
            prefetch_sums(steps.item, item_e[ahead])
            prefetch_sums(steps.bias, item_e[ahead])
            prefetch_bias(scores, item_e[ahead])
        e = np.int64(list_e[k])
        item = np.int64(item_e[e])
        # Left as it was found, so that no batch begins with a pass over all items.
        tail_I[item] = -1
        reg, slope, c, v = np.float32(0), np.float32(0), np.float32(0), np.int64(0)
        single = True
        while e >= 0:
            v = quotient(e, over_s, shift)
            c = share * slope_e[e]
            slope += c
            # L2 weighs a positive once, and a negative by 1/N of the positives of its visit.
            reg += chosen(e - v * s >= p, np.float32(count_V[v]) * share_n, share)
            e = np.int64(next_e[e])
            if e >= 0:
                # All but the last entry of a chain are added up; the last goes into the step.
                single = False
                add_row(g_D.ctypes.data, row_at(u_VD, v), c, dim)
        reg *= steps.l2
        by = Gradient(
            g_D.ctypes.data, c, row_at(u_VD, v), decay_of_item(scores, reg, slope)
        )  # fmt: skip
        move_vector(scores, steps.item, item_ICD, item, by)
        move_bias(scores, steps.bias, item, reg, slope)
        if not single:
            clear_row(g_D.ctypes.data, dim)


@inner
def move_users(mine, shares, visits, share, steps, loop, own):
    """Step the users of share ``mine``, or values of fields, by what scoring has left for them."""
    tables, list_e, next_e, g_D = loop.tables, own.list_L, own.next_e, own.g_D
    place_VF, tail_R = loop.scratch.place_VF, loop.scratch.tail_R
    grad_VD, count_V = loop.scratch.grad_VD, loop.scratch.count_V
    dim, f = grad_VD.shape[1], place_VF.shape[1]
    over_f, shift = reciprocal(f)
    place_e = place_VF.flat
    grad_address, grad_bytes = grad_VD.ctypes.data, np.uint64(dim * 4)
    rows = _chain(visits * f, place_e, mine, shares, tail_R, next_e, list_e)
    for k in range(rows):
        if k + _AHEAD < rows:
            ahead = list_e[k + _AHEAD]
            prefetch_moved(tables, place_e[ahead])
            prefetch_row(grad_address, quotient(ahead, over_f, shift), grad_bytes, grad_bytes)
            prefetch_sums(steps.user, place_e[ahead])
        e = np.int64(list_e[k])
        row = np.int64(place_e[e])
        tail_R[row] = -1
        # As for items: the chain is added up, and its last gradient goes into the step itself.
        reg, v = np.float32(0), quotient(e, over_f, shift)
        single = True
        while e >= 0:
            v = quotient(e, over_f, shift)
            reg += share * np.float32(count_V[v])
            e = np.int64(next_e[e])
            if e >= 0:
                single = False
                add_row(g_D.ctypes.data, row_at(grad_VD, v), share, dim)
        by = Gradient(g_D.ctypes.data, share, row_at(grad_VD, v), reg * steps.l2)
        move_row(tables, loop.scores, steps, row, by)
        if not single:
            clear_row(g_D.ctypes.data, dim)


@inner
def steps_at(steps, step):
    """Return the steps of all tables as they are at step ``step``."""
    return Steps(at(steps.user, step), at(steps.item, step), at(steps.bias, step), steps.l2)
