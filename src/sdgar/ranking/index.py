"""An approximate index of a large catalogue, whose finds are scored exactly.

A score is made of vectors and, in a model with a memory, of weights from item to item:

    s_ci = u_c · v_i + b_i + γ Σ_{j ∈ I_c} w_ji

The index finds items with the largest u · v + b without looking at all of them. The candidates of a
context are these, and the items that the weights of its history name: any other item has no more
than its vector to speak for it. Candidates get the scores of the whole model, so a list can only
lack an item that the index overlooks. How many it lacks is measured as the index is built, on the
lists of users that the model knows, and is kept as its ``recall``.
"""

from __future__ import annotations

import threading
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.errors import UsageError
from sdgar.models.model import AnyScorer, Model
from sdgar.ranking.inverted_file import InvertedFile
from sdgar.ranking.topk import KernelTerms, TopK, require_rankable, top_k

FROM_ITEMS = 300_000
"""The size of a catalogue from which an index is worth it; docs/benchmarks.md measures that."""
WANTED_RECALL = 0.98
"""The share of exact lists that searches should find: they look into more lists until they do."""
LEAST_RECALL = 0.9
"""The share below which an index is of no use."""
_JUDGED, _LENGTH = 512, 50
"""How many users' lists are compared with the exact ones, and how long these are."""
_FIRST_LOOK = 8
"""How many lists of the inverted file a search looks into at least."""
_MORE = 16
"""How many items a search gives at least beside those that are wanted, as its order is rough."""
_MOST_HITS = 4096
"""The most items that a search gives: who has seen more is ranked exactly."""
_FEW = 1 << 14
"""Where no more items than these are allowed, all of them are scored."""


def can_be_indexed(model: AnyScorer) -> bool:
    """Return whether an index can be made: of float32 vectors, where faiss is installed."""
    return KernelTerms.of(model) is not None and find_spec("faiss") is not None


class ItemIndex:
    """Finds the best items of a large catalogue without looking at all of them."""

    def __init__(self, terms: KernelTerms, *, seed: int = 0) -> None:
        self._item_ID = terms.item_ID
        self._file = InvertedFile(terms.item_ID, terms.bias_I, seed=seed)
        self._room = threading.local()
        self.looked_into = min(_FIRST_LOOK, max(1, self._file.n_lists // 4))
        """How many lists of the inverted file a search looks into."""
        self.n_lists = self._file.n_lists
        """How many lists the inverted file has."""
        self.recall = 0.0
        """The share of exact lists of 50 items that searches found as the index was built."""

    @classmethod
    def of(
        cls, model: Model, known: History, *, wanted: float = WANTED_RECALL, seed: int = 0
    ) -> ItemIndex:
        """Build the index of a model's items; ``known`` are the items that each user has.

        Searches look into as many lists as it takes to find the share ``wanted`` of what exact
        lists hold, and at most into a quarter of them.
        """
        terms = KernelTerms.of(model)
        if terms is None:
            raise UsageError(
                f"an index is of float32 vectors, and this model holds {model.holds}. "
                "Rank it exactly.",
                code="no_vectors",
            )
        index = cls(terms, seed=seed)
        index._settle(model, known, wanted)
        return index

    def _settle(self, model: Model, known: History, wanted: float) -> None:
        """Look into more lists until enough is found for some users, and measure it for others."""
        some_T = np.flatnonzero(np.diff(known.indptr_U1))
        if not len(some_T):
            return
        some_T = some_T[np.unique(np.linspace(0, len(some_T) - 1, _JUDGED).astype(np.int64))]
        settled_T, others_T = (some_T[::2], some_T[1::2]) if len(some_T) > 1 else (some_T, some_T)
        exact = top_k(model, settled_T, _LENGTH, seen=known)
        most = max(1, self._file.n_lists // 4)
        while self.looked_into < most:
            found = self.top_k(model, settled_T, _LENGTH, seen=known)
            if recall(found.items_TK, exact.items_TK) >= wanted:
                break
            self.looked_into = min(self.looked_into * 3 // 2, most)
        exact = top_k(model, others_T, _LENGTH, seen=known)
        found = self.top_k(model, others_T, _LENGTH, seen=known)
        self.recall = recall(found.items_TK, exact.items_TK)

    def serves(self, model: AnyScorer) -> bool:
        """Return whether a model has the items of this index, as one with new users has."""
        terms = KernelTerms.of(model)
        return terms is not None and terms.item_ID is self._item_ID

    def top_k(
        self,
        model: AnyScorer,
        users_T: NDArray[np.int64],
        k: int,
        *,
        seen: History | None = None,
        blocked_I: NDArray[np.bool_] | None = None,
    ) -> TopK:
        """Return what ``sdgar.ranking.topk.top_k`` gives, but for items that are overlooked.

        Exact are the lists of users who have seen thousands of items, those that would not be full,
        and all lists where few items are allowed. The model must be one that this index serves.
        """
        users_T = np.ascontiguousarray(users_T, np.int64)
        require_rankable(users_T, k, model.n_items, seen, blocked_I)
        allowed_N = None
        if blocked_I is not None and len(blocked_I) - np.count_nonzero(blocked_I) <= _FEW:
            allowed_N = np.flatnonzero(~blocked_I)
        left_out = _Spans.of(seen, users_T)
        hits_T = left_out.last_B - left_out.first_B + k + max(k // 2, _MORE)
        whole_T = hits_T > _MOST_HITS if allowed_N is None else np.zeros(len(users_T), bool)
        items_TK = np.full((len(users_T), k), -1, np.int32)
        scores_TK = np.full((len(users_T), k), -np.inf, np.float32)
        if (at_B := np.flatnonzero(~whole_T)).size:
            terms = KernelTerms.of(model)
            assert terms is not None
            u_BD = terms.user_UD[users_T[at_B]]
            if allowed_N is None:
                hits = int(hits_T[at_B].max())
                hits_BN = self._file.search(u_BD, hits, self.looked_into, blocked_I)
            else:
                hits_BN = np.tile(allowed_N, (len(at_B), 1))
            found, bad = self._best(
                terms, users_T[at_B], u_BD, hits_BN, k, left_out.rows(at_B), blocked_I
            )
            items_TK[at_B], scores_TK[at_B] = found.items_TK, found.scores_TK
            if bad >= 0:  # an exact ranking says which score is not finite
                whole_T[at_B[bad]] = True
        if allowed_N is None:
            whole_T |= items_TK[:, -1] < 0
        if whole_T.any():
            exact = top_k(model, users_T[whole_T], k, seen=seen, blocked_I=blocked_I)
            items_TK[whole_T], scores_TK[whole_T] = exact.items_TK, exact.scores_TK
        return TopK(items_TK, scores_TK)

    def _best(
        self,
        terms: KernelTerms,
        users_B: NDArray[np.int64],
        u_BD: NDArray[np.float32],
        hits_BN: NDArray[np.int64],
        k: int,
        left_out: _Spans,
        blocked_I: NDArray[np.bool_] | None,
    ) -> tuple[TopK, int]:
        """Score the candidates and keep the k best; say which row is not finite, or -1."""
        from sdgar.kernels.numba.topk import select_candidates

        found = TopK(np.empty((len(u_BD), k), np.int32), np.empty((len(u_BD), k), np.float32))
        bad = select_candidates(
            u_BD, terms.item_ID, terms.bias_I, *terms.weights_of(users_B),
            hits_BN, *left_out, np.zeros(0, np.bool_) if blocked_I is None else blocked_I,
            *self._own_room(len(terms.item_ID)), found.items_TK, found.scores_TK,
        )  # fmt: skip
        return found, int(bad)

    def _own_room(self, n_items: int) -> tuple[NDArray[Any], ...]:
        """Return room for three numbers an item, which each thread has once."""
        if not hasattr(self._room, "arrays"):
            types = np.uint8, np.float32, np.int32
            self._room.arrays = tuple(np.zeros(n_items, one) for one in types)
        arrays: tuple[NDArray[Any], ...] = self._room.arrays
        return arrays


class _Spans(NamedTuple):
    """The items of some users: ``item_E[first_B[b] : last_B[b]]`` are those of user b."""

    first_B: NDArray[np.int64]
    last_B: NDArray[np.int64]
    item_E: NDArray[np.int32]

    @classmethod
    def of(cls, seen: History | None, users_B: NDArray[np.int64]) -> _Spans:
        """Return the items that each user has seen."""
        if seen is None:
            none_B = np.zeros(len(users_B), np.int64)
            return cls(none_B, none_B, np.zeros(0, np.int32))
        first_B, last_B = seen.indptr_U1[users_B], seen.indptr_U1[users_B + 1]
        return cls(first_B, last_B, np.ascontiguousarray(seen.items_E))

    def rows(self, at_B: NDArray[np.int64]) -> _Spans:
        """Return the items of some of these users."""
        return self._replace(first_B=self.first_B[at_B], last_B=self.last_B[at_B])


def recall(found_TK: NDArray[np.int32], exact_TK: NDArray[np.int32]) -> float:
    """Return the share of the items of exact lists that are in the lists that were found."""
    pairs = zip(found_TK, exact_TK, strict=True)
    hits = sum(np.isin(exact_K[exact_K >= 0], found_K).sum() for found_K, exact_K in pairs)
    return float(hits / max(1, (exact_TK >= 0).sum()))
