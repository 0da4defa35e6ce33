"""Negatives on the CPU: drawn by ``draws.py``, or chosen by their scores.

Negatives of the second kind are chosen among uniform candidates.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sdgar.kernels.compiled import variant
from sdgar.kernels.numba.alias_draws import Decomposable, Popularity, RankByFactor
from sdgar.kernels.numba.draws import (
    AHEAD,
    Uniform,
    WithDislikes,
    continue_draws,
    finish_draws,
    start_draws,
)
from sdgar.kernels.numba.known import unknown_item
from sdgar.kernels.numba.scores import prefetch_item, score

DRAWN = (Uniform, Popularity, Decomposable, RankByFactor, WithDislikes)
"""The kinds of proposal that need no scores: they are drawn first, and scored afterwards."""


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


def propose(
    p: Any, scores: Any, tables: Any, known: Any, tail: Any, visits: Any, user_V: Any,
    row_VP: Any, bins: Any, drawn: Any,
) -> Any:  # fmt: skip
    """Finish what can be drawn before there are scores, and prefetch the first vectors."""


def pick(
    p: Any, scores: Any, tables: Any, known: Any, tail: Any, visits: Any, user_V: Any,
    row_VP: Any, pos_VP: Any, neg_VN: Any, drawn: Any,
) -> Any:  # fmt: skip
    """Find n negatives for each of some visits, their scores, and whether each is accepted."""


@variant(propose, *DRAWN)
def _finish(
    p: Any, scores: Any, tables: Any, known: Any, tail: Any, visits: Any, user_V: Any,
    row_VP: Any, bins: Any, drawn: Any,
) -> Any:  # fmt: skip
    finish_draws(p, known, tail, visits, user_V, row_VP, bins, drawn)
    item_e = drawn.item_VN.flat
    for e in range(min(AHEAD, visits * p.n)):
        prefetch_item(scores, tables, item_e[e])
    return None


@variant(pick, *DRAWN)
def _score(
    p: Any, scores: Any, tables: Any, known: Any, tail: Any, visits: Any, user_V: Any,
    row_VP: Any, pos_VP: Any, neg_VN: Any, drawn: Any,
) -> Any:  # fmt: skip
    item_e, entries = drawn.item_VN.flat, visits * p.n
    for v in range(visits):
        for j in range(p.n):
            ahead = v * p.n + j + AHEAD
            if ahead < entries:
                prefetch_item(scores, tables, item_e[ahead])
            neg_VN[v, j] = score(scores, tables, user_V[v], drawn.item_VN[v, j])
    return None


@variant(propose, HardestOf, FirstViolation)
def _wait(
    p: Any, scores: Any, tables: Any, known: Any, tail: Any, visits: Any, user_V: Any,
    row_VP: Any, bins: Any, drawn: Any,
) -> Any:  # fmt: skip
    return None


@variant(start_draws, HardestOf, FirstViolation)
def _start_later(
    p: Any, known: Any, tail: Any, visits: Any, user_V: Any, row_VP: Any, bins: Any
) -> Any:
    return None


@variant(continue_draws, HardestOf, FirstViolation)
def _continue_later(p: Any, known: Any, visits: Any, user_V: Any, bins: Any) -> Any:
    return None


@variant(pick, HardestOf)
def _pick_hardest(
    p: Any, scores: Any, tables: Any, known: Any, tail: Any, visits: Any, user_V: Any,
    row_VP: Any, pos_VP: Any, neg_VN: Any, drawn: Any,
) -> Any:  # fmt: skip
    known_E, item_VN, ok_VN = known.items_E, drawn.item_VN, drawn.ok_VN
    for v in range(visits):
        user, row = user_V[v], row_VP[v, 0]
        first, last = known.indptr_U1[user], known.indptr_U1[user + 1]
        unknown = p.n_items - (last - first)
        for j in range(p.n):
            item, best = np.int64(known.positive_E[row]), np.float32(0)
            for c in range(p.candidates if unknown > 0 else 0):
                slot = j * p.candidates + c
                drawn = unknown_item(p.seed, tail, row, slot, first, last, unknown, known_E)
                s = score(scores, tables, user, drawn)
                if c == 0 or s > best:
                    item, best = drawn, s
            item_VN[v, j], neg_VN[v, j], ok_VN[v, j] = item, best, unknown > 0
    return None


@variant(pick, FirstViolation)
def _pick_first_violation(
    p: Any, scores: Any, tables: Any, known: Any, tail: Any, visits: Any, user_V: Any,
    row_VP: Any, pos_VP: Any, neg_VN: Any, drawn: Any,
) -> Any:  # fmt: skip
    known_E, item_VN, ok_VN = known.items_E, drawn.item_VN, drawn.ok_VN
    tries_V = drawn.tries_V
    for v in range(visits):
        user, row = user_V[v], row_VP[v, 0]
        first, last = known.indptr_U1[user], known.indptr_U1[user + 1]
        unknown = p.n_items - (last - first)
        bound = pos_VP[v, 0] - p.margin
        tries_V[v] = 0
        for j in range(p.n):
            item, s = np.int64(known.positive_E[row]), np.float32(0)
            for c in range(p.candidates if unknown > 0 else 0):
                slot = j * p.candidates + c
                item = unknown_item(p.seed, tail, row, slot, first, last, unknown, known_E)
                s = score(scores, tables, user, item)
                tries_V[v] = c + 1
                if s > bound:
                    break
            item_VN[v, j], neg_VN[v, j], ok_VN[v, j] = item, s, unknown > 0
    return None
