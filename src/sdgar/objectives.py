"""Objectives: from scores to one loss a row. Only the engine takes a mean."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from sdgar.contracts import Negatives
from sdgar.errors import UsageError


@dataclass(frozen=True, slots=True)
class PairwiseLogistic:
    """Bayesian personalised ranking (Rendle et al. 2009), one value a row.

        l_b = mean_j softplus(-(s⁺_b - s_bj))

    over the accepted negatives j; 0 for a row that has none.
    """

    def __call__(self, pos_B: Tensor, neg_BN: Tensor, negatives: Negatives) -> Tensor:
        """loss_B."""
        return _mean_accepted(softplus(neg_BN - pos_B[:, None]), negatives)

    def effective(self, neg_BN: Tensor, negatives: Negatives) -> None:
        """Nothing is weighted."""


@dataclass(frozen=True, slots=True)
class Logistic:
    """Logistic loss with negatives that all count alike, one value a row.

        l_b = ½ [softplus(-s⁺_b) + mean_j softplus(s_bj)]

    over the accepted negatives j: Eq. 4 at T → ∞ with uniform proposals.
    """

    def __call__(self, pos_B: Tensor, neg_BN: Tensor, negatives: Negatives) -> Tensor:
        """loss_B."""
        return 0.5 * (softplus(-pos_B) + _mean_accepted(softplus(neg_BN), negatives))

    def effective(self, neg_BN: Tensor, negatives: Negatives) -> None:
        """Nothing is weighted."""


@dataclass(frozen=True, slots=True)
class WeightedLogistic:
    """Importance-weighted logistic loss (Eq. 4), one value a row.

        w_bj ∝ exp(f_bj / T - log Q(j|c)),   Σ_j w_bj = 1,   f = softplus(s)
        l_b  = ½ [softplus(-s⁺_b) + Σ_j w_bj f_bj]

    over the accepted negatives j. With uniform proposals, T → 0 is dynamic negative sampling
    and T → ∞ weighs all alike (Proposition 2.3); with held weights it is self-adversarial
    sampling.
    """

    temperature: float
    hold_weights: bool = False
    """Stop the gradient at w, as self-adversarial sampling does; SD-GAR does not."""

    def __call__(self, pos_B: Tensor, neg_BN: Tensor, negatives: Negatives) -> Tensor:
        """loss_B."""
        f_BN = softplus(neg_BN)
        weight_BN = self.weights(neg_BN, negatives)
        if self.hold_weights:
            weight_BN = weight_BN.detach()
        return 0.5 * (softplus(-pos_B) + (weight_BN * f_BN).sum(dim=1))

    def weights(self, neg_BN: Tensor, negatives: Negatives) -> Tensor:
        """w_BN; all 0 in a row without an accepted negative."""
        if negatives.log_q_BN is None:
            raise UsageError(
                "importance weights need log Q, and this sampler does not know its "
                "probabilities. Use a sampler that does, such as uniform or decomposable.",
                code="no_log_q",
            )
        a_BN = softplus(neg_BN) / self.temperature - negatives.log_q_BN
        # A finite floor instead of -inf: a row of -inf would be 0/0, with a NaN gradient.
        floor = torch.finfo(a_BN.dtype).min
        a_BN = torch.where(negatives.accepted_BN, a_BN, floor)
        return a_BN.softmax(dim=1) * negatives.accepted_BN

    def effective(self, neg_BN: Tensor, negatives: Negatives) -> Tensor:
        """1 / Σ_j w_j²; 0 in a row without an accepted negative."""
        square_B = self.weights(neg_BN, negatives).square().sum(dim=1)
        return torch.where(square_B > 0, 1 / square_B.clamp(min=1e-12), 0.0)


def _mean_accepted(loss_BN: Tensor, negatives: Negatives) -> Tensor:
    accepted_BN = negatives.accepted_BN.to(loss_BN.dtype)
    return (loss_BN * accepted_BN).sum(dim=1) / accepted_BN.sum(dim=1).clamp(min=1)
