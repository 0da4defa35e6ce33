"""The k best items of every user, over the whole catalogue, in bounded memory.

    rank of i for u: position of i among { j : j not seen by u, j not blocked, s_uj > -inf },
    ordered by score descending, then item index ascending

The order is total, so no tie depends on a thread, a block or a partition algorithm. Scores come in
blocks of users, and a block is reduced to its k best as soon as it is computed. Every thread scores
and reduces blocks of its own, so no thread waits for another one. If all users have the same
scores, items are put in order once. A few scores are ranked with NumPy alone, which is faster than
importing Numba.
"""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.errors import NumericalError, UsageError
from sdgar.kernels.optional import kernels_of
from sdgar.machine.blas import one_blas_thread
from sdgar.maths.rows import Rows
from sdgar.models.item_weights import add_weights
from sdgar.models.model import AnyScorer, Floats, Indices, Model, Scorer, TensorScorer, checked

if TYPE_CHECKING:
    from collections.abc import Callable

BYTES_PER_SCORE = 8
"""What a score costs while its block is alive: the scorer may need a copy of the same size."""
_RAM = 64 << 20
"""The bytes of a block of scores of a thread; larger ones only leave the caches."""
_MOST_ROWS = 256
"""The most users whom a thread scores at once: enough for a fast matrix product, few enough that
all threads end at about the same time."""
_FEW_SCORES = 1 << 21
"""Up to so many scores are ranked without compiled kernels, unless Numba is imported already."""
_NO_ITEMS = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True)
class TopK:
    """The best items of each user, best first."""

    items_TK: NDArray[np.int32]
    """The numbers of the items; -1 where a user has fewer than K recommendable items."""
    scores_TK: NDArray[np.float32]
    """The scores of the items; -inf where the item is -1."""


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
        if not isinstance(memory.weight_II, Rows):
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


def top_k(
    scorer: AnyScorer,
    users_T: Indices,
    k: int,
    *,
    seen: History | None = None,
    blocked_I: NDArray[np.bool_] | None = None,
    ram_bytes: int | None = None,
) -> TopK:
    """Rank the whole catalogue for each user and keep the k best.

    A seen or blocked item is never returned, nor one with the score -inf: the row is padded
    instead. A score that is NaN or +inf anywhere in the catalogue is an error, since every rank
    below it would be meaningless. ``ram_bytes`` bounds a block of scores of a thread: 64 MiB
    without a value, or 4 GiB on a GPU. ``scorer.score_all`` is called by several threads at once.
    """
    n_items = scorer.n_items
    users_T = np.ascontiguousarray(users_T, np.int64)
    require_rankable(users_T, k, n_items, seen, blocked_I)
    kept = min(k, n_items)
    items_TK = np.full((len(users_T), k), -1, np.int32)
    scores_TK = np.full((len(users_T), k), -np.inf, np.float32)
    if len(users_T) == 0:
        return TopK(items_TK, scores_TK)
    if hasattr(scorer, "device"):
        from sdgar.ranking.on_device import rank_on_device

        tensors = cast("TensorScorer", scorer)
        found = rank_on_device(tensors, users_T, kept, seen, blocked_I, ram_bytes)
    else:
        bias_I = shared_scores(scorer)
        if bias_I is not None:
            found = _in_one_order(bias_I, users_T, kept, seen, blocked_I)
        else:
            rows = block_rows(n_items, _RAM if ram_bytes is None else ram_bytes)
            found = _Blocks(scorer, users_T, kept, seen, blocked_I).rank(rows)
    items_TK[:, :kept], scores_TK[:, :kept] = found
    return TopK(items_TK, scores_TK)


def block_rows(n_items: int, ram_bytes: int) -> int:
    """Return how many users are in a block: as many as ``ram_bytes`` hold, at least one."""
    return min(max(1, ram_bytes // (BYTES_PER_SCORE * n_items)), _MOST_ROWS)


def require_rankable(
    users_T: Indices,
    k: int,
    n_items: int,
    seen: History | None,
    blocked_I: NDArray[np.bool_] | None,
) -> None:
    """Raise if an argument is out of range, as kernels check no bounds."""
    if k < 1:
        raise UsageError(f"k must be at least 1, got {k}.", code="bad_k")
    if n_items < 1:
        raise UsageError("the scorer has no items, so there is nothing to rank.", code="no_items")
    if users_T.ndim != 1:
        raise UsageError(f"users must be one-dimensional, got shape {users_T.shape}.")
    if len(users_T) and users_T.min() < 0:
        raise UsageError(
            f"user index {users_T.min()} is negative. Leave unknown users out before ranking.",
            code="unknown_user",
        )
    if seen is not None and len(users_T) and users_T.max() >= seen.n_users:
        raise UsageError(
            f"user index {users_T.max()} is outside the history of {seen.n_users} users. "
            "Pass the history of the data the model was trained on.",
            code="unknown_user",
        )
    if blocked_I is not None and (blocked_I.shape != (n_items,) or blocked_I.dtype != np.bool_):
        raise UsageError(
            f"blocked_I must be {n_items} booleans, one an item, got {blocked_I.dtype} of shape "
            f"{blocked_I.shape}.",
            code="bad_blocked",
        )


def not_finite(score: float, item: int, user: int) -> NumericalError:
    """Build the error for a score that is no finite number."""
    return NumericalError(
        f"the score of user index {user} for item index {item} is {score}, so nothing can be "
        "ranked. The model has diverged or its file is damaged: train again with a smaller "
        "learning rate, or load an earlier checkpoint.",
        code="non_finite_scores",
    )


def _not_finite_of(score_I: Floats, user: int) -> NumericalError:
    item = int(np.flatnonzero(~(score_I < np.inf))[0])
    return not_finite(float(score_I[item]), item, user)


def shared_scores(scorer: Scorer) -> Floats | None:
    """Return the scores that all users have; None if scores differ between users."""
    factors = scorer.factors() if isinstance(scorer, Model) else None
    if factors is None or factors is not scorer or factors.dim:
        return None
    return factors.bias_I


def _in_one_order(
    score_I: Floats,
    users_T: Indices,
    k: int,
    seen: History | None,
    blocked_I: NDArray[np.bool_] | None,
) -> tuple[NDArray[np.int32], Floats]:
    """Rank users who all have the same scores, as most popular has.

    Let o be the items in the order of their scores and p_m, m = 0, 1, …, the places in it,
    ascending, of what a user has seen. Before the item that a user gets at rank j stand j items
    that the user gets and all those seen ones that at most j others precede:

        item at rank j = o[j + |{ m : p_m - m ≤ j }|]

    So no score is computed for any pair of a user and an item.
    """
    if not bool((score_I < np.inf).all()):
        raise _not_finite_of(score_I, int(users_T[0]))
    own = History(np.zeros(len(users_T) + 1, np.int64), _NO_ITEMS)
    if seen is not None:
        own = seen.rows(users_T)
    listed_I = score_I > -np.inf
    if blocked_I is not None:
        listed_I &= ~blocked_I
    order_L = np.flatnonzero(listed_I).astype(np.int32)
    reached = k + int(np.diff(own.indptr_U1).max(initial=0))
    if reached < len(order_L):  # nobody gets an item below this place, so it need not be sorted
        score_L = score_I[order_L]
        least = np.partition(score_L, len(score_L) - reached)[len(score_L) - reached]
        order_L = order_L[score_L >= least]
    order_L = order_L[np.argsort(-score_I[order_L], kind="stable")]
    n_listed, n_users = len(order_L), own.n_users
    place_I = np.full(len(score_I), n_listed, np.int64)
    place_I[order_L] = np.arange(n_listed)
    user_E = own.users_E
    place_E = np.sort(user_E * (n_listed + 1) + place_I[own.items_E]) - user_E * (n_listed + 1)
    before_E = place_E - (np.arange(len(user_E)) - own.indptr_U1[user_E])
    before_E = np.where(place_E == n_listed, k, np.minimum(before_E, k))
    passed_TK = np.bincount(user_E * (k + 1) + before_E, minlength=n_users * (k + 1))
    passed_TK = passed_TK.reshape(n_users, k + 1)[:, :k].cumsum(axis=1)
    at_TK = np.minimum(np.arange(k) + passed_TK, n_listed)
    items_TK = np.append(order_L, np.int32(-1))[at_TK]
    return items_TK, np.append(score_I[order_L], np.float32(-np.inf))[at_TK]


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Start so many threads, which all calls share from then on."""
    return ThreadPoolExecutor(threads, thread_name_prefix="sdgar-topk")


if hasattr(os, "register_at_fork"):  # a process that is forked has none of the threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


class _Blocks:
    """Finds the k best of each row, a block of users at a time.

    Blocks have the same rows for any number of threads, so scores have the same bits.
    """

    def __init__(
        self,
        scorer: Scorer,
        users_T: Indices,
        k: int,
        seen: History | None,
        blocked_I: NDArray[np.bool_] | None,
    ) -> None:
        self._scorer, self._users_T = scorer, users_T
        self._terms = KernelTerms.of(scorer)
        self._rooms = threading.local()
        self._items_TK = np.empty((len(users_T), k), np.int32)
        self._top_TK = np.empty((len(users_T), k), np.float32)
        if seen is None:
            self._starts_T = self._ends_T = np.zeros(len(users_T), np.int64)
            self._seen_E = _NO_ITEMS
        else:
            self._starts_T = seen.indptr_U1[users_T]
            self._ends_T = seen.indptr_U1[users_T + 1]
            self._seen_E = np.ascontiguousarray(seen.items_E)
        self._blocked_I = (
            np.empty(0, np.bool_) if blocked_I is None else np.ascontiguousarray(blocked_I)
        )

    def rank(self, rows: int) -> tuple[NDArray[np.int32], Floats]:
        """Return items and scores, best first, ``rows`` users at a time in every thread."""
        n_users, n_items = len(self._users_T), self._scorer.n_items
        few = n_users * n_items <= _FEW_SCORES and "numba" not in sys.modules
        rank_block = self._rank_scores if few or kernels_of("topk") is None else self._rank_block
        bad: list[tuple[int, int]] = []

        def part(first: int, last: int) -> None:
            row = rank_block(slice(first, last))
            if row >= 0:
                bad.append((first, row))

        with one_blas_thread():
            if n_users <= rows or rank_block == self._rank_scores:
                for first in range(0, n_users, rows):
                    part(first, min(first + rows, n_users))
            else:
                self._share(part, rows)
            if bad:
                first, row = min(bad)
                users_B = self._users_T[first : first + rows]
                raise _not_finite_of(self._scores(users_B)[row], int(users_B[row]))
        return self._items_TK, self._top_TK

    def _share(self, part: Callable[[int, int], None], rows: int) -> None:
        """Let threads take blocks of users."""
        from sdgar.machine.threads import share

        n_users = len(self._users_T)
        share(part, n_users, n_users * self._scorer.n_items, at_once=rows, pool_of=_pool)

    def _rank_block(self, block: slice) -> int:
        """Rank one block by kernels, and return the first row that cannot be ranked, or -1."""
        from sdgar.kernels.numba.topk import finish_rows, select_rows

        left_out = self._starts_T[block], self._ends_T[block], self._seen_E, self._blocked_I
        out = self._items_TK[block], self._top_TK[block]
        if self._terms is None:
            scores_BI = self._scores(self._users_T[block])
            return int(select_rows(scores_BI, *left_out, 0, len(scores_BI), *out))
        users_B, terms = self._users_T[block], self._terms
        room_BI = self._room(len(users_B), len(terms.item_ID))
        np.matmul(terms.user_UD[users_B], terms.item_ID.T, out=room_BI)
        weights = terms.weights_of(users_B)
        return int(finish_rows(room_BI, terms.bias_I, *weights, *left_out, *out))

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
                add_weights(own, terms.weight_II, scores_BI, float(terms.weight))
        odd_B = ~(scores_BI < np.inf).all(axis=1)
        if odd_B.any():
            return int(odd_B.argmax())
        if len(self._blocked_I):
            scores_BI[:, self._blocked_I] = -np.inf
        first = block.start
        for row in range(len(users_B)):
            seen_H = self._seen_E[self._starts_T[first + row] : self._ends_T[first + row]]
            scores_BI[row, seen_H[seen_H < scores_BI.shape[1]]] = -np.inf
            best_K = best_of_row(scores_BI[row], self._items_TK.shape[1])
            self._items_TK[first + row], self._top_TK[first + row] = -1, -np.inf
            self._items_TK[first + row, : len(best_K)] = best_K
            self._top_TK[first + row, : len(best_K)] = scores_BI[row, best_K]
        return -1

    def _room(self, rows: int, columns: int) -> Floats:
        """Return room for scores, which this thread keeps: new memory costs more."""
        kept: Floats | None = getattr(self._rooms, "scores", None)
        if kept is None or kept.size < rows * columns:
            kept = self._rooms.scores = np.empty(rows * columns, np.float32)
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
