"""Rules that change scores, in units of their standard deviation, before items are selected.

With the scores s_i of the N candidates that may be listed,

    z_i = (s_i - mean(s)) / std(s)        (0 where all scores are equal)

so that a change by 0.5 means the same for every model: multiplying all scores by a number, or
adding one, changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sdgar.maths.rng import Stream, check_seed, uniform
from sdgar.recommend.rules.facts import FIRST_SEEN, Facts, ItemSelector, missing_facts, values_at

ExplorationMethod = Literal["softmax", "thompson"]
"""The two distributions of noise."""
Notes = list[list[str]]
"""The notes of the rules on each of the N candidates."""


@dataclass(frozen=True, slots=True)
class BoostRule:
    """z_i ← z_i + by for the items of the rule; ``by`` is negative for a rule that buries."""

    selector: ItemSelector
    """The items whose scores change."""
    by: float
    """The change, in standard deviations of the candidates' scores."""
    name: str | None = None
    """The name of the rule."""

    def change(
        self, z_N: NDArray[np.float64], items_N: NDArray[np.int64], facts: Facts, notes: Notes
    ) -> NDArray[np.float64]:
        """Return the changed scores; add a note on every item of the rule."""
        selected_N = values_at(facts.selected(self.selector), items_N, missing=False)
        word = "boosted" if self.by >= 0 else "buried"
        note = f"{word} by {abs(self.by):g}: {self.name or self.selector.words()}"
        for at in np.flatnonzero(selected_N).tolist():
            notes[at].append(note)
        return z_N + self.by * selected_N


@dataclass(frozen=True, slots=True)
class FreshnessRule:
    """z_i ← z_i + weight · 2^(-a_i / half_life), with the age a_i = max(0, now - t_i).

    The score of an item without a time t_i does not change.
    """

    half_life: float
    """The age in seconds at which half of the weight is left."""
    weight: float = 1.0
    """The change of a new item, in standard deviations of the candidates' scores."""
    field: str = FIRST_SEEN
    """The field that holds the time."""

    def change(
        self,
        z_N: NDArray[np.float64],
        items_N: NDArray[np.int64],
        facts: Facts,
        notes: Notes,
        now: float,
    ) -> NDArray[np.float64]:
        """Return the changed scores; add a note on every item that moved up."""
        age_N = np.maximum(now - values_at(facts.times(self.field), items_N, np.nan), 0.0)
        fresh_N = np.nan_to_num(np.exp2(-age_N / self.half_life), nan=0.0)
        new_N = z_N + self.weight * fresh_N
        note_rises(z_N, new_N, notes, "moved up for freshness", among_N=fresh_N > 0)
        return new_N


@dataclass(frozen=True, slots=True)
class PopularityRule:
    """z_i ← (1 - |p|) z_i + p q_i, with q_i = log(1 + n_i), standardised like the scores.

    n_i is the number of users with item i. At p = 1 the most popular candidates come first, and at
    p = -1 the rarest.
    """

    weight: float
    """The weight p, from -1 to 1."""

    def change(
        self, z_N: NDArray[np.float64], items_N: NDArray[np.int64], facts: Facts, notes: Notes
    ) -> NDArray[np.float64]:
        """Return the changed scores; add a note on every item that moved up."""
        if facts.popularity_I is None:
            raise missing_facts(
                "a rule or an option needs the popularity of items, and there are no counts of it",
                "Leave popularity at 0, or give facts with popularity_I.",
            )
        count_N = values_at(facts.popularity_I, items_N, 0).astype(np.float64)
        new_N = (1 - abs(self.weight)) * z_N + self.weight * standardised(np.log1p(count_N))
        note = "moved up: popular" if self.weight > 0 else "moved up: less popular"
        note_rises(z_N, new_N, notes, note)
        return new_N


@dataclass(frozen=True, slots=True)
class ExplorationRule:
    """z_i ← z_i + temperature · g_i, with noise g_i by one of two methods.

    With ``softmax`` g_i = -log(-log u_i) and u_i is uniform on (0, 1): the k best are then k draws
    without replacement from softmax(z / temperature) (Gumbel top-k). With ``thompson`` g_i is
    standard normal: each list is the best one for scores drawn from N(z_i, temperature²). g_i
    depends on the seed and the index of the item only.
    """

    temperature: float
    """The size of the noise, in standard deviations of the candidates' scores."""
    seed: int = 0
    """The seed of requests without a seed."""
    method: ExplorationMethod = "softmax"
    """The distribution of the noise."""

    def change(
        self, z_N: NDArray[np.float64], items_N: NDArray[np.int64], notes: Notes, seed: int | None
    ) -> NDArray[np.float64]:
        """Return the changed scores; add a note on every item that moved up."""
        seed = self.seed if seed is None else check_seed(seed)
        u_N = uniform(seed, Stream.EXPLORE, 0, items_N)
        noise_N = _normal(u_N) if self.method == "thompson" else -np.log(-np.log(u_N))
        new_N: NDArray[np.float64] = z_N + self.temperature * noise_N
        note_rises(z_N, new_N, notes, "moved up to explore")
        return new_N


def _normal(u_N: NDArray[np.float64]) -> NDArray[np.float64]:
    """Φ^-1(u): the u-quantile of the standard normal distribution."""
    from scipy.special import ndtri

    return np.asarray(ndtri(u_N), np.float64)


def standardised(values_N: NDArray[np.float64]) -> NDArray[np.float64]:
    """z_i = (s_i - mean(s)) / std(s), and 0 where all are equal."""
    if not len(values_N) or values_N.min() == values_N.max():
        return np.zeros(len(values_N))
    # Squares of very large numbers would overflow.
    values_N = values_N / np.abs(values_N).max()
    centred_N = values_N - values_N.mean()
    spread = centred_N.std()
    return centred_N / spread if spread > 0 else np.zeros(len(values_N))


def note_rises(
    before_N: NDArray[np.float64],
    after_N: NDArray[np.float64],
    notes: Notes,
    note: str,
    *,
    among_N: NDArray[np.bool_] | None = None,
) -> None:
    """Add a note on the candidates whose rank improves; ties keep their order."""
    rises_N = _ranks(after_N) < _ranks(before_N)
    for at in np.flatnonzero(rises_N if among_N is None else rises_N & among_N).tolist():
        notes[at].append(note)


def _ranks(values_N: NDArray[np.float64]) -> NDArray[np.int64]:
    rank_N = np.empty(len(values_N), np.int64)
    rank_N[np.argsort(-values_N, kind="stable")] = np.arange(len(values_N))
    return rank_N
