"""Why a model gives a score: how much each item of the history speaks for an item.

    s_ci = Σ_{j ∈ I_c} share_ij + rest_i

Shares of weights between items are exact: they are the terms of the sum that the score is. A vector
u of a context is no such sum. It is compared with the vector that least squares finds for someone
who has these items, and that vector is a sum:

    M = Σ_{k ∈ I_c} v_k v_k' + λ I,   p = Σ_{j ∈ I_c} M^-1 v_j,   u = c p + r,   c = u · p / p · p

    share_ij = c v_i' M^-1 v_j,   rest_i = r · v_i + b_i

Items with a larger share are those without which a new vector would score the item lower.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Shares:
    """The scores of some items for one context, split up among the items that it has."""

    weights_BH: Tensor
    """The exact shares of the H items of the history by weights between items, for B items."""
    vectors_BH: Tensor
    """The shares of the same items by inner products of vectors."""
    rest_B: Tensor
    """The rest of each score, for which no item of the history stands, such as a bias."""

    @property
    def total_BH(self) -> Tensor:
        """The share of each item of the history, by weights and by vectors together."""
        return self.weights_BH + self.vectors_BH

    def plus(self, other: Shares, scale: float) -> Shares:
        """Give the shares of the sum a + scale b of two models."""
        return Shares(
            self.weights_BH + scale * other.weights_BH,
            self.vectors_BH + scale * other.vectors_BH,
            self.rest_B + scale * other.rest_B,
        )


def by_weights(weight_BH: Tensor) -> Shares:
    """Give the shares of a score that is a sum over the items of the history."""
    return Shares(weight_BH, torch.zeros_like(weight_BH), weight_BH.new_zeros(len(weight_BH)))


def by_vectors(u_D: Tensor, item_BD: Tensor, bias_B: Tensor, history_HD: Tensor) -> Shares:
    """Split u · v_i + b_i among the items of the history, whose vectors are given."""
    u_D, item_BD, bias_B, v_HD = (t.double() for t in (u_D, item_BD, bias_B, history_HD))
    score_B = item_BD @ u_D + bias_B
    if not v_HD.numel():
        none_BH = score_B.new_zeros(len(item_BD), len(v_HD))
        return Shares(none_BH, none_BH, score_B)
    # λ is the mean squared length of the vectors of the history.
    penalty = v_HD.square().sum(dim=1).mean() + torch.finfo(v_HD.dtype).tiny
    pull_DH = _pulls(v_HD, penalty)
    p_D = pull_DH.sum(dim=1)
    c = (u_D @ p_D) / (p_D @ p_D + torch.finfo(p_D.dtype).tiny)
    share_BH = c * (item_BD @ pull_DH)
    return Shares(torch.zeros_like(share_BH), share_BH, score_B - share_BH.sum(dim=1))


def _pulls(v_HD: Tensor, penalty: Tensor) -> Tensor:
    """M^-1 V' = V' (V V' + λ I)^-1: the smaller of both matrices is solved."""
    items, dim = v_HD.shape
    if items < dim:
        gram_HH = v_HD @ v_HD.T
        gram_HH.diagonal().add_(penalty)
        pull_HD: Tensor = torch.linalg.solve(gram_HH, v_HD)
        return pull_HD.T
    m_DD = v_HD.T @ v_HD
    m_DD.diagonal().add_(penalty)
    pull_DH: Tensor = torch.linalg.solve(m_DD, v_HD.T)
    return pull_DH
