"""The system BPR: Bayesian personalised ranking."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from sdgar.contracts import Objective, Sampler
from sdgar.parts import objectives, samplers
from sdgar.parts.register import Ingredients
from sdgar.systems.base import estimator
from sdgar.systems.factorized import Factorized
from sdgar.systems.recipe import SystemSpec
from sdgar.training.settings import EarlyStopping


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
    """The learning rate of the optimiser; both kinds of Adam want about 0.004."""
    epochs: int = 300
    """The most passes over the training positives; with one negative a positive, many are
    needed."""
    # gains are small here, and evaluations noisy
    early_stopping: EarlyStopping = EarlyStopping(patience=10)
    """How the number of epochs is chosen on validation rows."""

    def _make_objective(self, given: Ingredients) -> Objective:
        """Return the pairwise logistic loss."""
        return objectives.bpr(given)

    def _make_sampler(self, given: Ingredients) -> Sampler:
        """Return the sampler that draws uniformly from the items that a user does not have."""
        return samplers.uniform(given)
