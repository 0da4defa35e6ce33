"""The systems WARP and CML: hinges that are weighed by the rank of the positive."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from sdgar.arguments import not_negative
from sdgar.contracts import Discriminator, Objective, Sampler
from sdgar.data.interactions import Interactions
from sdgar.discriminators.bounded import metric
from sdgar.objectives import cml, warp
from sdgar.parts import Ingredients
from sdgar.samplers.score_aware import first_violation
from sdgar.samplers.static import Uniform
from sdgar.systems.defaults import RATES, STEPS, Choice, Range
from sdgar.systems.learner import Factorized, Learner
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


@estimator
class CML(Learner):
    """Collaborative metric learning (Hsieh et al. 2017): points in a ball instead of factors.

        Σ_{(c,i) ∈ S} log(1 + r) max(0, margin + ‖u_c - v_i‖² - min_j ‖u_c - v_j‖²)

    A positive should be nearer than the nearest of a few uniform negatives j, by a margin; the rank
    r is the number of items times the share of negatives that come nearer than that.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.CML(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    _spec: ClassVar[SystemSpec] = SystemSpec(
        name="cml",
        searched={
            "learning_rate": RATES["adagrad"],
            "margin": Choice((0.5, 1.0, 1.5, 2.0)),
            "n_negatives": Choice((5, 20)),
            "covariance": Choice((0.0, 0.1, 1.0, 10.0)),
        },
    )

    learning_rate: float = 0.2
    n_negatives: int = 20
    """How many negatives are drawn for each positive; the nearest of them is pushed away."""
    margin: float = 1.0
    """The least by which a positive should be nearer than a negative, in squared distances, which
    are at most 4 in a unit ball."""
    covariance: float = 0.0
    """The weight λ of the covariances between axes, which keeps axes from saying the same."""

    def _make_discriminator(self, given: Ingredients) -> Discriminator:
        """Return points in a unit ball, where nearer is better."""
        return metric(given)

    def _make_objective(self, given: Ingredients) -> Objective:
        """Return the hinge that is weighed by the share of negatives within the margin."""
        return cml(given, margin=self.margin)

    def _make_sampler(self, given: Ingredients) -> Sampler:
        """Return the sampler that draws uniformly from the items that a user does not have."""
        return Uniform()

    def _penalty(self, data: Interactions) -> float:
        """Return the weight of the covariances between axes."""
        return not_negative("covariance", self.covariance)
