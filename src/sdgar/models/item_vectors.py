"""Scores by what a context has: sums of the vectors of items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor

from sdgar.models.by_history import HistoryScores, saved_history
from sdgar.models.reasons import Shares, by_weights
from sdgar.models.saved import Saved, array
from sdgar.storage.folders import Tensors

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, slots=True)
class ItemVectors(HistoryScores):
    """s_ui = Σ_{j ∈ I_u} a_j · a_i - [i ∈ I_u], or s = X (A A' - I)."""

    kind: ClassVar[str] = "item vectors"
    size_names: ClassVar[tuple[str, ...]] = ("dim",)

    item_ID: Tensor
    """A: the vectors of items."""

    def score_all(self, users_B: Tensor) -> Tensor:
        """s_BI = X_B A A' - X_B."""
        own = self.history.rows(users_B)
        scores_BI = (own @ self.item_ID) @ self.item_ID.T
        scores_BI[own.row_E, own.column_E] -= 1
        return scores_BI

    def shares(self, context: int, items_B: Tensor, history_H: Tensor) -> Shares | None:
        """Give a_j · a_i - [i = j], the terms of the score, for the items j of the history."""
        weight_BH = self.item_ID[items_B] @ self.item_ID[history_H].T
        return by_weights((weight_BH - 1.0 * (items_B[:, None] == history_H)).double())

    def sizes(self) -> dict[str, int]:
        """Give the sizes of ``size_names``."""
        return {"dim": self.item_ID.shape[1]}

    def to_saved(self) -> Tensors:
        """Give the arrays that a saved model holds; the history is kept in a file of its own."""
        return {"item_ID": array(self.item_ID, np.float32)}

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Make the model again, after checking the names, types, shapes and numbers."""
        found = saved.take({"item_ID": (np.float32, (saved.sizes["items"], saved.sizes["dim"]))})
        return cls(saved_history(saved), torch.from_numpy(found["item_ID"]))
