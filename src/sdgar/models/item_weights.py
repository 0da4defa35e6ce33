"""Scores by what a context has: weights from item to item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.data.interactions import Interactions
from sdgar.maths.neighbours import Neighbourhoods
from sdgar.maths.sparse import SparseMatrix
from sdgar.models.by_history import HistoryScores, saved_history
from sdgar.models.reasons import Shares, by_weights
from sdgar.models.saved import Saved, array, check_csr
from sdgar.storage.folders import DamagedError, Tensors

if TYPE_CHECKING:
    from typing import Self


Matrix = TypeVar("Matrix", Tensor, SparseMatrix)
"""How the weights are held."""


@dataclass(frozen=True, slots=True)
class _ByWeights(HistoryScores, Generic[Matrix]):
    """What dense and sparse weights share."""

    weight_II: Matrix
    """W: row j is what having item j says for every item."""

    def score_all(self, users_B: Tensor) -> Tensor:
        """s_BI = X_B W."""
        return self.history.rows(users_B) @ self.weight_II

    def shares(self, context: int, items_B: Tensor, history_H: Tensor) -> Shares | None:
        """Give w_ji, the terms of the score, for the items j that the context has."""
        if isinstance(self.weight_II, Tensor):
            return by_weights(self.weight_II[history_H][:, items_B].T.double())
        return by_weights(self.weight_II.block(history_H, items_B).T.double())


@dataclass(frozen=True, slots=True)
class ItemWeights(_ByWeights[Tensor]):
    """s_ui = Σ_{j ∈ I_u} w_ji, or s = X W."""

    kind: ClassVar[str] = "item weights"
    size_names: ClassVar[tuple[str, ...]] = ()

    def sizes(self) -> dict[str, int]:
        """Give the sizes of ``size_names``."""
        return {}

    def to_saved(self) -> Tensors:
        """Give the arrays that a saved model holds; the history is kept in a file of its own."""
        return {"weight_II": array(self.weight_II, np.float32)}

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Make the model again, after checking the names, types, shapes and numbers."""
        items = saved.sizes["items"]
        found = saved.take({"weight_II": (np.float32, (items, items))})
        return cls(saved_history(saved), torch.from_numpy(found["weight_II"]))


@dataclass(frozen=True, slots=True)
class LocalItemWeights(_ByWeights[SparseMatrix]):
    """s = X W with few weights of either sign: an item that nothing speaks for has s = 0."""

    kind: ClassVar[str] = "local item weights"
    size_names: ClassVar[tuple[str, ...]] = ("weights",)

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

        def matrix(weight_E: NDArray[np.float32] | None) -> SparseMatrix:
            start_U1, items_E, n_items = data.indptr_U1, data.items_E, data.n_items
            return SparseMatrix.of(start_U1, items_E, n_items, weight_E, device=device)

        history = matrix(None)
        return cls(history, rule.weights(history if weight_E is None else matrix(weight_E)))

    def add_scores(self, users_B: Tensor, scores_BI: Tensor, weight: float) -> None:
        """scores_BI += weight X_B W, in the place of the scores."""
        self.history.rows(users_B).add_product(self.weight_II, scores_BI, weight)

    def sizes(self) -> dict[str, int]:
        """Give the sizes of ``size_names``."""
        return {"weights": len(self.weight_II.column_E)}

    def to_saved(self) -> Tensors:
        """Give W by rows, without its zeros."""
        return {
            "indptr_I1": array(self.weight_II.start_R1, np.int64),
            "items_E": array(self.weight_II.column_E, np.int32),
            "weight_E": array(self.weight_II.weights(), np.float32),
        }

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Make the model again, after checking the names, types, shapes and numbers."""
        return cls(saved_history(saved), _sparse(saved))


@dataclass(frozen=True, slots=True)
class SparseItemWeights(LocalItemWeights):
    """s = X W with few weights, all of them positive.

    An item that nothing in the history of a context speaks for is not recommended: s = -inf.
    """

    kind: ClassVar[str] = "sparse item weights"

    def score_all(self, users_B: Tensor) -> Tensor:
        """s_BI = X_B W, and -inf where that is 0."""
        return torch.threshold_(LocalItemWeights.score_all(self, users_B), 0.0, -torch.inf)

    def score_pairs(self, users_P: Tensor, items_P: Tensor) -> Tensor:
        """s_P of each pair; the sum of nothing is 0."""
        found_P = LocalItemWeights.score_pairs(self, users_P, items_P)
        return found_P.masked_fill(found_P == -torch.inf, 0.0)

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Make the model again, after checking the names, types, shapes and numbers."""
        weight_II = _sparse(saved)
        if (weight_II.weights() <= 0).any():
            raise DamagedError(saved.path, "weight_E holds a weight that is not positive")
        return cls(saved_history(saved), weight_II)


def _sparse(saved: Saved) -> SparseMatrix:
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
    return saved.matrix(indptr_I1, items_E, weight_E)
