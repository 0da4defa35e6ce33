"""Objectives: from scores to one loss a row. Only the engine takes a mean."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import softplus

from sdgar.contracts import Negatives


@dataclass(frozen=True, slots=True)
class PairwiseLogistic:
    """Bayesian personalised ranking (Rendle et al. 2009), one value a row.

        l_b = mean_j softplus(-(s⁺_b - s_bj))

    over the accepted negatives j; 0 for a row that has none.
    """

    def __call__(self, pos_B: Tensor, neg_BN: Tensor, negatives: Negatives) -> Tensor:
        """loss_B."""
        accepted_BN = negatives.accepted_BN.to(neg_BN.dtype)
        loss_BN = softplus(neg_BN - pos_B[:, None]) * accepted_BN
        return loss_BN.sum(dim=1) / accepted_BN.sum(dim=1).clamp(min=1)
