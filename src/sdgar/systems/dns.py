"""The system DNS: dynamic negative sampling."""

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
    """The learning rate of the optimiser; both kinds of Adam want about 0.004."""
    candidates: int = 10
    """How many items are drawn uniformly for each negative; the one with the best score is kept."""

    def _make_objective(self, given: Ingredients) -> Objective:
        """Return the pairwise logistic loss."""
        return objectives.bpr(given)

    def _make_sampler(self, given: Ingredients) -> Sampler:
        """Return the sampler that takes the best scored of some uniform draws."""
        return samplers.hardest(given, candidates=self.candidates)
