"""An approximate index of a large catalogue, whose finds are scored exactly.

A score is made of vectors and, in a model with a memory, of weights from item to item:

    s_ci = u_c · v_i + b_i + γ Σ_{j ∈ I_c} w_ji

The index finds items with the largest u · v + b without looking at all of them. The candidates of a
context are these, and the items that the weights of its history name: any other item has no more
than its vector for a score. Candidates get the scores of the whole model, so a list can only
lack an item that the index overlooks. How many it lacks is measured as the index is built, on the
lists of users of the model, and is kept as its ``recall``.
"""

from __future__ import annotations

import threading
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.machine import cores
from sdgar.models.model import Model
from sdgar.models.scorers import AnyScorer
from sdgar.ranking.blocks import KernelTerms, Spans, Wanted, flags, not_finite
from sdgar.ranking.topk import TopK, require_rankable, top_k

FROM_ITEMS = 300_000
"""The size of a catalogue from which an index is worth it; docs/benchmarks.md measures that."""
WANTED_RECALL = 0.98
"""The share of exact lists that searches should find: they look into more lists until they do."""
LEAST_RECALL = 0.9
"""The share below which an index is of no use."""
_COMPARED, _LENGTH = 512, 50
"""How many users' lists are compared with the exact ones, and how long these are."""
_FIRST_LISTS = 8
"""How many lists of the inverted file a search looks into at least."""
_MORE = 16
"""How many more items a search returns at least than are requested, as its order is rough."""
_MOST_HITS = 4096
"""The most items that a search gives: who has seen more is ranked exactly."""
_FEW = 1 << 14
"""Where no more items than these are allowed, all of them are scored."""

_ITEMS_A_CENTRE = 64
"""How many items for each centre the centres are found from."""
_ROUNDS = 10
"""How often the centres are moved."""
_EIGHT = 8
"""The numbers that faiss compares at once."""


def can_be_indexed(model: AnyScorer) -> bool:
    """Return whether an index can be made: of float32 vectors, where faiss is installed."""
    return KernelTerms.of(model) is not None and find_spec("faiss") is not None


class ItemIndex:
    """Finds the best items of a large catalogue without looking at all of them.

    The vectors and biases of items are in lists by their nearest centres. Inner products become
    distances on a sphere by one more number for each item (Bachrach et al. 2014):

        x_i = (v_i, b_i, √(m² - |v_i|² - b_i²)) / m,   q_c = (u_c, 1, 0),
        m x_i · q_c = u_c · v_i + b_i,   with m² the largest |v_i|² + b_i²

    The numbers of x are kept in 16 bits each, so that the lists take half of the RAM of the
    vectors, and the order of what a search returns is rough. Several threads may search at once.
    """

    def __init__(self, terms: KernelTerms) -> None:
        import faiss

        self._faiss: Any = faiss
        self._item_ID, n_items = terms.item_ID, len(terms.item_ID)
        self.n_lists = max(1, min(1 << round(np.log2(2 * np.sqrt(n_items))), n_items // 4))
        """How many lists of items there are."""
        self.looked_into = min(_FIRST_LISTS, max(1, self.n_lists // 4))
        """How many lists a search looks into."""
        self.recall = 0.0
        """The share of exact lists of 50 items that searches found as the index was built."""
        self._kept = threading.local()
        x_IE = _on_sphere(terms.item_ID, terms.bias_I)
        self._wide = x_IE.shape[1]
        self._centres = faiss.IndexFlatIP(self._wide)
        self._lists = faiss.IndexIVFScalarQuantizer(
            self._centres, self._wide, self.n_lists, faiss.ScalarQuantizer.QT_fp16,
            faiss.METRIC_INNER_PRODUCT,
        )  # fmt: skip
        faiss.omp_set_num_threads(cores.threads())
        how = self._lists.cp
        how.seed, how.niter, how.spherical = 0, _ROUNDS, True
        how.max_points_per_centroid, how.min_points_per_centroid = _ITEMS_A_CENTRE, 1
        self._lists.train(x_IE)
        self._lists.add(x_IE)

    @classmethod
    def of(cls, model: Model, known: History) -> ItemIndex:
        """Build the index of a model's items; ``known`` are the items that each user has.

        Searches look into as many lists as it takes to find the share ``WANTED_RECALL`` of what
        exact lists hold, and at most into a quarter of them.
        """
        terms = KernelTerms.of(model)
        assert terms is not None
        index = cls(terms)
        index._settle(model, known)
        return index

    def _settle(self, model: Model, known: History) -> None:
        """Look into more lists until enough is found for some users, and measure it for others."""
        some_T = np.flatnonzero(np.diff(known.indptr_U1))
        if not len(some_T):
            return
        some_T = some_T[np.unique(np.linspace(0, len(some_T) - 1, _COMPARED).astype(np.int64))]
        settled_T, others_T = (some_T[::2], some_T[1::2]) if len(some_T) > 1 else (some_T, some_T)
        exact = top_k(model, settled_T, _LENGTH, seen=known)
        most = max(1, self.n_lists // 4)
        while self.looked_into < most:
            found = self.top_k(model, settled_T, _LENGTH, seen=known)
            if recall(found.items_TK, exact.items_TK) >= WANTED_RECALL:
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

        Exact are the lists of users who have seen thousands of items, lists that would not be full,
        and all lists where few items are allowed. The model must be one that this index serves.
        """
        users_T = np.ascontiguousarray(users_T, np.int64)
        require_rankable(Wanted(users_T, k, seen, blocked_I), model.n_items)
        allowed_N = None
        if blocked_I is not None and len(blocked_I) - np.count_nonzero(blocked_I) <= _FEW:
            allowed_N = np.flatnonzero(~blocked_I)
        left_out = Spans.of(seen, users_T)
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
                hits_BN = self._search(u_BD, hits, blocked_I)
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

    def _search(
        self, u_BD: NDArray[np.float32], n: int, blocked_I: NDArray[np.bool_] | None
    ) -> NDArray[np.int64]:
        """Return about the n items with the largest u · v + b for each u, in no exact order.

        No blocked item is found. There is -1 behind the last item that is found.
        """
        q_BE = np.zeros((len(u_BD), self._wide), np.float32)
        q_BE[:, : u_BD.shape[1]] = u_BD
        q_BE[:, u_BD.shape[1]] = 1.0
        options: dict[str, Any] = {"nprobe": self.looked_into}
        if blocked_I is not None:
            allowed = np.packbits(~blocked_I, bitorder="little")
            options["sel"] = self._faiss.IDSelectorBitmap(allowed)
        self._faiss.omp_set_num_threads(cores.threads())  # a setting of each thread
        how = self._faiss.SearchParametersIVF(**options)
        found_BN: NDArray[np.int64] = self._lists.search(q_BE, n, params=how)[1]
        return found_BN

    def _best(
        self,
        terms: KernelTerms,
        users_B: NDArray[np.int64],
        u_BD: NDArray[np.float32],
        hits_BN: NDArray[np.int64],
        k: int,
        left_out: Spans,
        blocked_I: NDArray[np.bool_] | None,
    ) -> tuple[TopK, int]:
        """Score the candidates and keep the k best; say which row is not finite, or -1."""
        from sdgar.kernels.numba.topk import select_candidates

        found = TopK(np.empty((len(u_BD), k), np.int32), np.empty((len(u_BD), k), np.float32))
        bad = select_candidates(
            u_BD, terms.item_ID, terms.bias_I, *terms.weights_of(users_B),
            hits_BN, *left_out, flags(blocked_I),
            *self._scratch(len(terms.item_ID)), found.items_TK, found.scores_TK,
        )  # fmt: skip
        return found, int(bad)

    def _scratch(self, n_items: int) -> tuple[NDArray[Any], ...]:
        """Return arrays for three numbers an item, which each thread has once."""
        if not hasattr(self._kept, "arrays"):
            types = np.uint8, np.float32, np.int32
            self._kept.arrays = tuple(np.zeros(n_items, one) for one in types)
        arrays: tuple[NDArray[Any], ...] = self._kept.arrays
        return arrays


def recall(found_TK: NDArray[np.int32], exact_TK: NDArray[np.int32]) -> float:
    """Return the share of the items of exact lists that are in the lists that were found."""
    pairs = zip(found_TK, exact_TK, strict=True)
    hits = sum(np.isin(exact_K[exact_K >= 0], found_K).sum() for found_K, exact_K in pairs)
    return float(hits / max(1, (exact_TK >= 0).sum()))


def _on_sphere(item_ID: NDArray[np.float32], bias_I: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return x_i, all of length 1, with zeros up to a width that suits faiss."""
    n_items, dim = item_ID.shape
    square_I = np.einsum("id,id->i", item_ID, item_ID) + bias_I**2
    if not np.isfinite(square_I).all():
        at = int(np.flatnonzero(~np.isfinite(square_I))[0])
        raise not_finite(
            f"the vector or the bias of item index {at} is not finite, so nothing can be searched"
        )
    x_IE = np.zeros((n_items, -(-(dim + 2) // _EIGHT) * _EIGHT), np.float32)
    x_IE[:, :dim] = item_ID
    x_IE[:, dim] = bias_I
    longest = square_I.max()
    x_IE[:, dim + 1] = np.sqrt(np.maximum(longest - square_I, 0.0))
    x_IE /= np.sqrt(longest) or 1.0
    return x_IE
