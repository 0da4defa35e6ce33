"""The system IRGAN: the minimax game of a generator and a discriminator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from sdgar.arguments import one_of
from sdgar.contracts import Objective, Recommending
from sdgar.data.interactions import Interactions
from sdgar.objectives import Logistic, checked_temperature
from sdgar.parts import Ingredients
from sdgar.samplers.policy_gradient import PolicyGradient, PolicySettings
from sdgar.samplers.softmax_generator import SoftmaxGenerator
from sdgar.systems.defaults import ROWS, STEPS, Choice, EarlyStopping, Range, Sampling, by_rows
from sdgar.systems.learner import Factorized
from sdgar.systems.parameters import estimator
from sdgar.systems.recipe import SystemSpec


@dataclass(frozen=True, kw_only=True)
class PolicySampling(PolicySettings, Sampling):
    """How IRGAN draws negatives: from a generator that learns by policy gradients."""

    temperature: float = 0.2
    """The temperature τ of the generator's proposals; the generator itself learns at τ = 1."""
    refit_every: int = 1
    """How many epochs of the discriminator lie between two updates of the generator."""


@estimator
class IRGAN(Factorized):
    """The minimax game of IRGAN (Wang et al. 2017): a generator of items against a discriminator.

    The generator is a softmax over all items, O(N·M·D) an epoch; it learns by REINFORCE what the
    discriminator takes for positives, and the discriminator learns to separate the two.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.IRGAN(dim=2, sampler__pretrain=1, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    _spec: ClassVar[SystemSpec] = replace(
        Factorized._spec,
        name="irgan",
        searched={
            **STEPS,
            "sampler__temperature": Choice((0.1, 0.2, 0.5, 1.0)),
            "sampler__learning_rate": Range(0.00003, 0.003),
            "sampler__l2": Range(0.01, 3.0),
        },
        rules={"l2": ROWS, "sampler__l2": ROWS},
    )

    batch_size: int = 8192
    side: str = "generator"
    """The side that recommends in the end: generator or discriminator."""
    sampler: PolicySampling = PolicySampling()
    """How the generator proposes negatives and learns."""
    # the generator is best early in its game
    early_stopping: EarlyStopping = EarlyStopping(every=1)

    def _make_objective(self, given: Ingredients) -> Objective:
        """Return the logistic loss."""
        return Logistic()

    def _make_sampler(self, given: Ingredients) -> SoftmaxGenerator:
        """Return the generator, a softmax over all items."""
        one_of("side", self.side, ("discriminator", "generator"))
        return SoftmaxGenerator(
            given.data.history,
            given.data.n_items,
            given.dim,
            seed=given.seed,
            temperature=checked_temperature(self.sampler.temperature),
            learning_rate=self.sampler.learning_rate,
            update=PolicyGradient(settings=self.sampler),
        )

    def _recommends(self, sampler: Any) -> Recommending | None:
        """Return the generator, unless the discriminator is to recommend."""
        return sampler if self.side == "generator" else None

    def _decided(self, data: Interactions) -> dict[str, Any]:
        """Return both λ by their rules, unless they are given."""
        mine = {"sampler__l2": by_rows(0.8, data)} if self.sampler.l2 is None else {}
        return super()._decided(data) | mine
