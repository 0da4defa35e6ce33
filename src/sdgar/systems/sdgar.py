"""SD-GAR, the system of the paper; a variant with the paper's equations taken literally; and SA.

SA, self-adversarial sampling, has the objective of SD-GAR with uniform proposals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from sdgar.arguments import one_of
from sdgar.contracts import Objective, Sampler
from sdgar.objectives import sdgar
from sdgar.parts import Ingredients
from sdgar.samplers.closed_form import ClosedFormSettings, closed_form_generator
from sdgar.samplers.static import STATIC, Uniform
from sdgar.systems.defaults import STEPS, Choice, Sampling, WarmStart
from sdgar.systems.learner import Factorized
from sdgar.systems.parameters import estimator
from sdgar.systems.recipe import SystemSpec

_GENERATORS = ("decomposable", "frozen", "scrambled")
_GRID = Choice((0.1, 0.5, 1.0))


@dataclass(frozen=True, kw_only=True)
class ClosedFormSampling(ClosedFormSettings, Sampling):
    """How SD-GAR draws negatives: from a generator with closed-form updates."""

    leading: ClassVar[str] = "kind"

    kind: str = "decomposable"
    """The part that proposes negatives: decomposable (the generator), or for ablations frozen
    (never updated), scrambled (updated, then permuted among contexts), uniform or popularity."""
    refit_every: int = 5
    """How many epochs lie between two updates of the generator (l_g); the first update is before
    epoch 1."""


@estimator
class SDGAR(Factorized):
    """Sampling-decomposable generative adversarial recommender (Jin et al. 2020), Algorithm 1.

        Σ_{(c,i) ∈ S} ½ [softplus(-g(c, i)) + Σ_j w_j f_j],   f_j = softplus(g(c, j))      Eq. 4
        w_j ∝ exp(f_j / T) / Q(j | c),   j ~ Q(j | c) = Σ_k x_ck y_jk                      Eq. 6

    g are the scores of the discriminator, and S the positives with their negatives j. The generator
    Q, a mixture of K latent states k, proposes negatives in O(1) and follows the discriminator by
    closed-form updates; importance weights correct for the remaining difference.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.SDGAR(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    _spec: ClassVar[SystemSpec] = replace(
        Factorized._spec,
        name="sdgar",
        searched={
            **STEPS,
            "temperature": _GRID,
            "sampler__lambda_x": _GRID,
            "sampler__lambda_y": _GRID,
        },
        l2_scale=0.07,
    )

    n_negatives: int = 5
    """How many negatives |S_c| are drawn for each positive."""
    temperature: float = 0.5
    """The temperature T of the distribution that the generator follows, P(i|c) ∝ exp(f_c(i)/T)."""
    hold_weights: bool = False
    """Whether the gradient stops at the importance weights."""
    sampler: ClosedFormSampling = ClosedFormSampling()
    """How negatives are drawn."""
    warm_start: WarmStart = WarmStart(rate=1.0)

    def _make_objective(self, given: Ingredients) -> Objective:
        """Return the logistic loss, whose negatives have importance weights."""
        return sdgar(given, temperature=self.temperature, hold_weights=self.hold_weights)

    def _make_sampler(self, given: Ingredients) -> Sampler:
        """Return the generator, or the sampler that replaces it in an ablation."""
        kind = one_of("sampler", self.sampler.kind, _GENERATORS + tuple(STATIC))
        if kind in STATIC:
            return STATIC[kind](given)
        return closed_form_generator(given, self.sampler, temperature=self.temperature, kind=kind)


@estimator
class SDGARPrinted(SDGAR):
    """SD-GAR with Eq. 7 to 11 as printed: linear target, h = |f - μ|, λ taken literally.

    Its generator stays almost exactly uniform (see ``samplers/closed_form.py``), which this variant
    demonstrates.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.SDGARPrinted(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    _spec: ClassVar[SystemSpec] = replace(SDGAR._spec, name="sdgar-printed")

    sampler: ClosedFormSampling = ClosedFormSampling(
        target="linear", integrand="deviation", calibration="literal"
    )
    """How negatives are drawn: by Eq. 7 to 11."""


@estimator
class SA(Factorized):
    """Self-adversarial negative sampling (Sun et al. 2019): uniform negatives, reweighted.

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
    n_negatives: int = 5
    """How many negatives are drawn for each positive."""
    temperature: float = 0.25
    """The temperature T of the weights of negatives, ∝ exp(f/T) of their losses f; it
    corresponds to 1/α in the original."""

    def _make_objective(self, given: Ingredients) -> Objective:
        """Return the logistic loss, whose negatives have softmax weights that no gradient moves."""
        return sdgar(given, temperature=self.temperature, hold_weights=True)

    def _make_sampler(self, given: Ingredients) -> Sampler:
        """Return the sampler that draws uniformly from the items that a user does not have."""
        return Uniform()
