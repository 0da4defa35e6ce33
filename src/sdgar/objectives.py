"""Objectives turn scores into one loss a row; only the engine takes a mean.

The functions at the end make the objectives that are known by a name (``sdgar.parts``). Eq. 4 and
Proposition 2.3 are of the SD-GAR paper (Jin et al. 2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from sdgar.arguments import not_negative, within
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.contracts import Negatives
    from sdgar.parts import Ingredients

LEAST_TEMPERATURE, MOST_TEMPERATURE = 1e-3, 1e3
"""The range of temperatures that weights exp(f/T) can be computed with."""


class NoImportanceWeights:
    """The base class of losses that weight the negatives of a row equally."""

    __slots__ = ()

    def effective(self, neg_BN: Tensor, negatives: Negatives) -> None:
        """Return None, as there are no weights."""


@dataclass(frozen=True, slots=True)
class PairwiseLogistic(NoImportanceWeights):
    """Bayesian personalised ranking (Rendle et al. 2009), one value a row.

        l_b = mean_j softplus(-(s⁺_b - s_bj))

    over the accepted negatives j; 0 for a row that has none.
    """

    def __call__(self, pos_B: Tensor, neg_BN: Tensor, negatives: Negatives) -> Tensor:
        """Return loss_B."""
        return _mean_accepted(softplus(neg_BN - pos_B[:, None]), negatives)


@dataclass(frozen=True, slots=True)
class Logistic(NoImportanceWeights):
    """Logistic loss with equally weighted negatives, one value a row.

        l_b = ½ [softplus(-s⁺_b) + mean_j softplus(s_bj)]

    over the accepted negatives j: Eq. 4 at T → ∞ with uniform proposals.
    """

    def __call__(self, pos_B: Tensor, neg_BN: Tensor, negatives: Negatives) -> Tensor:
        """Return loss_B."""
        return 0.5 * (softplus(-pos_B) + _mean_accepted(softplus(neg_BN), negatives))


@dataclass(frozen=True, slots=True)
class Softmax(NoImportanceWeights):
    """Cross-entropy over all items, one value a row: nothing is drawn.

        l_b = log Σ_i exp(s_bi) - s⁺_b

    The eager engine takes it from the discriminator (``loss_over_all_items``), so that the scores
    of all items are never in memory at once. Given the scores of all other items it is the same.
    """

    over_all_items: ClassVar[bool] = True

    def __call__(self, pos_B: Tensor, neg_BN: Tensor, negatives: Negatives) -> Tensor:
        """Return loss_B, of rows whose negatives are all other items."""
        return torch.cat((pos_B[:, None], neg_BN), dim=1).logsumexp(dim=1) - pos_B


@dataclass(frozen=True, slots=True)
class WeightedLogistic:
    """Importance-weighted logistic loss (Eq. 4), one value a row.

        w_bj ∝ exp(f_bj / T - log Q(j|c)),   Σ_j w_bj = 1,   f = softplus(s)
        l_b  = ½ [softplus(-s⁺_b) + Σ_j w_bj f_bj]

    over the accepted negatives j. With uniform proposals, T → 0 is dynamic negative sampling
    and T → ∞ weights all equally (Proposition 2.3); with ``hold_weights`` (no gradient through w)
    it is self-adversarial sampling.
    """

    needs_log_q: ClassVar[bool] = True
    temperature: float
    """The temperature T of the weights."""
    hold_weights: bool = False
    """Whether the gradient stops at w, as in self-adversarial sampling; in SD-GAR it does not."""

    def __call__(self, pos_B: Tensor, neg_BN: Tensor, negatives: Negatives) -> Tensor:
        """Return loss_B."""
        f_BN = softplus(neg_BN)
        weight_BN = self.weights(neg_BN, negatives)
        if self.hold_weights:
            weight_BN = weight_BN.detach()
        return 0.5 * (softplus(-pos_B) + (weight_BN * f_BN).sum(dim=1))

    def weights(self, neg_BN: Tensor, negatives: Negatives) -> Tensor:
        """Return w_BN; all 0 in a row without an accepted negative."""
        a_BN = softplus(neg_BN) / self.temperature - _log_q(negatives)
        return _weights(_masked(a_BN, negatives), negatives)

    def effective(self, neg_BN: Tensor, negatives: Negatives) -> Tensor:
        """1 / Σ_j w_j²; 0 in a row without an accepted negative."""
        return _effective_negatives(self.weights(neg_BN, negatives))


@dataclass(frozen=True, slots=True)
class SampledSoftmax:
    """Softmax over items with an importance-sampled partition function, one value a row.

        Ẑ_b = 1/n Σ_j exp(s_bj - log Q(j|c)),   l_b = -s⁺_b / ρ + log Ẑ_b

    over the n accepted negatives j; 0 for a row that has none. Ẑ estimates the sum over the items
    that are unknown to the context: neither the positive itself nor its other positives are in it,
    so no positive of a user is pushed down by the loss of another one. The gradient of log Ẑ has
    weights w_j ∝ exp(s_j - log Q(j|c)); adding a constant to log Q of a row does not change it.
    """

    needs_log_q: ClassVar[bool] = True
    rho: float = 1.0
    """The ratio ρ = τ⁺/τ of the temperatures of positives and negatives (Wu et al. 2024, BSL)."""

    def __post_init__(self) -> None:
        """Raise unless rho is a positive, finite number."""
        if not 0 < self.rho < float("inf"):
            raise UsageError(f"rho must be a positive number, got {self.rho!r}.", code="bad_rho")

    def __call__(self, pos_B: Tensor, neg_BN: Tensor, negatives: Negatives) -> Tensor:
        """Return loss_B."""
        a_BN, n_B = self._log_ratios(neg_BN, negatives), negatives.accepted_BN.sum(dim=1)
        loss_B = a_BN.logsumexp(dim=1) - n_B.clamp(min=1).log() - pos_B / self.rho
        return torch.where(n_B > 0, loss_B, 0.0)

    def effective(self, neg_BN: Tensor, negatives: Negatives) -> Tensor:
        """1 / Σ_j w_j²; 0 in a row without an accepted negative."""
        return _effective_negatives(_weights(self._log_ratios(neg_BN, negatives), negatives))

    def _log_ratios(self, neg_BN: Tensor, negatives: Negatives) -> Tensor:
        return _masked(neg_BN - _log_q(negatives), negatives)


@dataclass(frozen=True, slots=True)
class WarpHinge(NoImportanceWeights):
    """WARP (Weston et al. 2010) as LightFM computes it, one value a row.

        rank_b = ⌊(M - 1) / tries_b⌋,   M the number of items
        l_b    = log(max(1, rank_b)) [margin + s_bj - s⁺_b]₊

    j is the violation that the search found, in a row's ``tries_B`` draws; 0 for a row that has
    none. The log instead of Weston's Σ_{r ≤ rank} 1/r is LightFM's. Its limit of 10 on the
    weight is left out: it matters only above 22,026 items, where it would blur the best ranks.
    """

    needs_tries: ClassVar[bool] = True
    needs_uniform_negatives: ClassVar[bool] = True
    margin: float
    """The lead over a negative that a positive should have."""
    n_items: int
    """The number of items."""

    def __call__(self, pos_B: Tensor, neg_BN: Tensor, negatives: Negatives) -> Tensor:
        """Return loss_B."""
        if negatives.tries_B is None:
            raise UsageError(
                "WARP needs the number of tries. Use a sampler that counts it: first-violation.",
                code="no_tries",
            )
        # Integer division: a float quotient could be rounded to just below the integer.
        rank_B = ((self.n_items - 1) // negatives.tries_B).clamp(min=1)
        return rank_B.to(pos_B.dtype).log() * _hardest_hinge(self.margin, pos_B, neg_BN, negatives)


@dataclass(frozen=True, slots=True)
class CmlHinge(NoImportanceWeights):
    """The loss of collaborative metric learning (Hsieh et al. 2017), one value a row.

        rank_b = ⌊M · share of the accepted j with margin + s_bj - s⁺_b > 0⌋
        l_b    = log(rank_b + 1) [margin + max_j s_bj - s⁺_b]₊

    over the accepted negatives j; 0 for a row that has none. Only the hardest of them gets a
    gradient, as in the authors' code; the rank weight has none, because the rank is an integer.
    """

    needs_uniform_negatives: ClassVar[bool] = True
    margin: float
    """The lead over a negative that a positive should have."""
    n_items: int
    """The number of items."""

    def __call__(self, pos_B: Tensor, neg_BN: Tensor, negatives: Negatives) -> Tensor:
        """Return loss_B."""
        accepted_BN = negatives.accepted_BN
        impostor_BN = (self.margin + neg_BN - pos_B[:, None] > 0) & accepted_BN
        rank_B = self.n_items * impostor_BN.sum(dim=1) // accepted_BN.sum(dim=1).clamp(min=1)
        weight_B = rank_B.to(pos_B.dtype).log1p()
        return weight_B * _hardest_hinge(self.margin, pos_B, neg_BN, negatives)


def _hardest_hinge(margin: float, pos_B: Tensor, neg_BN: Tensor, negatives: Negatives) -> Tensor:
    """[margin + max_j s_bj - s⁺_b]₊ over the accepted negatives; 0 for a row that has none."""
    accepted_s_BN = torch.where(negatives.accepted_BN, neg_BN, -torch.inf)
    return (margin + accepted_s_BN.max(dim=1).values - pos_B).relu()


def _log_q(negatives: Negatives) -> Tensor:
    if negatives.log_q_BN is None:
        raise UsageError(
            "importance weights need log Q, and this sampler does not know its "
            "probabilities. Use a sampler that does, such as uniform or decomposable.",
            code="no_log_q",
        )
    return negatives.log_q_BN


def _masked(a_BN: Tensor, negatives: Negatives) -> Tensor:
    """Mask what is not accepted by a finite floor: a row of -inf has a NaN gradient."""
    return torch.where(negatives.accepted_BN, a_BN, torch.finfo(a_BN.dtype).min)


def _weights(a_BN: Tensor, negatives: Negatives) -> Tensor:
    return a_BN.softmax(dim=1) * negatives.accepted_BN


def _effective_negatives(weight_BN: Tensor) -> Tensor:
    square_B = weight_BN.square().sum(dim=1)
    return torch.where(square_B > 0, 1 / square_B.clamp(min=1e-12), 0.0)


def _mean_accepted(loss_BN: Tensor, negatives: Negatives) -> Tensor:
    accepted_BN = negatives.accepted_BN.to(loss_BN.dtype)
    return (loss_BN * accepted_BN).sum(dim=1) / accepted_BN.sum(dim=1).clamp(min=1)


def bpr(given: Ingredients) -> PairwiseLogistic:
    """Return the BPR loss: each positive should score above its negatives."""
    return PairwiseLogistic()


def logistic(given: Ingredients) -> Logistic:
    """Return the logistic loss of positives against negatives."""
    return Logistic()


def sdgar(
    given: Ingredients, *, temperature: float = 0.5, hold_weights: bool = False
) -> WeightedLogistic:
    """Return the SD-GAR loss: a logistic loss with importance-weighted negatives."""
    return WeightedLogistic(checked_temperature(temperature), hold_weights)


def sdsoftmax(given: Ingredients, *, rho: float = 1.0) -> SampledSoftmax:
    """Return the sampled-softmax loss, whose sum over unknown items is estimated from negatives."""
    return SampledSoftmax(rho)


def warp(given: Ingredients, *, margin: float = 1.0) -> WarpHinge:
    """Return the WARP loss: a hinge weighted by the rank that the number of tries estimates."""
    return WarpHinge(not_negative("margin", margin), given.data.n_items)


def cml(given: Ingredients, *, margin: float = 1.0) -> CmlHinge:
    """Return the CML loss: a hinge weighted by the rank that the negatives estimate."""
    return CmlHinge(not_negative("margin", margin), given.data.n_items)


def checked_temperature(value: float) -> float:
    """Return ``value`` if weights exp(f/T) can be computed with it; raise otherwise."""
    return within("temperature", value, LEAST_TEMPERATURE, MOST_TEMPERATURE)
