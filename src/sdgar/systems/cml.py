"""The system CML: collaborative metric learning."""

from __future__ import annotations

from typing import ClassVar

from sdgar.arguments import not_negative
from sdgar.contracts import Discriminator, Objective, Sampler
from sdgar.data.interactions import Interactions
from sdgar.discriminators.bounded import metric
from sdgar.objectives import cml
from sdgar.parts import Ingredients
from sdgar.samplers.static import Uniform
from sdgar.systems.defaults import RATES, Choice
from sdgar.systems.learner import Learner
from sdgar.systems.parameters import estimator
from sdgar.systems.recipe import SystemSpec


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
