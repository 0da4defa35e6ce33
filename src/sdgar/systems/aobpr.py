"""The system AOBPR: BPR with adaptive oversampling."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from sdgar.contracts import Objective, Sampler
from sdgar.parts import objectives, samplers
from sdgar.parts.register import Ingredients
from sdgar.systems.base import estimator
from sdgar.systems.factorized import Factorized
from sdgar.systems.learner import Sampling
from sdgar.systems.recipe import SystemSpec
from sdgar.systems.spaces import STEPS, Range


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
        return objectives.bpr(given)

    def _make_sampler(self, given: Ingredients) -> Sampler:
        """Return the sampler that draws by rank in one of the factors."""
        return samplers.adaptive(given, rank_scale=self.rank_scale)
