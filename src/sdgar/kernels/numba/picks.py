"""Negatives on the CPU: drawn by ``draws.py``, or chosen by their scores.

Negatives of the second kind are chosen among uniform candidates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sdgar.kernels.compiled import by_default, variant
from sdgar.kernels.numba.draws import AHEAD, finish_draws
from sdgar.kernels.numba.known import unknown_item
from sdgar.kernels.numba.scores import prefetch_item, score


class HardestOf(NamedTuple):
    """A negative is the best scored of C candidates."""

    n: int
    seed: np.uint64
    n_items: int
    candidates: int


class FirstViolation(NamedTuple):
    """A negative is the first of C candidates with s_j > s⁺ - margin, else the last."""

    n: int
    seed: np.uint64
    n_items: int
    candidates: int
    margin: np.float32


@by_default
def propose(p, loop, visits, block):
    """Finish what can be drawn before there are scores, and prefetch the first vectors."""
    finish_draws(p, loop.known, loop.tail, visits, block)
    item_e = block.item_VN.flat
    for e in range(min(AHEAD, visits * p.n)):
        prefetch_item(loop.scores, loop.tables, item_e[e])


@by_default
def pick(p, loop, visits, block, scored):
    """Find n negatives for each of some visits, their scores, and whether each is accepted.

    Most proposals are drawn by now, and only scored here.
    """
    scores, tables = loop.scores, loop.tables
    item_e, entries = block.item_VN.flat, visits * p.n
    for v in range(visits):
        for j in range(p.n):
            ahead = v * p.n + j + AHEAD
            if ahead < entries:
                prefetch_item(scores, tables, item_e[ahead])
            scored.neg_VN[v, j] = score(scores, tables, block.user_V[v], block.item_VN[v, j])


@variant(propose, HardestOf, FirstViolation)
def _wait(p, loop, visits, block):
    return None


@variant(pick, HardestOf)
def _pick_hardest(p, loop, visits, block, scored):
    known, item_VN, ok_VN = loop.known, block.item_VN, block.ok_VN
    for v in range(visits):
        user, row = block.user_V[v], block.row_VP[v, 0]
        first, last = known.indptr_U1[user], known.indptr_U1[user + 1]
        unknown = p.n_items - (last - first)
        for j in range(p.n):
            item, best = np.int64(known.positive_E[row]), np.float32(0)
            for c in range(p.candidates if unknown > 0 else 0):
                slot = j * p.candidates + c
                drawn = unknown_item(
                    p.seed, loop.tail, row, slot, first, last, unknown, known.items_E
                )
                s = score(loop.scores, loop.tables, user, drawn)
                if c == 0 or s > best:
                    item, best = drawn, s
            item_VN[v, j], scored.neg_VN[v, j], ok_VN[v, j] = item, best, unknown > 0


@variant(pick, FirstViolation)
def _pick_first_violation(p, loop, visits, block, scored):
    known, item_VN, ok_VN = loop.known, block.item_VN, block.ok_VN
    tries_V = block.tries_V
    for v in range(visits):
        user, row = block.user_V[v], block.row_VP[v, 0]
        first, last = known.indptr_U1[user], known.indptr_U1[user + 1]
        unknown = p.n_items - (last - first)
        bound = scored.pos_VP[v, 0] - p.margin
        tries_V[v] = 0
        for j in range(p.n):
            item, s = np.int64(known.positive_E[row]), np.float32(0)
            for c in range(p.candidates if unknown > 0 else 0):
                slot = j * p.candidates + c
                item = unknown_item(
                    p.seed, loop.tail, row, slot, first, last, unknown, known.items_E
                )
                s = score(loop.scores, loop.tables, user, item)
                tries_V[v] = c + 1
                if s > bound:
                    break
            item_VN[v, j], scored.neg_VN[v, j], ok_VN[v, j] = item, s, unknown > 0
