"""The system BPR, and systems that draw its negatives in other ways: AOBPR and DNS."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from sdgar.contracts import Objective, Sampler
from sdgar.objectives import PairwiseLogistic
from sdgar.parts import Ingredients
from sdgar.samplers.rank_by_factor import adaptive
from sdgar.samplers.score_aware import hardest
from sdgar.samplers.static import Uniform
from sdgar.systems.defaults import STEPS, Choice, EarlyStopping, Range, Sampling
from sdgar.systems.learner import Factorized
from sdgar.systems.parameters import estimator
from sdgar.systems.recipe import SystemSpec


@estimator
class BPR(Factorized):
    """Bayesian personalised ranking (Rendle et al. 2009): one uniform negative a positive.

        Σ_{(c,i) ∈ S} softplus(g(c, j) - g(c, i)),   j uniform over the items that c does not have

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.BPR(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    _spec: ClassVar[SystemSpec] = replace(Factorized._spec, name="bpr")

    learning_rate: float = 0.2
    epochs: int = 300
    """The most passes over the training positives; with one negative a positive, many are
    needed."""
    # gains are small here, and evaluations noisy
    early_stopping: EarlyStopping = EarlyStopping(patience=10)

    def _make_objective(self, given: Ingredients) -> Objective:
        """Return the pairwise logistic loss."""
        return PairwiseLogistic()

    def _make_sampler(self, given: Ingredients) -> Sampler:
        """Return the sampler that draws uniformly from the items that a user does not have."""
        return Uniform()


@dataclass(frozen=True, kw_only=True)
class AdaptiveSampling(Sampling):
    """How AOBPR draws negatives: from orders of items that are sorted again from time to time."""

    refit_every: int = 1
    """How many epochs pass before items are sorted by their factors again; they are sorted first
    before epoch 1."""


@estimator
class AOBPR(Factorized):
    """BPR with adaptive oversampling (Rendle & Freudenthaler 2014): negatives from top ranks.

        Σ_{(c,i) ∈ S} softplus(g(c, j) - g(c, i)),   j at rank r of a factor f,   P(r) ∝ exp(-r/λ)

    A factor f is drawn for each user by how much it says of them; the orders of items by factor are
    sorted again from time to time.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.AOBPR(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    _spec: ClassVar[SystemSpec] = replace(
        Factorized._spec,
        name="aobpr",
        searched={**STEPS, "rank_scale": Range(0.003, 0.3)},
        l2_scale=0.09,
    )

    rank_scale: float = 0.05
    """The scale λ of the ranks r that are drawn, P(r) ∝ exp(-r/λ), as a share of the items; a small
    one draws hard negatives."""
    sampler: AdaptiveSampling = AdaptiveSampling()
    """How negatives are drawn."""

    def _make_objective(self, given: Ingredients) -> Objective:
        """Return the pairwise logistic loss."""
        return PairwiseLogistic()

    def _make_sampler(self, given: Ingredients) -> Sampler:
        """Return the sampler that draws by rank in one of the factors."""
        return adaptive(given, rank_scale=self.rank_scale)


@estimator
class DNS(Factorized):
    """Dynamic negative sampling (Zhang et al. 2013): BPR with the hardest of a few uniform draws.

        Σ_{(c,i) ∈ S} softplus(g(c, j) - g(c, i)),   j = argmax_t g(c, j_t),   j_1 … j_C uniform

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.DNS(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    _spec: ClassVar[SystemSpec] = replace(
        Factorized._spec,
        name="dns",
        searched={**STEPS, "candidates": Choice((2, 5, 10, 20))},
        l2_scale=0.12,
    )

    learning_rate: float = 0.2
    candidates: int = 10
    """How many items are drawn uniformly for each negative; the one with the best score is kept."""

    def _make_objective(self, given: Ingredients) -> Objective:
        """Return the pairwise logistic loss."""
        return PairwiseLogistic()

    def _make_sampler(self, given: Ingredients) -> Sampler:
        """Return the sampler that takes the best scored of some uniform draws."""
        return hardest(given, candidates=self.candidates)
