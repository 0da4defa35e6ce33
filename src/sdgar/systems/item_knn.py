"""The system item-kNN (Sarwar et al. 2001; Deshpande and Karypis 2004)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from sdgar.arguments import at_least, not_negative
from sdgar.data.interactions import History, Interactions
from sdgar.evaluation.topk import top_k
from sdgar.maths.sparse import SparseMatrix
from sdgar.models.fold_in import ByHistory, Rule
from sdgar.models.item_weights import SparseItemWeights
from sdgar.systems.base import estimator
from sdgar.systems.solver import Solver
from sdgar.systems.spaces import Choice, Space


@estimator
class ItemKNN(Solver):
    """An item is recommended for those of its k most similar items that a user has.

        s_ci = Σ_{j ∈ I_c ∩ N_i} sim(i, j)

    N_i are the k items most similar to i, so that every item has as many voices as any other; the
    k most similar to j would give popular items more. Weights of interactions are not used.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.ItemKNN(neighbours=2).fit(data)
    >>> model.similar_items("a", k=1)["item"].to_list()
    ['b']
    """

    system_name: ClassVar[str] = "item-knn"
    computed_by: ClassVar[str] = "counting"
    searched: ClassVar[Space] = {
        "neighbours": Choice((20, 50, 100, 200, 500)),
        "shrink": Choice((0.0, 10.0, 30.0, 100.0, 300.0)),
    }
    uses_weights: ClassVar[bool] = False

    neighbours: int = 200
    """The number k of most similar items that an item keeps."""
    shrink: float = 30.0
    """The number that is added to the denominator of the cosine, so that rare items are not similar
    by accident."""

    def fold_rule(self, data: Interactions) -> Rule | None:
        """Return the rule by which the history of a new user is multiplied by the weights."""
        return ByHistory()

    def solve(self, data: Interactions, *, device: torch.device) -> SparseItemWeights:
        """Rank all items by similarity for every item, block by block, and keep the best."""
        k = at_least("neighbours", self.neighbours, 1)
        history = SparseMatrix.of(data.indptr_U1, data.items_E, data.n_items, device=device)
        cosine = Cosine(history, history.transposed(), not_negative("shrink", self.shrink))
        all_I = np.arange(data.n_items)
        itself = History(np.arange(data.n_items + 1), all_I.astype(np.int32))
        best = top_k(cosine, all_I, min(k, data.n_items), seen=itself)
        found_IK = best.items_TK >= 0
        speaks_for = SparseMatrix.of(
            np.concatenate(([0], np.cumsum(found_IK.sum(axis=1)))),
            best.items_TK[found_IK],
            data.n_items,
            best.scores_TK[found_IK],
            device=device,
        ).transposed()
        return SparseItemWeights(history, speaks_for)


@dataclass(frozen=True, slots=True)
class Cosine:
    """sim(i, j) = n_ij / (√(n_i n_j) + shrink), with n_ij contexts that have both; -inf if none."""

    items_of: SparseMatrix
    """The items of each context."""
    users_of: SparseMatrix
    """The contexts of each item."""
    shrink: float
    """The number that is added to the denominator."""

    @property
    def n_items(self) -> int:
        """The number of items."""
        return self.items_of.n_columns

    @property
    def device(self) -> torch.device:
        """The device that similarities are computed on."""
        return self.items_of.device

    def score_all(self, users_B: Tensor) -> Tensor:
        """Return sim_BI of some items to all items; here the items asked for stand as users."""
        n_I = self.users_of.length_R.float()
        sim_BI = self.users_of.rows(users_B) @ self.items_of
        sim_BI /= torch.outer(n_I[users_B], n_I).sqrt_().add_(self.shrink)
        return torch.threshold_(sim_BI, 0.0, -torch.inf)
