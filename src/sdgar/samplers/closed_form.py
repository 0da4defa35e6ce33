"""The closed-form alternating update of the generator (Eq. 9, 11 and 12).

With f = softplus(g), P(i | c) ∝ exp(f_c(i)/T) and h = |f - μ_c| (as printed) or h = f:

    b_c  = Σ_i y_i P(i|c) h_c(i)          x_c = softmax(b_c / λ_X)          Eq. 9
    d_ki = Σ_c x_ck P(i|c) h_c(i)         y_k = softmax(d_k / λ_Y)          Eq. 11

The sums are estimated by sampling, see ``sampled_sums.py``.

Entries of Y are about 1/M, so with λ of order 1 taken literally softmax(b/λ) is uniform to many
digits and the update does nothing. ``calibration="relative"`` measures λ in units of b: the mean
over contexts of max_k b_ck (over states of max_i d_ki); ``"line"`` takes each line's own maximum
instead, so that one overestimated line cannot flatten all others. ``"literal"`` is as printed.

``target="kl"`` divides the integrand by Q(i|c), which makes b and d the gradient of
Σ_c Σ_i P h log Q, a projection; ``"linear"`` is Eq. 7 as printed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from sdgar.arguments import one_of, within
from sdgar.contracts import Score
from sdgar.maths.rng import Stream, sort_keys
from sdgar.samplers.decomposable import Decomposable, Update
from sdgar.samplers.sampled_sums import GeneratorSettings, SampledSums

if TYPE_CHECKING:
    from sdgar.parts import Ingredients

LEAST_LAMBDA, MOST_LAMBDA = 1e-4, 1e4

_LARGEST_EXPONENT = 80.0
"""The largest exponent: its exp is finite in float32, and so wide a softmax is one-hot."""


@dataclass(frozen=True, kw_only=True)
class ClosedFormSettings(GeneratorSettings):
    """The settings of a generator that follows by the paper's closed form."""

    lambda_x: float = 0.1
    """The weight of the entropy of x_c, the states of a context."""
    lambda_y: float = 1.0
    """The weight of the entropy of y_k, the items of a state."""
    target: str = "kl"
    """The quantity that the generator minimises: kl (the divergence from its target), or linear as
    in Eq. 7."""
    integrand: str = "loss"
    """The function of the loss that the generator follows: loss (h = f), or deviation (h = |f - μ|)
    as in Eq. 7."""
    calibration: str = "line"
    """The unit in which lambda_x and lambda_y are given: line (the largest b of each row of X or
    column of Y), relative (the mean of these), or literal (1, as printed in the paper)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedForm(SampledSums):
    """The update that moves the generator to the closed-form optimum, X and Y in turn."""

    settings: ClosedFormSettings
    """What X and Y follow, and how sharply."""

    def __post_init__(self) -> None:
        """Raise if a value is unknown, or out of the range that was tried."""
        SampledSums.__post_init__(self)
        how = self.settings
        within("lambda_x", how.lambda_x, LEAST_LAMBDA, MOST_LAMBDA)
        within("lambda_y", how.lambda_y, LEAST_LAMBDA, MOST_LAMBDA)
        one_of("sampler__target", how.target, ("kl", "linear"))
        one_of("sampler__integrand", how.integrand, ("loss", "deviation"))
        one_of("sampler__calibration", how.calibration, ("relative", "line", "literal"))

    def new_x(self, x_UK: Tensor, log_b_UK: Tensor) -> Tensor:
        """x_c = softmax(b_c / λ_X): Eq. 9."""
        return self.sharpen(log_b_UK, self.settings.lambda_x, x_UK, dim=1)

    def new_y(self, y_IK: Tensor, log_d_IK: Tensor) -> Tensor:
        """y_k = softmax(d_k / λ_Y): Eq. 11."""
        return self.sharpen(log_d_IK, self.settings.lambda_y, y_IK, dim=0)

    def sharpen(self, log_b: Tensor, lam: float, before: Tensor, *, dim: int) -> Tensor:
        """softmax(b / λ) along ``dim``, with λ in the unit of the calibration.

        A line (row of X or column of Y) whose b is not finite or is all 0 stays as it was, and
        does not count in a mean: one bad line must not spoil the others.
        """
        top = log_b.amax(dim=dim, keepdim=True)
        usable = torch.isfinite(top)
        if not usable.any():
            return before
        if self.settings.calibration == "line":
            unit = top
        elif self.settings.calibration == "relative":
            best = top[usable].max()
            unit = (top[usable] - best).exp().mean().log() + best
        else:
            unit = torch.zeros((), device=log_b.device)
        # Measured from the largest b of the line, so that no b/λ is too large for a float.
        scale = (top - unit - math.log(lam)).clamp(max=_LARGEST_EXPONENT).exp()
        # Only along the last axis torch adds up in one order for any number of threads.
        raised = (scale * (log_b - top).expm1()).transpose(dim, -1).contiguous()
        weight = raised.softmax(dim=-1).transpose(dim, -1)
        # An entry must not underflow to 0: what Q cannot draw, no importance weight can mend
        # (Proposition 2.1). The alias table gives the least positive weight one quantum.
        return torch.where(usable, weight.clamp(min=torch.finfo(weight.dtype).tiny), before)

    @property
    def over_q(self) -> bool:
        """True if the integrand is divided by Q(i|c), as for the KL target."""
        return self.settings.target == "kl"

    def value(self, s: Tensor) -> Tensor:
        """f = softplus(g)."""
        return softplus(s)

    def log_h(self, f: Tensor, mu: Tensor) -> Tensor:
        """log |f - μ| as printed in the paper, or log f."""
        if self.settings.integrand == "deviation":
            return (f - mu).abs().log()
        # log softplus(g) for very negative g is g itself, but f has underflowed by then; such an
        # item has no weight in any sum, which log 0 = -inf says as well.
        return f.log()


@dataclass(frozen=True, slots=True)
class Frozen:
    """The update that leaves the generator as it began, at random."""

    log_target: ClassVar[None] = None

    def __call__(self, generator: Decomposable, score: Score, *, seed: int, epoch: int) -> None:
        """Leave the generator as it is."""


@dataclass(frozen=True, slots=True)
class Scrambled:
    """The update that gives every context the states of another one.

    This leaves what the generator is worth when it is fitted, but not to the context at hand.
    """

    update: Update
    """The update whose states are scrambled."""

    def log_target(self, s: Tensor) -> Tensor:
        """log P(i | c) of the update whose states are then scrambled."""
        assert self.update.log_target is not None
        return self.update.log_target(s)

    def __call__(self, generator: Decomposable, score: Score, *, seed: int, epoch: int) -> None:
        """Update the generator, then deal the states to other contexts."""
        self.update(generator, score, seed=seed, epoch=epoch)
        rows = torch.arange(len(generator.x_UK), device=generator.x_UK.device)
        generator.permute_x(
            torch.argsort(sort_keys(seed, Stream.SCRAMBLE, epoch, rows), stable=True)
        )


def closed_form_generator(
    given: Ingredients,
    settings: ClosedFormSettings,
    *,
    temperature: float,
    kind: str = "decomposable",
) -> Decomposable:
    """Return a generator that follows by the paper's closed form, or an ablation of it."""
    update = ClosedForm(temperature=temperature, settings=settings)
    ablations: dict[str, Update] = {"frozen": Frozen(), "scrambled": Scrambled(update)}
    return Decomposable.of(given, settings.states, ablations.get(kind, update))
