"""Models that score by the items a context has: weights from item to item, or item vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.machine.threads import run_parts
from sdgar.maths.rows import Rows
from sdgar.models.contributions import Contributions, by_weights
from sdgar.models.fold_in import ByHistory, FoldInRule, NewContexts
from sdgar.models.model import Floats, Growth, Indices, Model, Side, Terms, VectorTerm, WeightTerm
from sdgar.models.saved import Saved, check_csr
from sdgar.storage.sealed import DamagedError, Tensors

if TYPE_CHECKING:
    import torch

    from sdgar.data.interactions import Interactions
    from sdgar.maths.neighbours import Neighbourhoods

_WORTH_KERNELS = 1 << 20
"""The additions from which on a compiled kernel is faster, even if Numba has to be imported."""


@dataclass(frozen=True, slots=True)
class HistoryScores(Model):
    """s = X W for histories X and weights W from item to item, in whatever form W is stored."""

    holds: ClassVar[str] = "weights from item to item"
    compares_by: ClassVar[str] = "weights"

    history: History
    """X: the items that each context has."""

    @property
    def rule(self) -> FoldInRule | None:
        """The rule that nothing but the history of a new context is needed."""
        return ByHistory()

    def fold_in(self, new: NewContexts) -> Self:
        """Return a model of the same weights for contexts that have other items."""
        return replace(self, history=new.history)

    def updated(self, at_U: Indices, own: NewContexts) -> Self:
        """Return a model of the same weights for these histories."""
        return self.fold_in(own)

    def only(self, at_T: Indices, place_TF: Indices | None = None) -> Self:
        """Return the model with these contexts alone, by their numbers."""
        return replace(self, history=self.history.rows(at_T))

    def with_history(self, history: History) -> Self:
        """Return the model with other histories of its contexts."""
        return replace(self, history=history)

    def similarity(self, side: Side) -> Self | None:
        """s = W: the items for which item j has the largest weights; None for users."""
        if side == "user":
            return None
        n = self.n_items
        return replace(self, history=History(np.arange(n + 1), np.arange(n, dtype=np.int32)))


@dataclass(frozen=True, slots=True)
class ItemVectors(HistoryScores):
    """s_ui = Σ_{j ∈ I_u} a_j · a_i - [i ∈ I_u], or s = X (A A' - I)."""

    kind: ClassVar[str] = "item vectors"
    size_names: ClassVar[tuple[str, ...]] = ("dim",)

    item_ID: Floats
    """A: the vectors of items."""

    @property
    def n_items(self) -> int:
        """The number of items in the catalogue."""
        return len(self.item_ID)

    def score_all(self, users_B: Indices) -> Floats:
        """s_BI = X_B A A' - X_B."""
        own = self.history.rows(users_B)
        scores_BI: Floats = Rows(own.indptr_U1, own.items_E).sums(self.item_ID) @ self.item_ID.T
        scores_BI[own.users_E, own.items_E] -= 1
        return scores_BI

    def contributions(
        self, context: int, items_B: Indices, history_H: Indices
    ) -> Contributions | None:
        """Return a_j · a_i - [i = j], the terms of the score, for the items j of the history."""
        weight_BH = self.item_ID[items_B] @ self.item_ID[history_H].T
        return by_weights(weight_BH - np.float32(1) * (items_B[:, None] == history_H))

    def item_vectors(self) -> NDArray[np.floating] | None:
        """Return the vectors of items; None if they have no coordinates."""
        return self.item_ID if self.item_ID.shape[1] else None

    def terms(self) -> Terms:
        """Return u_c · v_i with u_c = Σ_{j ∈ I_c} a_j; items of the history score 1 less."""
        none_I = np.zeros(self.n_items, np.float32)
        term = VectorTerm(None, self.item_ID, none_I, history=self.history)
        return Terms((term,), exact=False)

    def sizes(self) -> dict[str, int]:
        """Return the sizes of ``size_names``."""
        return {"dim": self.item_ID.shape[1]}

    def to_saved(self) -> Tensors:
        """Return the arrays that a saved model holds; the history has another file."""
        return {"item_ID": np.ascontiguousarray(self.item_ID, np.float32)}

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Return the model of a saved folder, after a check of names, types, shapes and numbers."""
        found = saved.take({"item_ID": (np.float32, (saved.sizes["items"], saved.sizes["dim"]))})
        return cls(saved.history, found["item_ID"])


@dataclass(frozen=True, slots=True)
class ItemWeights(HistoryScores):
    """s_ui = Σ_{j ∈ I_u} w_ji, or s = X W, with a weight for every two items."""

    kind: ClassVar[str] = "item weights"

    weight_II: Floats
    """W: row j is what having item j adds to the score of every item."""

    @property
    def n_items(self) -> int:
        """The number of items in the catalogue."""
        return len(self.weight_II)

    def score_all(self, users_B: Indices) -> Floats:
        """s_BI = X_B W."""
        own = self.history.rows(users_B)
        return Rows(own.indptr_U1, own.items_E).sums(self.weight_II)

    def contributions(
        self, context: int, items_B: Indices, history_H: Indices
    ) -> Contributions | None:
        """Return w_ji, the terms of the score, for the items j that the context has."""
        return by_weights(self.weight_II[history_H][:, items_B].T)

    def terms(self) -> Terms:
        """Return the weights, the only term."""
        return Terms(weights=(WeightTerm(self.history, self.weight_II),))

    def to_saved(self) -> Tensors:
        """Return the arrays that a saved model holds; the history has another file."""
        return {"weight_II": np.ascontiguousarray(self.weight_II, np.float32)}

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Return the model of a saved folder, after a check of names, types, shapes and numbers."""
        items = saved.sizes["items"]
        return cls(
            saved.history, saved.take({"weight_II": (np.float32, (items, items))})["weight_II"]
        )


@dataclass(frozen=True, slots=True)
class LocalItemWeights(HistoryScores):
    """s = X W with a few weights of either sign an item: s = 0 for an item without any."""

    kind: ClassVar[str] = "local item weights"
    size_names: ClassVar[tuple[str, ...]] = ("weights",)

    weight_II: Rows
    """W: row j has what having item j adds to the scores of some items."""

    @classmethod
    def solved(
        cls,
        data: Interactions,
        rule: Neighbourhoods,
        weight_E: NDArray[np.float32] | None = None,
        *,
        device: torch.device,
    ) -> Self:
        """Solve for the weights by a rule; ``weight_E`` says how much each row counts for them."""
        rows = Rows(data.indptr_U1, data.items_E, *(() if weight_E is None else (weight_E,)))
        return cls(data.history, rule.weights(rows, data.n_items, device))

    @property
    def n_items(self) -> int:
        """The number of items in the catalogue."""
        return self.weight_II.n_rows

    @property
    def grows(self) -> bool:
        """Whether new items can be added: their weights are solved from the histories."""
        return type(self) is LocalItemWeights

    def score_all(self, users_B: Indices) -> Floats:
        """s_BI = X_B W."""
        scores_BI = np.zeros((len(users_B), self.n_items), np.float32)
        self.add_scores(users_B, scores_BI, 1.0)
        return scores_BI

    def add_scores(self, users_B: Indices, scores_BI: Floats, weight: float) -> None:
        """scores_BI += weight X_B W, in place."""
        own = self.history.rows(users_B)
        add_weights(Rows(own.indptr_U1, own.items_E), self.weight_II, scores_BI, weight)

    def contributions(
        self, context: int, items_B: Indices, history_H: Indices
    ) -> Contributions | None:
        """Return w_ji, the terms of the score, for the items j that the context has."""
        weight_HB = weights_between(self.weight_II, history_H, items_B)
        return by_weights(weight_HB.T)

    def with_items(self, growth: Growth) -> Self:
        """Return the model with places for more items, which have no weights yet."""
        w = self.weight_II
        length_J = np.zeros(growth.n_items, np.int64)
        length_J[growth.place_I] = np.diff(w.start_R1)
        start_J1 = np.concatenate(([0], np.cumsum(length_J)))
        column_E = growth.place_I[w.column_E].astype(np.int32)
        return replace(
            self, history=growth.history, weight_II=Rows(start_J1, column_E, w.weights())
        )

    def with_new_weights(self, rule: Neighbourhoods, new_N: Indices) -> Self:
        """Return the model with weights of new items, solved from the histories that it has."""
        rows = Rows(self.history.indptr_U1, self.history.items_E)
        weight_II = rule.weights_with(rows, self.weight_II, new_N)
        return replace(self, weight_II=weight_II)

    def terms(self) -> Terms:
        """Return the weights, the only term."""
        return Terms(weights=(WeightTerm(self.history, self.weight_II),))

    def sizes(self) -> dict[str, int]:
        """Return the sizes of ``size_names``."""
        return {"weights": len(self.weight_II.column_E)}

    def to_saved(self) -> Tensors:
        """Return W by rows, without its zeros."""
        return {
            "indptr_I1": np.ascontiguousarray(self.weight_II.start_R1, np.int64),
            "items_E": np.ascontiguousarray(self.weight_II.column_E, np.int32),
            "weight_E": np.ascontiguousarray(self.weight_II.weights(), np.float32),
        }

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Return the model of a saved folder, after a check of names, types, shapes and numbers."""
        items, weights = saved.sizes["items"], saved.sizes["weights"]
        found = saved.take(
            {
                "indptr_I1": (np.int64, (items + 1,)),
                "items_E": (np.int32, (weights,)),
                "weight_E": (np.float32, (weights,)),
            }
        )
        indptr_I1, items_E, weight_E = found.values()
        check_csr(saved.path, "indptr_I1", indptr_I1, items_E, items)
        return cls(saved.history, Rows(indptr_I1, items_E, weight_E))


@dataclass(frozen=True, slots=True)
class SparseItemWeights(LocalItemWeights):
    """s = X W with few weights, all of them positive.

    An item without a weight from any item of the history is not recommended: s = -inf.
    """

    kind: ClassVar[str] = "sparse item weights"

    def score_all(self, users_B: Indices) -> Floats:
        """s_BI = X_B W, and -inf where that is 0."""
        scores_BI = LocalItemWeights.score_all(self, users_B)
        scores_BI[~(scores_BI > 0)] = -np.inf
        return scores_BI

    def score_pairs(self, users_P: Indices, items_P: Indices) -> Floats:
        """s_P of each pair; the sum of nothing is 0."""
        found_P = LocalItemWeights.score_pairs(self, users_P, items_P)
        found_P[found_P == -np.inf] = 0
        return found_P

    def terms(self) -> Terms:
        """Return the weights, the only term; an item with the sum 0 is not recommended."""
        return replace(LocalItemWeights.terms(self), exact=False, only_supported=True)

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Return the model of a saved folder, after a check of names, types, shapes and numbers."""
        weights = LocalItemWeights.from_saved(saved)
        if (weights.weight_II.weights() <= 0).any():
            raise DamagedError(saved.path, "weight_E holds a weight that is not positive")
        return cls(weights.history, weights.weight_II)


def weights_between(weight_II: Rows, items_H: Indices, items_B: Indices) -> Floats:
    """Return w_hb from each of some items to each of others, as a matrix."""
    some = weight_II.rows(items_H)
    weight_HB = np.zeros((len(items_H), len(items_B)), np.float32)
    if len(items_B):
        order_B = np.argsort(items_B, kind="stable")
        sorted_B = items_B[order_B]
        at_E = np.searchsorted(sorted_B, some.column_E).clip(max=len(items_B) - 1)
        there_E = sorted_B[at_E] == some.column_E
        row_E = np.repeat(np.arange(len(items_H)), np.diff(some.start_R1))
        weight_HB[row_E[there_E], order_B[at_E[there_E]]] = some.weights()[there_E]
    return weight_HB


def add_weights(own: Rows, weight_II: Rows, scores_BI: Floats, scale: float) -> None:
    """s_ci += scale Σ_j x_cj w_ji, added in the order of the rows' entries and of their weights."""
    start_I1 = weight_II.start_R1
    first_E, last_E = start_I1[own.column_E], start_I1[own.column_E + 1]
    length_E = last_E - first_E
    terms = int(length_E.sum())
    if terms >= _WORTH_KERNELS:
        from sdgar.kernels.numba.sparse import add_product

        run_parts(
            add_product, own.n_rows, terms, own.start_R1, own.column_E, own.weights(), start_I1,
            weight_II.column_E, weight_II.weights(), np.float32(scale), scores_BI,
        )  # fmt: skip
        return
    before_E = np.cumsum(length_E) - length_E
    place_N = np.arange(terms) + np.repeat(first_E - before_E, length_E)
    row_E = np.repeat(np.arange(own.n_rows), np.diff(own.start_R1))
    index_N = np.repeat(row_E, length_E) * scores_BI.shape[1] + weight_II.column_E[place_N]
    x_N = np.repeat(np.float32(scale) * own.weights(), length_E)
    np.add.at(scores_BI.reshape(-1), index_N, x_N * weight_II.weights()[place_N])
