"""The weight of the item memory of a model that continues: new rows choose it every time.

Rows that are new to an earlier model were not trained on. Before training continues, the model
ranks them with each weight γ. With m_u(γ) for the metric of user u, these sums add up over times:

    n,   Σ_u m_u(γ),   Σ_u m_u(γ) m_u(γ')

Another weight replaces γ if its gain over γ, in pairs over the users of all times since the model
was trained from the start, is above its standard error, and there are at least ten users. Of the
weights with nine tenths of the best gain it is the one next to γ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.models.item_weights import LocalItemWeights
from sdgar.recommend.recommender import Recommender
from sdgar.training.memory import ENOUGH, WEIGHTS, Memory, values_by_weight

TRIED = (0.0, *WEIGHTS)
"""The weights γ that are compared."""
FEWEST = 10
"""The fewest users who can change a weight; the spread of fewer says too little."""
_MOST_USERS = 1_000
"""The most users of one time; of more, a fixed random sample."""


@dataclass(frozen=True, slots=True)
class WeightEvidence:
    """The metric of users with each weight, summed over several times."""

    metric: str
    """The metric that weights are compared by."""
    users: int
    """The number n of users, each counted once for each time."""
    sum_W: NDArray[np.float64]
    """Σ_u m_u(γ) of each weight."""
    product_WW: NDArray[np.float64]
    """Σ_u m_u(γ) m_u(γ') of each two weights."""

    @classmethod
    def of(cls, metric: str, value_UW: NDArray[np.float64]) -> WeightEvidence:
        """Take the values of the users of one night."""
        return cls(metric, len(value_UW), value_UW.sum(axis=0), value_UW.T @ value_UW)

    @classmethod
    def read(cls, about: Mapping[str, Any], metric: str) -> WeightEvidence:
        """Return the evidence of a saved model; without an earlier model it has none."""
        n = len(TRIED)
        match about.get("further"):
            case {"evidence": {"metric": by, "tried": tried, "users": int() as users,
                             "sum": list() as sums, "products": list() as products}} if (
                by == metric and tried == list(TRIED)
            ):  # fmt: skip
                sum_W, product_WW = np.array(sums, float), np.array(products, float)
                if sum_W.shape == (n,) and product_WW.shape == (n, n):
                    return cls(metric, users, sum_W, product_WW)
        return cls(metric, 0, np.zeros(n), np.zeros((n, n)))

    def and_then(self, other: WeightEvidence) -> WeightEvidence:
        """Return the evidence with the users of another time."""
        both_W, both_WW = self.sum_W + other.sum_W, self.product_WW + other.product_WW
        return WeightEvidence(self.metric, self.users + other.users, both_W, both_WW)

    def instead_of(self, weight: float) -> float:
        """Return the weight that replaces another one, or that one if none does."""
        if weight not in TRIED or self.users < FEWEST:
            return weight
        at = TRIED.index(weight)
        gain_W = (self.sum_W - self.sum_W[at]) / self.users
        best = int(gain_W.argmax())
        squares = self.product_WW[best, best] + self.product_WW[at, at]
        spread = (squares - 2 * self.product_WW[best, at]) / self.users - gain_W[best] ** 2
        if gain_W[best] <= (max(spread, 0.0) / self.users) ** 0.5:
            return weight
        enough_E = np.flatnonzero(gain_W >= ENOUGH * gain_W[best])
        return TRIED[enough_E[np.abs(enough_E - at).argmin()]]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for the manifest of a model."""
        return {
            "metric": self.metric,
            "tried": list(TRIED),
            "users": self.users,
            "sum": self.sum_W.tolist(),
            "products": self.product_WW.tolist(),
        }


def evidence_of(
    before: Recommender, rows: Interactions, memory: Memory, metric: str
) -> WeightEvidence:
    """Return the evidence of the rows that an earlier model lacks, and of earlier times."""
    so_far = WeightEvidence.read(before.about, metric)
    has_rows_U = np.diff(before.history.indptr_U1) > 0
    at_U = before.users.index_of(rows.users.values)
    known_U = (at_U >= 0) & has_rows_U[at_U]
    new_E = before.lacks(rows) & known_U[rows.users_E]
    item_memory = _memory_of(before, memory)
    if item_memory is None or not new_E.any():
        return so_far
    held_out = HeldOut.of(rows.subset(new_E, "rows that the earlier model has"), before)
    held_out = held_out.sample(_MOST_USERS, seed=0)
    values = values_by_weight(
        before.factors, item_memory, WEIGHTS, held_out, held_out.left_out(before), metric
    )
    return so_far.and_then(WeightEvidence.of(metric, np.stack([values[w] for w in TRIED], axis=1)))


def _memory_of(before: Recommender, memory: Memory) -> LocalItemWeights | None:
    """Return the item memory of an earlier model, solved for if it has none."""
    _, *others = before.model.parts()
    if others:
        return others[0] if isinstance(others[0], LocalItemWeights) else None
    own = before.history
    rows = Interactions.from_indices(before.users, before.items, own.users_E, own.items_E)
    return memory.of(rows, torch.device("cpu"))
