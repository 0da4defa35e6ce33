"""The system SA: self-adversarial negative sampling."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from sdgar.contracts import Objective, Sampler
from sdgar.parts import objectives, samplers
from sdgar.parts.register import Ingredients
from sdgar.systems.base import estimator
from sdgar.systems.factorized import Factorized
from sdgar.systems.recipe import SystemSpec
from sdgar.systems.spaces import STEPS, Choice


@estimator
class SA(Factorized):
    """Self-adversarial negative sampling (Sun et al. 2019): five uniform negatives, reweighted.

        Σ_{(c,i) ∈ S} ½ [softplus(-g(c, i)) + Σ_j w_j f_j],   f_j = softplus(g(c, j))

    with weights w_j ∝ exp(f_j / T), through which no gradient passes: Eq. 4 with uniform proposals
    and held weights.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.SA(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    _spec: ClassVar[SystemSpec] = replace(
        Factorized._spec,
        name="sa",
        searched={**STEPS, "temperature": Choice((0.1, 0.25, 0.5, 1.0))},
        l2_scale=0.07,
    )

    learning_rate: float = 0.2
    """The learning rate of the optimiser; both kinds of Adam want about 0.004."""
    n_negatives: int = 5
    """How many negatives are drawn for each positive."""
    temperature: float = 0.25
    """The temperature T of the weights of negatives, ∝ exp(f/T) of their losses f; it is 1/α of the
    original."""

    def _make_objective(self, given: Ingredients) -> Objective:
        """Return the logistic loss, whose negatives have softmax weights that no gradient moves."""
        return objectives.sdgar(given, temperature=self.temperature, hold_weights=True)

    def _make_sampler(self, given: Ingredients) -> Sampler:
        """Return the sampler that draws uniformly from the items that a user does not have."""
        return samplers.uniform(given)
