"""Systems on the neighbours of items: item-kNN and local EASE."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from sdgar.arguments import at_least, not_negative
from sdgar.data.interactions import Interactions
from sdgar.errors import DataError
from sdgar.maths.neighbours import Neighbourhoods
from sdgar.maths.rows import Rows
from sdgar.models.item_weights import LocalItemWeights, SparseItemWeights
from sdgar.systems.defaults import Choice, Range
from sdgar.systems.parameters import estimator
from sdgar.systems.recipe import SystemSpec
from sdgar.systems.solver import ItemItem

_DAY = 86_400.0


@estimator
class ItemKNN(ItemItem):
    """An item scores by the user's items among its k most similar items (Sarwar et al. 2001).

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

    def _solve(self, data: Interactions, *, device: torch.device) -> SparseItemWeights:
        """Count which items occur together, and keep the most similar ones of every item."""
        k = min(at_least("neighbours", self.neighbours, 1), max(1, data.n_items - 1))
        shrink = not_negative("shrink", self.shrink)
        alike = Neighbourhoods(k=k, l2=0.0, shrink=shrink, beta=0.0)
        rows = Rows(data.indptr_U1, data.items_E)
        return SparseItemWeights(data.history, alike.similarities(rows, data.n_items, device))


@estimator
class LocalEASE(ItemItem):
    """Predict every item from its k nearest items, by least squares: EASE for any catalogue.

        G    = Σ_u d_u x_u x_u',   d_u ∝ |I_u|^-β
        S_i  = the k items j with the largest G_ji / (√(G_jj G_ii) + shrink),  j ≠ i
        w_i  = (G_SS + λ I)^-1 G_Si,   s_ci = Σ_{j ∈ I_c} w_ji

    Time is linear in items and memory is bounded, where EASE inverts a matrix of all items.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.LocalEASE(l2=1.0).fit(data)
    >>> model.recommend(history=["a"], k=1)["item"].to_list()  # someone new
    ['b']
    """

    _spec: ClassVar[SystemSpec] = SystemSpec(
        name="local-ease",
        computed_by="least squares on neighbourhoods",
        searched={
            "neighbours": Choice((20, 50, 100, 200)),
            "l2": Range(2.0, 200.0),
            "beta": Choice((0.0, 0.5, 1.0)),
        },
    )

    neighbours: int = 50
    """The number k of items that contribute to the score of an item."""
    l2: float = 20.0
    """The weight λ of the squared weights between items, in units of the mean user weight."""
    beta: float = 0.5
    """The power β by which users with long histories count less; 0 counts all users alike."""
    shrink: float = 10.0
    """What is added to the denominator of the cosine by which neighbours are chosen, so that rare
    items are not neighbours by accident."""
    half_life: float = 0.0
    """The number of days after which a row counts half; 0 lets old rows count like new ones."""

    def _solve(self, data: Interactions, *, device: torch.device) -> LocalItemWeights:
        """Find neighbours and weights, in blocks of bounded memory."""
        rule = Neighbourhoods(
            k=min(at_least("neighbours", self.neighbours, 1), max(1, data.n_items - 1)),
            l2=not_negative("l2", self.l2),
            shrink=not_negative("shrink", self.shrink),
            beta=not_negative("beta", self.beta),
        )
        return LocalItemWeights.solved(data, rule, self._weights(data), device=device)

    def _weights(self, data: Interactions) -> NDArray[np.float32] | None:
        """Return how much each row counts: its weight over the mean, and less the older it is."""
        half_life, weight_E = not_negative("half_life", self.half_life), data.weight_E
        if weight_E is not None:
            weight_E = weight_E / weight_E.mean()
        if half_life == 0:
            return weight_E
        if data.time_E is None:
            raise DataError(
                "half_life needs a time for every row. Name the column with --time-column, or set "
                "half_life to 0.",
                code="no_time",
            )
        days_E = (data.time_E.max() - data.time_E) / _DAY
        decay_E: NDArray[np.float32] = np.exp2(-days_E / half_life).astype(np.float32)
        return decay_E if weight_E is None else decay_E * weight_E
