"""The system SD-GAR of the paper, and the same with its equations as printed."""

from __future__ import annotations

from typing import ClassVar

from sdgar.arguments import at_least, one_of
from sdgar.contracts import Objective, Sampler
from sdgar.parts import objectives
from sdgar.parts.register import Ingredients
from sdgar.parts.samplers import STATIC, Ablation, closed_form_generator
from sdgar.systems.base import estimator
from sdgar.systems.factorized import Factorized
from sdgar.systems.spaces import STEPS, Choice, Space

_ABLATIONS: dict[str, Ablation] = {
    "decomposable": "none",
    "frozen": "frozen",
    "scrambled": "scrambled",
}
_GRID = Choice((0.1, 0.5, 1.0))


@estimator
class SDGAR(Factorized):
    """Sampling-decomposable generative adversarial recommender (Jin et al. 2020), Algorithm 1.

        Σ_{(c,i) ∈ S} ½ [softplus(-g(c, i)) + Σ_j w_j f_j],   f_j = softplus(g(c, j))      Eq. 4
        w_j ∝ exp(f_j / T) / Q(j | c),   j ~ Q(j | c) = Σ_k x_ck y_jk                      Eq. 6

    The generator Q proposes negatives in O(1) and follows the discriminator by closed-form updates;
    importance weights correct for what it cannot follow.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.SDGAR(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    system_name: ClassVar[str] = "sdgar"
    searched: ClassVar[Space] = {
        **STEPS,
        "temperature": _GRID,
        "lambda_x": _GRID,
        "lambda_y": _GRID,
    }
    l2_rule: ClassVar[float] = 0.07

    n_negatives: int = 5
    """How many negatives |S_c| are drawn for each positive."""
    temperature: float = 0.5
    """The temperature T of the distribution that the generator follows, P(i|c) ∝ exp(f_c(i)/T)."""
    hold_weights: bool = False
    """Whether the gradient stops at the importance weights."""
    proposal: str = "decomposable"
    """The part that proposes negatives: decomposable (the generator), or for ablations frozen
    (never updated), scrambled (updated, then dealt to other contexts), uniform or popularity."""
    states: int = 64
    """The number K of states of the generator."""
    refit_every: int = 5
    """How many epochs lie between two updates of the generator (l_g); the first update is before
    epoch 1."""
    lambda_x: float = 0.1
    """The weight of the entropy of x_c, the states of a context."""
    lambda_y: float = 1.0
    """The weight of the entropy of y_k, the items of a state."""
    generator_samples: int = 64
    """How many draws there are for each context and each item in an update of the generator: |S_c|
    and |S_i|."""
    target: str = "kl"
    """The quantity that the generator minimises: kl (the divergence from its target), or linear as
    in Eq. 7."""
    integrand: str = "loss"
    """The function of the loss that the generator follows: loss (h = f), or deviation (h = |f - μ|)
    as in Eq. 7."""
    calibration: str = "line"
    """The unit in which lambda_x and lambda_y are given: line (the largest b of each row of X or
    column of Y), relative (the mean of these), or literal (1, as printed in the paper)."""
    further_rate: float = 1.0
    """The learning rate of the first epoch that goes on from an earlier model over
    ``learning_rate``; it falls evenly to nothing."""

    def make_objective(self, given: Ingredients) -> Objective:
        """Return the logistic loss, whose negatives have importance weights."""
        return objectives.sdgar(given, temperature=self.temperature, hold_weights=self.hold_weights)

    def make_sampler(self, given: Ingredients) -> Sampler:
        """Return the generator, or the sampler that replaces it in an ablation."""
        one_of("proposal", self.proposal, (*_ABLATIONS, *STATIC))
        if self.proposal in STATIC:
            return STATIC[self.proposal](given)
        return closed_form_generator(
            given,
            states=self.states,
            samples=at_least("generator_samples", self.generator_samples, 1),
            temperature=self.temperature,
            lambda_x=self.lambda_x,
            lambda_y=self.lambda_y,
            target=one_of("target", self.target, ("kl", "linear")),
            integrand=one_of("integrand", self.integrand, ("loss", "deviation")),
            calibration=one_of("calibration", self.calibration, ("relative", "line", "literal")),
            ablation=_ABLATIONS[self.proposal],
        )

    def n_states(self) -> int:
        """Return the number K of states of the generator; 0 without one."""
        return 0 if self.proposal in STATIC else at_least("states", self.states, 1)


@estimator
class SDGARPrinted(SDGAR):
    """SD-GAR with Eq. 7 to 11 as printed: linear target, h = |f - μ|, λ taken literally.

    Its generator stays uniform to many digits (see ``samplers/closed_form.py``); this system is
    here to show that.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.SDGARPrinted(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    system_name: ClassVar[str] = "sdgar-printed"

    target: str = "linear"
    """The quantity that the generator minimises: linear as in Eq. 7, or kl."""
    integrand: str = "deviation"
    """The function of the loss that the generator follows: deviation (h = |f - μ|) as in Eq. 7, or
    loss (h = f)."""
    calibration: str = "literal"
    """The unit in which lambda_x and lambda_y are given: literal (1, as printed in the paper), line
    or relative."""
