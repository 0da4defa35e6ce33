"""Rules that change scores, in units of their standard deviation, before items are selected.

With the scores s_i of the N candidates that may be listed,

    z_i = (s_i - mean(s)) / std(s)        (0 where all scores are equal)

so that a change by 0.5 means the same for every model: multiplying all scores by a number, or
adding one, changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sdgar.maths.rng import Stream, uniform
from sdgar.recommend.rules.facts import FIRST_SEEN, Facts, missing_facts
from sdgar.recommend.rules.filters import SelectingRule
from sdgar.recommend.rules.settings import Duration, Field, Rule, choice, number, whole_number

Notes = list[list[str]]
"""The notes of the rules on each of the N candidates."""
Z = NDArray[np.float64]
"""The scores z_N of the candidates, in standard deviations."""
_CHANGE = number(0, 1000, above=True)
"""The size of a change of a score, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates for one list, and all that changes of their scores depend on."""

    items_N: NDArray[np.int64]
    """The indices of the items, the best score first."""
    facts: Facts
    """The facts about items."""
    notes: Notes
    """The notes of the rules on each candidate, to which rules add."""
    now: float
    """The time from which ages count, in seconds since 1970."""
    seed: int
    """The seed for exploration."""

    def note_rises(self, before_N: Z, after_N: Z, note: str) -> Z:
        """Return the new scores, and note the candidates whose rank improves."""
        for at in np.flatnonzero(_ranks(after_N) < _ranks(before_N)).tolist():
            self.notes[at].append(note)
        return after_N


@dataclass(frozen=True, slots=True, kw_only=True)
class BoostRule(SelectingRule):
    """z_i ← z_i + by for the items of the rule."""

    kind: ClassVar[str] = "boost"
    sign: ClassVar[int] = 1
    word: ClassVar[str] = "boosted"

    by: Annotated[float, _CHANGE]
    """The change, in standard deviations of the candidates' scores."""

    def change(self, z_N: Z, candidates: Candidates) -> Z:
        """Return the changed scores; add a note on every item of the rule."""
        selected_N = self.selected(candidates.facts)[candidates.items_N]
        for at in np.flatnonzero(selected_N).tolist():
            candidates.notes[at].append(f"{self.word} by {self.by:g}: {self.words()}")
        return z_N + self.sign * self.by * selected_N


@dataclass(frozen=True, slots=True, kw_only=True)
class BuryRule(BoostRule):
    """z_i ← z_i - by for the items of the rule."""

    kind: ClassVar[str] = "bury"
    sign: ClassVar[int] = -1
    word: ClassVar[str] = "buried"


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessRule(Rule):
    """z_i ← z_i + weight · 2^(-a_i / half_life), with the age a_i = max(0, now - t_i).

    The score of an item without a time t_i does not change.
    """

    kind: ClassVar[str] = "freshness"
    repeated: ClassVar[bool] = False

    half_life: Duration
    """The age in seconds at which half of the weight is left."""
    weight: Annotated[float, _CHANGE] = 1.0
    """The change of a new item, in standard deviations of the candidates' scores."""
    field: Field = FIRST_SEEN
    """The field that holds the time."""

    def change(self, z_N: Z, candidates: Candidates) -> Z:
        """Return the changed scores; add a note on every item that moved up."""
        time_N = candidates.facts.times(self.field)[candidates.items_N]
        age_N = np.maximum(candidates.now - time_N, 0.0)
        fresh_N = np.nan_to_num(np.exp2(-age_N / self.half_life), nan=0.0)
        return candidates.note_rises(z_N, z_N + self.weight * fresh_N, "moved up for freshness")


@dataclass(frozen=True, slots=True, kw_only=True)
class PopularityRule(Rule):
    """z_i ← (1 - |p|) z_i + p q_i, with q_i = log(1 + n_i), standardised like the scores.

    n_i is the number of users with item i. At p = 1 the most popular candidates come first, and at
    p = -1 the rarest.
    """

    kind: ClassVar[str] = "popularity"
    repeated: ClassVar[bool] = False

    dial: Annotated[float, number(-1, 1)]
    """The weight p."""

    def change(self, z_N: Z, candidates: Candidates) -> Z:
        """Return the changed scores; add a note on every item that moved up."""
        if candidates.facts.popularity_I is None:
            raise missing_facts(
                "a rule or an option needs the popularity of items, and there are no counts of it",
                "Leave popularity at 0, or give facts with popularity_I.",
            )
        count_N = candidates.facts.popularity_I[candidates.items_N].astype(np.float64)
        new_N = (1 - abs(self.dial)) * z_N + self.dial * standardised(np.log1p(count_N))
        note = "moved up: popular" if self.dial > 0 else "moved up: less popular"
        return candidates.note_rises(z_N, new_N, note)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorationRule(Rule):
    """z_i ← z_i + temperature · g_i, with noise g_i by one of two methods.

    With ``softmax`` g_i = -log(-log u_i) and u_i is uniform on (0, 1): the k best are then k draws
    without replacement from softmax(z / temperature) (Gumbel top-k). With ``thompson`` g_i is
    standard normal: each list is the best one for scores drawn from N(z_i, temperature²). g_i
    depends on the seed and the index of the item only.
    """

    kind: ClassVar[str] = "exploration"
    repeated: ClassVar[bool] = False

    temperature: Annotated[float, _CHANGE]
    """The size of the noise, in standard deviations of the candidates' scores."""
    seed: Annotated[int, whole_number(0, 2**63 - 1)] = 0
    """The seed of requests without a seed."""
    method: Annotated[Literal["softmax", "thompson"], choice("softmax", "thompson")] = "softmax"
    """The distribution of the noise."""

    def change(self, z_N: Z, candidates: Candidates) -> Z:
        """Return the changed scores; add a note on every item that moved up."""
        u_N = uniform(candidates.seed, Stream.EXPLORE, 0, candidates.items_N)
        noise_N = _normal(u_N) if self.method == "thompson" else -np.log(-np.log(u_N))
        return candidates.note_rises(z_N, z_N + self.temperature * noise_N, "moved up to explore")


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


def _ranks(values_N: NDArray[np.float64]) -> NDArray[np.int64]:
    rank_N = np.empty(len(values_N), np.int64)
    rank_N[np.argsort(-values_N, kind="stable")] = np.arange(len(values_N))
    return rank_N
