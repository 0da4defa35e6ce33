"""A memory beside a trained model: weights between items, added to its scores.

    s_ci = a_ci + γ Σ_{j ∈ I_c} w_ji

The weights are solved on their own (``maths/neighbours.py``) and added afterwards; γ is chosen on
validation rows, without training again. Rows that are predicted later can differ from validation
rows, and a memory that is weighted too much then does harm. The gain rises steeply at first and
slowly towards the best γ, so the smallest γ is taken that has nine tenths of the gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import History, Interactions
from sdgar.evaluation.report import evaluate
from sdgar.maths.neighbours import Neighbourhoods
from sdgar.models.item_weights import LocalItemWeights
from sdgar.models.model import Model
from sdgar.models.sum import Sum

WEIGHTS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""The values of γ that are tried, beside 0."""
UNCHOSEN = 4.0
"""The weight γ where it is not chosen yet, or cannot be for lack of validation rows."""
ENOUGH = 0.9
"""The share of the best gain that is enough for a smaller γ."""
MOST_USERS = 5_000
"""The most users on whom γ is chosen; of more, a fixed random choice."""


@dataclass(frozen=True, slots=True)
class Memory:
    """How a memory is made, and with which weight it is added."""

    neighbourhoods: Neighbourhoods
    """How the weights between items are found."""
    weight: float | None
    """The weight γ; None if it is chosen on validation rows."""

    @property
    def usual(self) -> float:
        """The weight γ as it is given, or the usual one as long as it is not chosen."""
        return UNCHOSEN if self.weight is None else self.weight

    def of(self, data: Interactions, device: torch.device) -> LocalItemWeights:
        """Solve for the weights between items."""
        return LocalItemWeights.solved(data, self.neighbourhoods, device=device)

    def chosen(
        self, model: Model, memory: LocalItemWeights, held_out: HeldOut, seen: History, metric: str
    ) -> float:
        """Return γ as it is given, or as held-out rows choose it."""
        if self.weight is not None:
            return self.weight
        return choose_weight(model, memory, WEIGHTS, held_out, seen, metric)


def choose_weight(
    model: Model,
    other: Model,
    weights: Sequence[float],
    held_out: HeldOut,
    seen: History,
    metric: str,
) -> float:
    """Return the smallest weight of another model that has nine tenths of the best gain.

    The gain of the best weight over none is compared in pairs over users; if it is not above its
    standard error, the weight is 0. Means rise and then fall with the weight, so the search ends
    after the second value in a row that is worse than the best.
    """
    held_out = held_out.sample(MOST_USERS, seed=0)
    k = int(metric.partition("@")[2])
    values: dict[float, np.ndarray] = {}
    worse = 0
    for weight in (0.0, *weights):
        scorer = beside(model, other, weight)
        values[weight] = evaluate(scorer, held_out, seen=seen, ks=(k,)).per_user[metric]
        best = max(values, key=lambda w: values[w].mean())
        worse = worse + 1 if best != weight else 0
        if worse == 2:
            break
    gains = {weight: value_T - values[0.0] for weight, value_T in values.items()}
    most_T = gains[best]
    if most_T.mean() <= most_T.std() / max(1, len(most_T)) ** 0.5:
        return 0.0
    return next(w for w, gain_T in gains.items() if gain_T.mean() >= ENOUGH * most_T.mean())


def beside(model: Model, other: Model | None, weight: float) -> Model:
    """Add another model, such as a memory; with a weight of 0 the model stays as it is."""
    return model if other is None or weight == 0 else Sum(model, other, weight)
