"""The k best items of each user by all of their scores, a block of users at a time.

Scores come in blocks, and a block is reduced to its k best as soon as it is computed. Every thread
scores and reduces other blocks, so no thread waits for another one. A few scores are ranked
with NumPy alone, which is faster than importing Numba.
"""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.errors import NumericalError
from sdgar.machine.threads import one_blas_thread, run_parts
from sdgar.maths.rows import Rows
from sdgar.models.item_weights import add_weights
from sdgar.models.model import Floats, Indices, Model
from sdgar.models.scorers import AnyScorer, Scorer, checked

_FEW_SCORES = 1 << 21
"""Up to so many scores are ranked without compiled kernels, unless Numba is imported already."""
_ITEMS_AT_ONCE = 1 << 15
"""The items of a part of a product, where several threads compute the scores of one block."""
_NO_ITEMS = np.zeros(0, np.int32)
_NO_FLAGS = np.zeros(0, np.bool_)


class KernelTerms(NamedTuple):
    """s_ci = u_c · v_i + b_i + γ Σ_{j ∈ I_c} w_ji, in the arrays that kernels read."""

    user_UD: Floats
    """The vectors u of contexts."""
    item_ID: Floats
    """The vectors v of items."""
    bias_I: Floats
    """The biases b of items."""
    history: History | None
    """The items I of each context; None without weights between items."""
    weight_II: Rows
    """The weights w from item to item."""
    weight: np.float32
    """The weight γ of the second term."""

    @classmethod
    def of(cls, model: AnyScorer) -> KernelTerms | None:
        """Return the terms of a model of float32 vectors and at most one sparse weight matrix.

        None if the scores of the model are anything else.
        """
        if not isinstance(model, Model) or model.factors() is None:
            return None
        terms = model.terms()
        if terms is None or not terms.exact or len(terms.vectors) != 1 or len(terms.weights) > 1:
            return None
        (own,) = terms.vectors
        if own.user_UD is None or own.weight != 1 or not own.item_ID.shape[1]:
            return None
        tables = own.user_UD, own.item_ID, own.bias_I
        if any(table.dtype != np.float32 for table in tables):
            return None
        if not terms.weights:
            none = Rows(np.zeros(1, np.int64), _NO_ITEMS)
            return cls(*tables, None, none, np.float32(0))
        (memory,) = terms.weights
        if isinstance(memory.weight_II, np.ndarray):  # a dense matrix
            return None
        return cls(*tables, memory.history, memory.weight_II, np.float32(memory.weight))

    def weights_of(self, users_B: Indices) -> tuple[Any, ...]:
        """Return what kernels add the second term from.

        These are the first and the last entry of the history of each context and the items of all,
        then the weights by rows, and γ.
        """
        w = self.weight_II
        arrays = w.start_R1, w.column_E, w.weights(), self.weight
        if self.history is None:
            none_B = np.zeros(len(users_B), np.int64)
            return none_B, none_B, _NO_ITEMS, *arrays
        start_U1 = self.history.indptr_U1
        return start_U1[users_B], start_U1[users_B + 1], self.history.items_E, *arrays


class Wanted(NamedTuple):
    """The lists to find, and what they leave out."""

    users_T: Indices
    """The users who get a list, one each."""
    k: int
    """The length of the lists."""
    seen: History | None
    """The items that each user does not get; None if there are none."""
    blocked_I: NDArray[np.bool_] | None
    """Whether nobody gets each item; None if all items may be listed."""


class Spans(NamedTuple):
    """The items of some users: ``item_E[first_B[b] : last_B[b]]`` are the items of user b."""

    first_B: Indices
    last_B: Indices
    item_E: NDArray[np.int32]

    @classmethod
    def of(cls, seen: History | None, users_B: Indices) -> Spans:
        """Return the items that each user has seen."""
        if seen is None:
            none_B = np.zeros(len(users_B), np.int64)
            return cls(none_B, none_B, _NO_ITEMS)
        first_B, last_B = seen.indptr_U1[users_B], seen.indptr_U1[users_B + 1]
        return cls(first_B, last_B, np.ascontiguousarray(seen.items_E))

    def rows(self, at_B: Indices | slice) -> Spans:
        """Return the items of some of these users."""
        return self._replace(first_B=self.first_B[at_B], last_B=self.last_B[at_B])


def flags(blocked_I: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """Return the blocked items as kernels take them: an empty array if there are none."""
    return _NO_FLAGS if blocked_I is None else np.ascontiguousarray(blocked_I)


def not_finite(what: str) -> NumericalError:
    """Build the error for a number that is not finite, as a sentence without its full stop says."""
    return NumericalError(
        f"{what}. The model has diverged or its file is damaged: train again with a smaller "
        "learning rate, or load an earlier checkpoint.",
        code="non_finite_scores",
    )


def not_finite_of(score_I: Floats, user: int) -> NumericalError:
    """Build the error for the first score of a user that is no finite number."""
    item = int(np.flatnonzero(~(score_I < np.inf))[0])
    return not_finite(
        f"the score of user index {user} for item index {item} is {score_I[item]}, so nothing can "
        "be ranked"
    )


@cache
def pool(threads: int) -> ThreadPoolExecutor:
    """Start so many threads, which all calls share from then on."""
    return ThreadPoolExecutor(threads, thread_name_prefix="sdgar-topk")


# A process that is forked has none of the threads.
os.register_at_fork(after_in_child=pool.cache_clear)


class Blocks:
    """Finds the k best of each row, a block of users at a time.

    Blocks have the same rows for any number of threads, so scores have the same bits.
    """

    def __init__(self, scorer: Scorer, wanted: Wanted) -> None:
        users_T, k, seen, blocked_I = wanted
        self._scorer, self._users_T = scorer, users_T
        self._terms = KernelTerms.of(scorer)
        self._kept = threading.local()
        self._items_TK = np.empty((len(users_T), k), np.int32)
        self._top_TK = np.empty((len(users_T), k), np.float32)
        self._seen, self._blocked_I = Spans.of(seen, users_T), flags(blocked_I)

    def rank(self, rows: int) -> tuple[NDArray[np.int32], Floats]:
        """Return items and scores, best first, ``rows`` users at a time in every thread."""
        n_users, n_items = len(self._users_T), self._scorer.n_items
        few = n_users * n_items <= _FEW_SCORES and "numba" not in sys.modules
        rank_block = self._rank_scores if few else self._rank_block
        self._is_one_block = n_users <= rows
        bad: list[tuple[int, int]] = []

        def part(first: int, last: int) -> None:
            row = rank_block(slice(first, last))
            if row >= 0:
                bad.append((first, row))

        with one_blas_thread():
            if few or self._is_one_block:
                for first in range(0, n_users, rows):
                    part(first, min(first + rows, n_users))
            else:
                run_parts(part, n_users, n_users * n_items, at_once=rows, pool_of=pool)
            if bad:
                first, row = min(bad)
                users_B = self._users_T[first : first + rows]
                raise not_finite_of(self._scores(users_B)[row], int(users_B[row]))
        return self._items_TK, self._top_TK

    def _rank_block(self, block: slice) -> int:
        """Rank one block by kernels, and return the first row that cannot be ranked, or -1."""
        from sdgar.kernels.numba.topk import finish_rows, select_rows

        users_B, terms = self._users_T[block], self._terms
        left_out = *self._seen.rows(block), self._blocked_I
        out = self._items_TK[block], self._top_TK[block]
        if terms is None:
            scores_BI = self._scores(users_B)
            return int(select_rows(scores_BI, *left_out, 0, len(scores_BI), *out))
        scores_BI = self._products(terms, users_B)
        return int(
            finish_rows(scores_BI, terms.bias_I, *terms.weights_of(users_B), *left_out, *out)
        )

    def _products(self, terms: KernelTerms, users_B: Indices) -> Floats:
        """Return u · v of some users and all items; threads share the items of the only block.

        The parts are the same for any number of threads, so that the products are too.
        """
        u_BD, n_items = terms.user_UD[users_B], len(terms.item_ID)
        product_BI = self._scratch(len(users_B), n_items)

        def part(first: int, last: int) -> None:
            np.matmul(u_BD, terms.item_ID[first:last].T, out=product_BI[:, first:last])

        if self._is_one_block and n_items > _ITEMS_AT_ONCE:
            run_parts(part, n_items, product_BI.size, at_once=_ITEMS_AT_ONCE, pool_of=pool)
        else:
            part(0, n_items)
        return product_BI

    def _rank_scores(self, block: slice) -> int:
        """Rank one block with NumPy, and return the first row that cannot be ranked, or -1."""
        users_B, terms = self._users_T[block], self._terms
        if terms is None:
            scores_BI = self._scores(users_B).copy()
        else:
            scores_BI = terms.user_UD[users_B] @ terms.item_ID.T
            scores_BI += terms.bias_I
            if terms.history is not None:
                own = terms.history.rows(users_B)
                rows = Rows(own.indptr_U1, own.items_E)
                add_weights(rows, terms.weight_II, scores_BI, float(terms.weight))
        odd_B = ~(scores_BI < np.inf).all(axis=1)
        if odd_B.any():
            return int(odd_B.argmax())
        if len(self._blocked_I):
            scores_BI[:, self._blocked_I] = -np.inf
        k = self._items_TK.shape[1]
        for row, (at, end) in enumerate(zip(*self._seen.rows(block)[:2], strict=True)):
            seen_H = self._seen.item_E[at:end]
            scores_BI[row, seen_H[seen_H < scores_BI.shape[1]]] = -np.inf
            best_K = best_of_row(scores_BI[row], k)
            items_K, top_K = self._items_TK[block][row], self._top_TK[block][row]
            items_K[:], top_K[:] = -1, -np.inf
            items_K[: len(best_K)], top_K[: len(best_K)] = best_K, scores_BI[row, best_K]
        return -1

    def _scratch(self, rows: int, columns: int) -> Floats:
        """Return an array for scores that this thread keeps: new memory costs more."""
        kept: Floats | None = getattr(self._kept, "scores", None)
        if kept is None or kept.size < rows * columns:
            kept = self._kept.scores = np.empty(rows * columns, np.float32)
        return kept[: rows * columns].reshape(rows, columns)

    def _scores(self, users_B: Indices) -> Floats:
        return checked(self._scorer.score_all(users_B), len(users_B), self._scorer.n_items)


def best_of_row(score_I: Floats, k: int) -> Indices:
    """Return the k best items of one user, ties by number; fewer if others score -inf."""
    if k < len(score_I):
        least = score_I[np.argpartition(score_I, len(score_I) - k)[len(score_I) - k]]
        found_N = np.flatnonzero(score_I >= least)
    else:
        found_N = np.arange(len(score_I))
    found_N = found_N[score_I[found_N] > -np.inf]
    best_K: Indices = found_N[np.argsort(-score_I[found_N], kind="stable")[:k]]
    return best_K
