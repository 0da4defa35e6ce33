"""Exact lists from a large catalogue, faster than by all scores.

Blocks of users meet one tile of items after the other. A tile is skipped if even its longest vector
and its greatest bias are not enough for a list. Rough scores by integers of 8 bits rule out almost
all other items, with a bound on their errors, so nothing is overlooked; no table of scores is ever
made. ``kernels/numba/sweep.py`` has the bounds. Each thread takes other blocks, and a list
depends on its user alone.
"""

from __future__ import annotations

import platform
import threading
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.machine import cores
from sdgar.machine.threads import run_parts
from sdgar.models.model import Floats, Indices
from sdgar.models.scorers import AnyScorer
from sdgar.ranking.blocks import KernelTerms, Spans, Wanted, flags, pool
from sdgar.ranking.topk import TopK, require_rankable, top_k

FROM_ITEMS = 50_000
"""The size of a catalogue from which a table that is kept is worth it, for any number of users."""
_LARGE = 32_768 if platform.machine() in ("aarch64", "arm64") else 250_000
"""The size from which it is worth it to make a table for one query of many users. Processors of Arm
multiply integers of 8 bits several times as fast as other numbers."""
_FROM_USERS = 512
"""The users from which it is worth it to make a table for one query."""
_BLOCK = 256
"""The users that a thread takes at once: their integers stay in the nearest cache."""
_SLACK = np.float32(2e-5)
"""What rounding may add to an error, by the norms of both vectors: more than it ever does."""
_ROUNDING = np.float32(1e-6)
"""What rounding may take away from a bias, for each unit of it: more than it ever does."""
_USUAL = 4_096
"""The users by whose vectors the usual length is estimated, which only speed depends on."""
_AT_ONCE = 1 << 16
"""The most vectors that are turned into integers at once."""


def is_worth_it(n_users: int, n_items: int) -> bool:
    """Return whether a table should be made for one query of so many users."""
    return n_users >= _FROM_USERS and n_items >= _LARGE


def can_be_swept(model: AnyScorer) -> bool:
    """Return whether a sweep can be made: of finite vectors that are not too long."""
    from sdgar.kernels.numba.sweep import WIDTHS

    terms = KernelTerms.of(model)
    if terms is None or terms.item_ID.shape[1] > max(WIDTHS):
        return False
    return bool(np.isfinite(terms.item_ID).all())


def sweep_for(model: AnyScorer, n_users: int) -> Sweep | None:
    """Return the table for one query of so many users; None if all scores are faster."""
    pays = is_worth_it(n_users, model.n_items) and can_be_swept(model)
    return Sweep.of(model) if pays else None


class Sweep:
    """A table of a model's items by which exact lists are found."""

    def __init__(self, terms: KernelTerms) -> None:
        from sdgar.kernels.numba.sweep import TILE, WIDTHS

        self._v_ID, self._bias_I = terms.item_ID, terms.bias_I
        n_items, dim = self._v_ID.shape
        norm_I = _lengths(self._v_ID)
        # Items go by about the highest score that they can have. The first tiles then raise the
        # k-th best score so far, and most of the later tiles are skipped.
        usual = _lengths(terms.user_UD[:_USUAL]).mean(dtype=np.float32)
        with np.errstate(invalid="ignore"):
            order_I = np.argsort(-(usual * norm_I + self._bias_I), kind="stable")
        self._item_P = order_I.astype(np.int32)
        self._bias_P = self._bias_I[self._item_P]
        starts = np.arange(0, n_items, TILE)
        self._longest_G = np.maximum.reduceat(norm_I[self._item_P], starts)
        self._most_G = np.maximum.reduceat(self._bias_P, starts)
        self._q_PD = np.zeros((n_items, next(w for w in WIDTHS if w >= dim)), np.int8)
        self._c_P = np.empty(n_items, np.float32)
        self._rest = self._fill()
        self._longest = norm_I.max(initial=np.float32(0))
        self._off = _ROUNDING * np.abs(self._bias_I).max(initial=np.float32(0))
        self._most_I2 = np.stack([norm_I, self._bias_I], axis=1)
        self._kept = threading.local()
        self._own: tuple[AnyScorer, KernelTerms] | None = None
        """The model that the table was built for, and its terms, which every list needs."""

    @classmethod
    def of(cls, model: AnyScorer) -> Self:
        """Return the table of a model's items."""
        terms = KernelTerms.of(model)
        assert terms is not None
        table = cls(terms)
        table._own = model, terms
        return table

    def _fill(self) -> np.float32:
        """v ≈ c q: fill in the lengths c and the integers q; return the largest |v - c q|."""
        rest, dim = np.float32(0), self._v_ID.shape[1]
        for first in range(0, len(self._c_P), _AT_ONCE):
            rows = slice(first, first + _AT_ONCE)
            v_RD = self._v_ID[self._item_P[rows]]
            self._c_P[rows], self._q_PD[rows, :dim] = c_R, q_RD = quantised(v_RD)
            rest = max(rest, _lengths(v_RD - c_R[:, None] * q_RD).max())
        return np.float32(rest)

    def _terms(self, model: AnyScorer) -> KernelTerms | None:
        """Return the terms of a model, computed once for the table's own model."""
        if self._own is not None and model is self._own[0]:
            return self._own[1]
        return KernelTerms.of(model)

    def serves(self, model: AnyScorer) -> bool:
        """Return whether a model has the items of this table, as one with new users has."""
        terms = self._terms(model)
        return terms is not None and terms.item_ID is self._v_ID

    def top_k(
        self,
        model: AnyScorer,
        users_T: Indices,
        k: int,
        *,
        seen: History | None = None,
        blocked_I: NDArray[np.bool_] | None = None,
    ) -> TopK:
        """Return the k best items of each user, the same as by all scores."""
        terms = self._terms(model)
        users_T = np.ascontiguousarray(users_T, np.int64)
        if terms is not None and len(users_T) and k < model.n_items:
            wanted = Wanted(users_T, k, seen, blocked_I)
            require_rankable(wanted, model.n_items)
            found = self._best(terms, wanted)
            if found is not None:
                return found
        # A ranking of all scores says which of them is not finite.
        return top_k(model, users_T, k, seen=seen, blocked_I=blocked_I)

    def _best(self, terms: KernelTerms, wanted: Wanted) -> TopK | None:
        """Return the lists; None if a score cannot be ranked."""
        from sdgar.kernels.numba.sweep import TILE, in_integers, sweep

        users_T, k, seen, blocked_I = wanted
        (n_items, width), dim, n_users = self._q_PD.shape, self._v_ID.shape[1], len(users_T)
        bounds = self._rest, self._longest, _SLACK
        out_I = flags(blocked_I)
        items_TK = np.empty((n_users, k), np.int32)
        top_TK = np.empty((n_users, k), np.float32)
        bad: list[int] = []

        def part(first: int, last: int) -> None:
            users_B = users_T[first:last]
            n = last - first
            u_BD, p_BD = np.empty((n, dim), np.float32), np.zeros((n, width), np.int8)
            a_B, error_B, edge_B = (np.empty(n, np.float32) for _ in range(3))
            in_integers(users_B, terms.user_UD, *bounds, u_BD, p_BD, a_B, error_B)
            error_B += self._off
            found = sweep(
                0, n, p_BD, u_BD, _lengths(u_BD), a_B, error_B, edge_B,
                self._item_P, self._q_PD, self._c_P, self._bias_P, self._longest_G, self._most_G,
                self._v_ID, self._most_I2, np.empty(TILE, np.int32),
                *self._scratch(terms, n_items), *Spans.of(seen, users_B), out_I,
                *terms.weights_of(users_B), items_TK[first:last], top_TK[first:last],
            )  # fmt: skip
            if found >= 0:
                bad.append(first)

        at_once = min(_BLOCK, -(-n_users // cores.threads()))
        run_parts(part, n_users, n_users * n_items, at_once=at_once, pool_of=pool)
        return None if bad else TopK(items_TK, top_TK)

    def _scratch(self, terms: KernelTerms, n_items: int) -> tuple[Floats, NDArray[np.int32]]:
        """Return an array for item weights of a user, which this thread keeps, and its bits."""
        from sdgar.kernels.numba.sweep import NOT_NAMED

        n = 0 if terms.history is None else n_items
        kept: Floats | None = getattr(self._kept, "scratch", None)
        if kept is None or len(kept) != n:  # another model of these items has no item weights
            kept = self._kept.scratch = np.full(n, NOT_NAMED, np.float32)
        return kept, kept.view(np.int32)


def quantised(v_RD: Floats) -> tuple[Floats, NDArray[np.int8]]:
    """v ≈ c q: return a length c for each row, and integers q from -127 to 127."""
    from sdgar.kernels.numba.sweep import GREATEST

    c_R = (np.abs(v_RD).max(axis=1, initial=0.0) / GREATEST).astype(np.float32)
    c_R[c_R == 0] = 1
    with np.errstate(invalid="ignore"):
        q_RD = np.rint(v_RD / c_R[:, None]).clip(-GREATEST, GREATEST).astype(np.int8)
    return c_R, q_RD


def _lengths(x_RD: Floats) -> Floats:
    """Return |x| of each row."""
    norm_R: Floats = np.sqrt(np.einsum("rd,rd->r", x_RD, x_RD))
    return norm_R
