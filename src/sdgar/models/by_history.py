"""What all models share that score by the items that a context has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from sdgar.maths.sparse import SparseMatrix
from sdgar.models.fold_in import ByHistory, NewContexts, Rule
from sdgar.models.model import Side
from sdgar.models.pairs import picked
from sdgar.models.reasons import Shares
from sdgar.models.saved import Saved

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, slots=True)
class HistoryScores:
    """s = X W for histories X and weights W from item to item, however W is held."""

    holds: ClassVar[str] = "weights from item to item"

    history: SparseMatrix
    """X: the items that each context has."""

    @property
    def rule(self) -> Rule | None:
        """How new contexts are folded in: their history is all that it takes."""
        return ByHistory()

    @property
    def n_values(self) -> int | None:
        """Number of values of all fields of contexts; None, as contexts are no sums of fields."""
        return None

    @property
    def n_items(self) -> int:
        """Number of items in the catalogue."""
        return self.history.n_columns

    @property
    def device(self) -> torch.device:
        """Where the model lives."""
        return self.history.device

    def score_all(self, users_B: Tensor) -> Tensor:
        """s_BI = X_B W."""
        raise NotImplementedError

    def score_pairs(self, users_P: Tensor, items_P: Tensor) -> Tensor:
        """s_P of each pair."""
        return picked(self, users_P, items_P)

    def shares(self, context: int, items_B: Tensor, history_H: Tensor) -> Shares | None:
        """Give the weights, which are the terms of the score, for the items that a context has."""
        raise NotImplementedError

    def ruled_by(self, rule: Rule | None) -> Self:
        """Give the same model: the history of a new context is all that it needs."""
        return self

    def fold_in(self, new: NewContexts) -> Self:
        """Give a model of the same weights for contexts that have other items."""
        return replace(self, history=new.matrix(self.n_items, self.device))

    def updated(self, at_U: Tensor, own: NewContexts) -> Self:
        """Give a model of the same weights for these histories."""
        return self.fold_in(own)

    def only(self, at_T: Tensor, place_TF: Tensor | None = None) -> Self:
        """Give the model with these contexts alone, by their numbers."""
        return replace(self, history=self.history.rows(at_T.to(self.device)))

    def alike(self, side: Side) -> Self | None:
        """s = W: item j is like those that it speaks for; None for users, who have no weights."""
        if side == "user":
            return None
        each_I1 = torch.arange(self.n_items + 1, device=self.device)
        return replace(self, history=SparseMatrix(each_I1, each_I1[:-1], self.n_items))

    def facts(self) -> dict[str, Any]:
        """Say nothing: tensors and sizes are all it takes to make the model again."""
        return {}


def saved_history(saved: Saved) -> SparseMatrix:
    """Give X as a saved model has it, on the CPU."""
    return saved.matrix(saved.history.indptr_U1, saved.history.items_E)
