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
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

from sdgar.arguments import at_least, one_of, within
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.generator import Frozen, Scrambled
from sdgar.samplers.sampled_sums import SampledSums
from sdgar.settings import Group

if TYPE_CHECKING:
    from sdgar.contracts import Score
    from sdgar.parts import Ingredients
    from sdgar.samplers.generator import Mixture, Update

Target = Literal["kl", "linear"]
Integrand = Literal["loss", "deviation"]
Calibration = Literal["relative", "line", "literal"]
Ablation = Literal["none", "frozen", "scrambled"]

LEAST_LAMBDA, MOST_LAMBDA = 1e-4, 1e4

_LARGEST_EXPONENT = 80.0
"""The largest exponent: its exp is finite in float32, and so wide a softmax is one-hot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedForm(SampledSums):
    """The update that moves the generator to the closed-form optimum, X and Y in turn."""

    lambda_x: float
    """The temperature λ_X of the states of a context."""
    lambda_y: float
    """The temperature λ_Y of the items of a state."""
    target: Target
    """The sums that X and Y follow: ``kl`` divides the integrand by Q(i|c), ``linear`` is Eq. 7."""
    integrand: Integrand
    """The integrand h: ``deviation`` is |f - μ|, ``loss`` is f."""
    calibration: Calibration
    """The unit of λ_X and λ_Y: the largest b of each ``line``, the mean of these for ``relative``,
    or 1 for ``literal``."""

    def __post_init__(self) -> None:
        """Raise if a value is out of the range that was tried."""
        SampledSums.__post_init__(self)
        within("lambda_x", self.lambda_x, LEAST_LAMBDA, MOST_LAMBDA)
        within("lambda_y", self.lambda_y, LEAST_LAMBDA, MOST_LAMBDA)

    def __call__(self, generator: Mixture, score: Score, *, seed: int, epoch: int) -> None:
        """Update X and rebuild its tables, then Y; each uses fresh draws for Z and μ."""
        log_z_U, mu_U = self.partition_and_mean(generator, score, seed, epoch, part=0)
        log_b_UK = self.log_b(generator, score, log_z_U, mu_U, seed, epoch)
        generator.set_x(self.sharpen(log_b_UK, self.lambda_x, generator.x_UK, dim=1))
        if not generator.items_follow:
            return
        log_z_U, mu_U = self.partition_and_mean(generator, score, seed, epoch, part=2)
        log_d_IK = self.log_d(generator, score, log_z_U, mu_U, seed, epoch)
        if generator.exchange.leads:
            generator.set_y(self.sharpen(log_d_IK, self.lambda_y, generator.y_IK, dim=0))

    def sharpen(self, log_b: Tensor, lam: float, before: Tensor, *, dim: int) -> Tensor:
        """softmax(b / λ) along ``dim``, with λ in the unit of the calibration.

        A line (row of X or column of Y) whose b is not finite or is all 0 stays as it was, and
        does not count in a mean: one bad line must not spoil the others.
        """
        top = log_b.amax(dim=dim, keepdim=True)
        usable = torch.isfinite(top)
        if not usable.any():
            return before
        if self.calibration == "line":
            unit = top
        elif self.calibration == "relative":
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
        return self.target == "kl"

    def value(self, s: Tensor) -> Tensor:
        """f = softplus(g)."""
        return softplus(s)

    def log_h(self, f: Tensor, mu: Tensor) -> Tensor:
        """log |f - μ| as printed in the paper, or log f."""
        if self.integrand == "deviation":
            return (f - mu).abs().log()
        # log softplus(g) for very negative g is g itself, but f has underflowed by then; such an
        # item has no weight in any sum, which log 0 = -inf says as well.
        return f.log()


@dataclass(frozen=True, kw_only=True)
class ClosedFormSettings(Group):
    """The settings of a generator that follows by the paper's closed form."""

    states: int = 64
    """The number K of states of the generator."""
    samples: int = 64
    """How many draws there are for each context and each item in an update of the generator: |S_c|
    and |S_i|."""
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


def closed_form_generator(
    given: Ingredients,
    settings: ClosedFormSettings,
    *,
    temperature: float,
    ablation: Ablation = "none",
) -> Decomposable:
    """Return a generator that follows the discriminator by the paper's closed form."""
    target: Target = one_of("sampler__target", settings.target, ("kl", "linear"))
    integrand: Integrand = one_of("sampler__integrand", settings.integrand, ("loss", "deviation"))
    calibration: Calibration = one_of(
        "sampler__calibration", settings.calibration, ("relative", "line", "literal")
    )
    update: Update = ClosedForm(
        temperature=temperature,
        samples=at_least("sampler__samples", settings.samples, 1),
        lambda_x=settings.lambda_x,
        lambda_y=settings.lambda_y,
        target=target,
        integrand=integrand,
        calibration=calibration,
    )
    if ablation == "frozen":
        update = Frozen()
    elif ablation == "scrambled":
        update = Scrambled(update)
    return Decomposable.of(given, settings.states, update)
