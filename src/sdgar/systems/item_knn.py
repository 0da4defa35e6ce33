"""The system item-kNN (Sarwar et al. 2001; Deshpande and Karypis 2004)."""

from __future__ import annotations

from typing import ClassVar

import torch

from sdgar.arguments import at_least, not_negative
from sdgar.data.interactions import Interactions
from sdgar.maths.neighbours import Neighbourhoods
from sdgar.maths.rows import Rows
from sdgar.models.fold_in import ByHistory, Rule
from sdgar.models.item_weights import SparseItemWeights
from sdgar.systems.base import estimator
from sdgar.systems.recipe import SystemSpec
from sdgar.systems.solver import Solver
from sdgar.systems.spaces import Choice


@estimator
class ItemKNN(Solver):
    """An item scores by the user's items among its k most similar items.

        s_ci = Σ_{j ∈ I_c ∩ N_i} sim(i, j)

    N_i are the k items most similar to i, so that every item has as many terms in its sum; the
    k most similar to j would give popular items more. Weights of interactions are not used.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.ItemKNN(neighbours=2).fit(data)
    >>> model.similar_items("a", k=1)["item"].to_list()
    ['b']
    """

    _spec: ClassVar[SystemSpec] = SystemSpec(
        name="item-knn",
        computed_by="counting",
        searched={
            "neighbours": Choice((20, 50, 100, 200, 500)),
            "shrink": Choice((0.0, 10.0, 30.0, 100.0, 300.0)),
        },
        uses_weights=False,
    )

    neighbours: int = 200
    """The number k of most similar items that an item keeps."""
    shrink: float = 30.0
    """The number that is added to the denominator of the cosine, so that rare items are not similar
    by accident."""

    def _fold_rule(self, data: Interactions) -> Rule | None:
        """Return the rule by which the history of a new user is multiplied by the weights."""
        return ByHistory()

    def _solve(self, data: Interactions, *, device: torch.device) -> SparseItemWeights:
        """Count which items occur together, and keep the most similar ones of every item."""
        k = min(at_least("neighbours", self.neighbours, 1), max(1, data.n_items - 1))
        shrink = not_negative("shrink", self.shrink)
        alike = Neighbourhoods(k=k, l2=0.0, shrink=shrink, beta=0.0)
        rows = Rows(data.indptr_U1, data.items_E)
        return SparseItemWeights(data.history, alike.similarities(rows, data.n_items, device))
