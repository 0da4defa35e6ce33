"""An item memory: weights between items that are added to the scores of a trained model.

    s_ci = a_ci + γ Σ_{j ∈ I_c} w_ji

The weights are solved separately (``maths/neighbours.py``) and added afterwards; γ is chosen on
validation rows, without training again. Rows that are predicted later can differ from validation
rows, and an item memory that is weighted too much then does harm. The gain rises steeply at
first and slowly towards the best γ, so the smallest γ is taken that has nine tenths of the gain.

Rows that are new to an earlier model were not trained on. Before an update continues training, the
model ranks them with each γ. With m_u(γ) for the metric of user u, these sums add up over updates:

    n,   Σ_u m_u(γ),   Σ_u m_u(γ) m_u(γ')

Another weight replaces γ if its gain over γ, in pairs over the users of all updates since the model
was trained from the start, is above its standard error, and there are at least ten users. Of the
weights with nine tenths of the best gain, the nearest to γ in the list of weights is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sdgar.arguments import at_least, not_negative
from sdgar.data.held_out import HeldOut
from sdgar.data.history import History
from sdgar.data.interactions import Interactions
from sdgar.evaluation.report import evaluate
from sdgar.maths.neighbours import Neighbourhoods
from sdgar.models.item_weights import LocalItemWeights
from sdgar.models.model import Floats, Indices, Model
from sdgar.recommend.recommender import Recommender
from sdgar.recommend.update import lacks

WEIGHTS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""The values of γ that are tried, in addition to 0."""
DEFAULT_WEIGHT = 4.0
"""The weight γ where it is not chosen yet, or cannot be for lack of validation rows."""
ENOUGH = 0.9
"""The share of the best gain that is enough for a smaller γ."""
_SCORES = 1 << 24
"""The most scores that are kept while the values of γ are tried."""
MOST_VALIDATION_USERS = 5_000
"""The most users that γ is chosen on; of more, a fixed random sample."""


@dataclass(frozen=True, slots=True)
class ItemMemorySolver:
    """Settings of the item memory (item-item weights added to the model's scores) and its γ."""

    neighbourhoods: Neighbourhoods
    """How the weights between items are found."""
    weight: float | None
    """The weight γ; None if it is chosen on validation rows."""

    @classmethod
    def for_vectors(
        cls, data: Interactions, weight: float | None, *, neighbours: int | None, l2: float
    ) -> ItemMemorySolver:
        """Return the item memory of vectors; see ``Neighbourhoods.for_item_memory``."""
        k, l2 = (
            at_least("item_memory__neighbours", neighbours, 1),
            not_negative("item_memory__l2", l2),
        )
        rule = Neighbourhoods.for_item_memory(data.n_items, neighbours=k, l2=l2)
        return cls(rule, weight)

    @property
    def tried(self) -> tuple[float, ...]:
        """The values of γ that are tried."""
        return WEIGHTS

    @property
    def enough(self) -> float:
        """The share of the best gain that is enough for a smaller γ."""
        return ENOUGH

    @property
    def weight_or_default(self) -> float:
        """The weight γ, or ``DEFAULT_WEIGHT`` if it is not chosen yet."""
        return DEFAULT_WEIGHT if self.weight is None else self.weight

    def solve(self, data: Interactions, device: torch.device) -> LocalItemWeights:
        """Return the weights between items."""
        return LocalItemWeights.solved(data, self.neighbourhoods, device=device)


@dataclass(frozen=True, slots=True)
class WeightSearch:
    """Choose the weight of a second model's scores on held-out rows."""

    model: Model
    """The first model, whose scores have weight 1."""
    added: Model
    """The second model, whose scores are added."""
    held_out: HeldOut
    """The rows by which weights are compared."""
    seen: History
    """The items that are excluded from each user's ranking."""
    metric: str
    """The metric by which weights are compared."""

    def chosen(self, weights: Sequence[float], enough: float = ENOUGH) -> float:
        """Return the smallest weight that has enough of the best gain; ``weights`` ascend.

        The gain of the best weight over 0 is compared in pairs over users. If it is not above its
        standard error, or there is no user to evaluate, the weight is 0. Both models score a user
        once, whatever weights are tried.
        """
        held_out = self.held_out.sample(MOST_VALIDATION_USERS, seed=0)
        if held_out.unseen_XF is not None:  # contexts that are new as a whole come last
            known = self.seen.n_users - len(held_out.unseen_XF)
            held_out = held_out.only(np.flatnonzero(held_out.users_T < known))
        if len(held_out) == 0:
            return 0.0
        values = replace(self, held_out=held_out).values(weights)
        best = max(values, key=lambda w: values[w].mean())
        gains = {weight: value_T - values[0.0] for weight, value_T in values.items()}
        most_T = gains[best]
        if most_T.mean() <= most_T.std() / max(1, len(most_T)) ** 0.5:
            return 0.0
        return next(w for w, gain_T in gains.items() if gain_T.mean() >= enough * most_T.mean())

    def values(self, weights: Sequence[float]) -> dict[float, NDArray[np.float64]]:
        """Return the metric of each user with each weight, and with weight 0."""
        users, at_once = len(self.held_out), max(1, _SCORES // self.model.n_items)
        parts = [
            self._values(weights, self.held_out.only(place_B))
            for place_B in np.array_split(np.arange(users), -(-users // at_once))
        ]
        return {w: np.concatenate([part[w] for part in parts]) for w in (0.0, *weights)}

    def _values(
        self, weights: Sequence[float], held_out: HeldOut
    ) -> dict[float, NDArray[np.float64]]:
        """Return the metric of some users with each weight, and with weight 0."""
        k = int(self.metric.partition("@")[2])
        own = replace(held_out, users_T=np.arange(len(held_out)), unseen_XF=None)
        seen = self.seen.rows(held_out.users_T)

        def measured() -> NDArray[np.float64]:
            return evaluate(_Ready(scores_TI), own, seen=seen, ks=(k,)).per_user[self.metric]

        scores_TI = self.model.score_all(held_out.users_T)
        found = {0.0: measured()}
        scores_TI[scores_TI == -np.inf] = 0
        added_TI = self.added.score_all(held_out.users_T)
        added_TI[added_TI == -np.inf] = 0
        before = 0.0
        for weight in weights:
            scores_TI += np.float32(weight - before) * added_TI
            found[weight], before = measured(), weight
        return found


@dataclass(frozen=True, slots=True)
class _Ready:
    """Scores that are computed; a range of consecutive users is returned as a view, not a copy."""

    scores_TI: Floats

    @property
    def n_items(self) -> int:
        return int(self.scores_TI.shape[1])

    def score_all(self, users_B: Indices) -> Floats:
        first, last = int(users_B[0]), int(users_B[-1])
        follow = last - first + 1 == len(users_B) and bool((np.diff(users_B) == 1).all())
        return self.scores_TI[first : last + 1] if follow else self.scores_TI[users_B]


TRIED = (0.0, *WEIGHTS)
"""The weights γ that are compared."""
FEWEST = 10
"""With fewer users the weight is not changed, because its standard error is unreliable."""
_MOST_USERS_PER_UPDATE = 1_000
"""The most users of one update; of more, a fixed random sample."""


@dataclass(frozen=True, slots=True)
class WeightEvidence:
    """The metric of users with each weight, summed over several updates."""

    metric: str
    """The metric by which weights are compared."""
    users: int
    """The number n of users, each counted once for each update."""
    sum_W: NDArray[np.float64]
    """Σ_u m_u(γ) of each weight."""
    product_WW: NDArray[np.float64]
    """Σ_u m_u(γ) m_u(γ') of each two weights."""

    @classmethod
    def of(cls, metric: str, value_UW: NDArray[np.float64]) -> WeightEvidence:
        """Return the evidence of one update, from the metric of each user with each weight."""
        return cls(metric, len(value_UW), value_UW.sum(axis=0), value_UW.T @ value_UW)

    @classmethod
    def read(cls, about: Mapping[str, Any], metric: str) -> WeightEvidence:
        """Return the saved evidence; it is empty if there is none, or metric or weights differ."""
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

    def plus(self, other: WeightEvidence) -> WeightEvidence:
        """Return the evidence with the users of another update."""
        both_W, both_WW = self.sum_W + other.sum_W, self.product_WW + other.product_WW
        return WeightEvidence(self.metric, self.users + other.users, both_W, both_WW)

    def better_weight(self, weight: float) -> float:
        """Return the weight that replaces ``weight``, or the same if none is better."""
        if weight not in TRIED or self.users < FEWEST:
            return weight
        at = TRIED.index(weight)
        gain_W = (self.sum_W - self.sum_W[at]) / self.users
        best = int(gain_W.argmax())
        squares = self.product_WW[best, best] + self.product_WW[at, at]
        spread = (squares - 2 * self.product_WW[best, at]) / self.users - gain_W[best] ** 2
        if gain_W[best] <= (max(spread, 0.0) / self.users) ** 0.5:
            return weight
        enough_W = np.flatnonzero(gain_W >= ENOUGH * gain_W[best])
        return TRIED[enough_W[np.abs(enough_W - at).argmin()]]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for the manifest of a model."""
        return {
            "metric": self.metric,
            "tried": list(TRIED),
            "users": self.users,
            "sum": self.sum_W.tolist(),
            "products": self.product_WW.tolist(),
        }


def evidence_with_new_rows(
    before: Recommender, rows: Interactions, memory: ItemMemorySolver, metric: str
) -> WeightEvidence:
    """Evaluate the earlier model on rows that are new to it, and add that to its saved evidence."""
    so_far = WeightEvidence.read(before.about, metric)
    has_rows_U = np.diff(before.history.indptr_U1) > 0
    at_U = before.users.index_of(rows.users.values)
    known_U = (at_U >= 0) & has_rows_U[at_U]
    new_E = lacks(before.saved, rows) & known_U[rows.users_E]
    item_memory = _item_memory_of(before, memory)
    if item_memory is None or not new_E.any():
        return so_far
    held_out = HeldOut.of(rows.subset(new_E, "rows that the earlier model has"), before)
    held_out = held_out.sample(_MOST_USERS_PER_UPDATE, seed=0)
    seen = held_out.excluded(before)
    values = WeightSearch(before.factors, item_memory, held_out, seen, metric).values(WEIGHTS)
    return so_far.plus(WeightEvidence.of(metric, np.stack([values[w] for w in TRIED], axis=1)))


def _item_memory_of(before: Recommender, memory: ItemMemorySolver) -> LocalItemWeights | None:
    """Return the item memory of an earlier model, solved for if it has none."""
    _, *others = before.model.parts()
    if others:
        return others[0] if isinstance(others[0], LocalItemWeights) else None
    own = before.history
    rows = Interactions.from_indices(before.users, before.items, own.users_E, own.items_E)
    return memory.solve(rows, torch.device("cpu"))
