"""Weighted approximate-rank pairwise loss."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from sdgar.contracts import Objective, Sampler
from sdgar.objectives import warp
from sdgar.parts import Ingredients
from sdgar.samplers.score_aware import first_violation
from sdgar.systems.defaults import STEPS, Choice, Range
from sdgar.systems.learner import Factorized
from sdgar.systems.parameters import estimator
from sdgar.systems.recipe import SystemSpec


@estimator
class WARP(Factorized):
    """Weighted approximate-rank pairwise loss (Weston et al. 2010), as in LightFM.

        Σ_{(c,i) ∈ S} log(⌊(M - 1)/t⌋) max(0, margin + g(c, j) - g(c, i)),   M items

    j is the first of uniform draws with g(c, j) > g(c, i) - margin, and t the number of draws it
    took: the fewer, the worse i must rank, and the more the hinge counts.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.WARP(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    _spec: ClassVar[SystemSpec] = replace(
        Factorized._spec,
        name="warp",
        searched={
            **STEPS,
            "l2": Range(0.05, 5.0),  # a positive that ranks badly weighs up to log M, and so must λ
            "margin": Choice((0.5, 1.0, 1.5, 2.0)),
            "max_tries": Choice((10, 30, 60)),
        },
        l2_scale=3.3,
    )

    learning_rate: float = 0.2
    margin: float = 1.0
    """The least by which the score of a positive should exceed that of a negative."""
    max_tries: int = 30
    """The most draws for a positive; one without a violation among them teaches nothing."""

    def _make_objective(self, given: Ingredients) -> Objective:
        """Return the hinge that is weighed by the rank of the positive."""
        return warp(given, margin=self.margin)

    def _make_sampler(self, given: Ingredients) -> Sampler:
        """Return the sampler that takes the first draw that scores too close to the positive."""
        return first_violation(given, margin=self.margin, max_tries=self.max_tries)
