"""An item memory: weights between items that are added to the scores of a trained model.

    s_ci = a_ci + γ Σ_{j ∈ I_c} w_ji

The weights are solved on their own (``maths/neighbours.py``) and added afterwards; γ is chosen on
validation rows, without training again. Rows that are predicted later can differ from validation
rows, and an item memory that is weighted too much then does harm. The gain rises steeply at
first and slowly towards the best γ, so the smallest γ is taken that has nine tenths of the gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import at_least, not_negative
from sdgar.data.held_out import HeldOut
from sdgar.data.history import History
from sdgar.data.interactions import Interactions
from sdgar.evaluation.report import evaluate
from sdgar.maths.neighbours import Neighbourhoods
from sdgar.models.item_weights import LocalItemWeights
from sdgar.models.model import Floats, Indices, Model

if TYPE_CHECKING:
    import torch

WEIGHTS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""The values of γ that are tried, in addition to 0."""
UNCHOSEN = 4.0
"""The weight γ where it is not chosen yet, or cannot be for lack of validation rows."""
ENOUGH = 0.9
"""The share of the best gain that is enough for a smaller γ."""
_SCORES = 1 << 24
"""The most scores that are kept while the values of γ are tried."""
MOST_USERS = 5_000
"""The most users that γ is chosen on; of more, a fixed random sample."""


@dataclass(frozen=True, slots=True)
class Memory:
    """How an item memory is solved for, and with which weight it is added."""

    neighbourhoods: Neighbourhoods
    """How the weights between items are found."""
    weight: float | None
    """The weight γ; None if it is chosen on validation rows."""

    @classmethod
    def for_vectors(
        cls, data: Interactions, weight: float | None, *, neighbours: int | None, l2: float
    ) -> Memory:
        """Return the item memory of vectors; see ``Neighbourhoods.for_item_memory``."""
        k, l2 = (
            at_least("item_memory__neighbours", neighbours, 1),
            not_negative("item_memory__l2", l2),
        )
        rule = Neighbourhoods.for_item_memory(data.n_items, neighbours=k, l2=l2)
        return cls(rule, weight)

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
    standard error, or nobody can be measured, the weight is 0. Both models score a user once,
    whatever weights are tried.
    """
    held_out = held_out.sample(MOST_USERS, seed=0)
    if held_out.unseen_XF is not None:  # contexts that are new as a whole come last
        known = seen.n_users - len(held_out.unseen_XF)
        held_out = held_out.only(np.flatnonzero(held_out.users_T < known))
    if len(held_out) == 0:
        return 0.0
    values = values_by_weight(model, other, weights, held_out, seen, metric)
    best = max(values, key=lambda w: values[w].mean())
    gains = {weight: value_T - values[0.0] for weight, value_T in values.items()}
    most_T = gains[best]
    if most_T.mean() <= most_T.std() / max(1, len(most_T)) ** 0.5:
        return 0.0
    return next(w for w, gain_T in gains.items() if gain_T.mean() >= ENOUGH * most_T.mean())


def values_by_weight(
    model: Model,
    other: Model,
    weights: Sequence[float],
    held_out: HeldOut,
    seen: History,
    metric: str,
) -> dict[float, NDArray[np.float64]]:
    """Return the metric of each user with each weight of another model, and with none."""
    at_once = max(1, _SCORES // model.n_items)
    parts = [
        _values(model, other, weights, held_out.only(place_B), seen, metric)
        for place_B in np.array_split(np.arange(len(held_out)), -(-len(held_out) // at_once))
    ]
    return {w: np.concatenate([part[w] for part in parts]) for w in (0.0, *weights)}


def _values(
    model: Model,
    other: Model,
    weights: Sequence[float],
    held_out: HeldOut,
    seen: History,
    metric: str,
) -> dict[float, NDArray[np.float64]]:
    """Return the metric of some users with each weight, and with none."""
    k = int(metric.partition("@")[2])
    own = replace(held_out, users_T=np.arange(len(held_out)), unseen_XF=None)
    seen = seen.rows(held_out.users_T)

    def measured() -> NDArray[np.float64]:
        return evaluate(_Ready(scores_TI), own, seen=seen, ks=(k,)).per_user[metric]

    scores_TI = model.score_all(held_out.users_T)
    found = {0.0: measured()}
    scores_TI[scores_TI == -np.inf] = 0
    other_TI = other.score_all(held_out.users_T)
    other_TI[other_TI == -np.inf] = 0
    before = 0.0
    for weight in weights:
        scores_TI += np.float32(weight - before) * other_TI
        found[weight], before = measured(), weight
    return found


@dataclass(frozen=True, slots=True)
class _Ready:
    """Scores that are there already; users who follow each other are looked up without a copy."""

    scores_TI: Floats

    @property
    def n_items(self) -> int:
        return int(self.scores_TI.shape[1])

    def score_all(self, users_B: Indices) -> Floats:
        first, last = int(users_B[0]), int(users_B[-1])
        follow = last - first + 1 == len(users_B) and bool((np.diff(users_B) == 1).all())
        return self.scores_TI[first : last + 1] if follow else self.scores_TI[users_B]
