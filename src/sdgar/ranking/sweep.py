"""Exact lists for many contexts of a large catalogue, faster than by all of their scores.

Blocks of contexts meet one tile of items after the other. Where even the longest vector and the
greatest bias of a tile are not enough for a list, the tile is passed over. Rough scores by small
integers rule out almost all other items, with a bound on their errors, so nothing is overlooked;
no table of scores is ever made. ``kernels/numba/sweep.py`` has the bounds. Each thread takes blocks
of its own, and a list depends on its context alone.
"""

from __future__ import annotations

import platform
import threading

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.models.model import AnyScorer
from sdgar.ranking.finder import ItemTable
from sdgar.ranking.sieve import SLACK, Integers, can_be_sieved
from sdgar.ranking.topk import KernelTerms, TopK, top_k

_FROM_ITEMS = 32_768 if platform.machine() in ("aarch64", "arm64") else 250_000
"""The size of a catalogue from which this is the faster way. Processors of Arm multiply integers of
8 bits several times as fast as other numbers."""
_FROM_USERS = 512
"""The contexts from which it is worth it to make a table of all items."""
_BLOCK = 256
"""The contexts that a thread takes at once: their integers stay in the nearest cache."""
_ROUNDING = np.float32(1e-6)
"""What rounding may take away from a bias, for each unit of it: more than it ever does."""
_USUAL = 4_096
"""The contexts whose vectors say how long those of all are, where only speed depends on it."""
_NO_ITEMS, _NO_FLAGS = np.zeros(0, np.int32), np.zeros(0, bool)


def is_worth_it(n_users: int, n_items: int) -> bool:
    """Return whether lists of so many users are found faster by a sweep."""
    return n_users >= _FROM_USERS and n_items >= _FROM_ITEMS


def can_be_swept(model: AnyScorer) -> bool:
    """Return whether a sweep can be made: of finite vectors that are not too long."""
    if not can_be_sieved(model):
        return False
    from sdgar.kernels.numba.sweep import WIDTHS

    terms = KernelTerms.of(model)
    return terms is not None and terms.item_ID.shape[1] <= max(WIDTHS)


def best_of_many(
    model: AnyScorer,
    users_T: NDArray[np.int64],
    k: int,
    *,
    seen: History | None = None,
    blocked_I: NDArray[np.bool_] | None = None,
) -> TopK:
    """Return the k best items of each context, by a sweep or by all scores: the faster of both."""
    if is_worth_it(len(users_T), model.n_items) and can_be_swept(model):
        return Sweep.of(model).top_k(model, users_T, k, seen=seen, blocked_I=blocked_I)
    return top_k(model, users_T, k, seen=seen, blocked_I=blocked_I)


class Sweep(ItemTable):
    """Finds the best items of many contexts, the same as by looking at all scores."""

    def __init__(self, terms: KernelTerms) -> None:
        from sdgar.kernels.numba.sweep import TILE, WIDTHS

        super().__init__(terms)
        n_items, dim = self._v_ID.shape
        norm_I = _lengths(self._v_ID)
        # About how much a vector adds to a score at most, whose context is not known yet.
        usual = _lengths(terms.user_UD[:_USUAL]).mean(dtype=np.float32)
        with np.errstate(invalid="ignore"):
            order_I = np.argsort(-(usual * norm_I + self._bias_I), kind="stable")
        self._item_P = order_I.astype(np.int32)
        self._bias_P = self._bias_I[self._item_P]
        starts = np.arange(0, n_items, TILE)
        self._longest_G = np.maximum.reduceat(norm_I[self._item_P], starts)
        self._most_G = np.maximum.reduceat(self._bias_P, starts)
        width = next(width for width in WIDTHS if width >= dim)
        self._table = Integers.of(self._v_ID, width, self._item_P)
        self._off = _ROUNDING * np.abs(self._bias_I).max(initial=np.float32(0))
        self._most_I2 = np.stack([norm_I, self._bias_I], axis=1)
        self._rooms = threading.local()

    def _best(
        self,
        terms: KernelTerms,
        users_T: NDArray[np.int64],
        k: int,
        seen: History | None,
        blocked_I: NDArray[np.bool_] | None,
    ) -> TopK | None:
        from sdgar.kernels.numba.sieve import in_integers
        from sdgar.kernels.numba.sweep import TILE, sweep
        from sdgar.machine.threads import share

        (n_items, width), dim = self._table.q_ID.shape, self._v_ID.shape[1]
        c_P, q_PD, rest, longest = self._table
        user_UD = terms.user_UD
        seen_E = _NO_ITEMS if seen is None else np.ascontiguousarray(seen.items_E)
        out_I = _NO_FLAGS if blocked_I is None else np.ascontiguousarray(blocked_I)
        items_TK = np.empty((len(users_T), k), np.int32)
        top_TK = np.empty((len(users_T), k), np.float32)
        bad: list[int] = []

        def part(first: int, last: int) -> None:
            users_B = users_T[first:last]
            n = len(users_B)
            u_BD, p_BD = np.empty((n, dim), np.float32), np.zeros((n, width), np.int8)
            a_B, error_B, edge_B = (np.empty(n, np.float32) for _ in range(3))
            in_integers(users_B, user_UD, rest, longest, SLACK, u_BD, p_BD, a_B, error_B)
            error_B += self._off
            starts_B = ends_B = np.zeros(n, np.int64)
            if seen is not None:
                starts_B, ends_B = seen.indptr_U1[users_B], seen.indptr_U1[users_B + 1]
            found = sweep(
                0, n, p_BD, u_BD, _lengths(u_BD), a_B, error_B, edge_B,
                self._item_P, q_PD, c_P, self._bias_P, self._longest_G, self._most_G,
                self._v_ID, self._most_I2,
                np.empty(TILE, np.int32), *self._room(terms, n_items), starts_B, ends_B, seen_E,
                out_I, *terms.weights_of(users_B), items_TK[first:last], top_TK[first:last],
            )  # fmt: skip
            if found >= 0:
                bad.append(first)

        share(part, len(users_T), len(users_T) * n_items, at_once=_BLOCK)
        return None if bad else TopK(items_TK, top_TK)

    def _room(
        self, terms: KernelTerms, n_items: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Return an array for item weights of a context, which this thread keeps, and its bits."""
        from sdgar.kernels.numba.sweep import NOT_NAMED

        n = 0 if terms.history is None else n_items
        kept: NDArray[np.float32] | None = getattr(self._rooms, "room", None)
        if kept is None or len(kept) != n:  # another model of these items has no item weights
            kept = self._rooms.room = np.full(n, NOT_NAMED, np.float32)
        return kept, kept.view(np.int32)


def _lengths(x_RD: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return |x| of each row."""
    norm_R: NDArray[np.float32] = np.sqrt(np.einsum("rd,rd->r", x_RD, x_RD))
    return norm_R
