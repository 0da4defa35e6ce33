"""How much each item of the history contributes to the score of an item.

    s_ci = Σ_{j ∈ I_c} share_ij + rest_i

Contributions by weights between items are exact: they are the terms of the sum that the score is. A
vector u of a context is no such sum. It is compared with the vector that least squares finds for
these items, and that vector is a sum:

    M = Σ_{k ∈ I_c} v_k v_k' + λ I,   p = Σ_{j ∈ I_c} M^-1 v_j,   u = c p + r,   c = u · p / p · p

    share_ij = c v_i' M^-1 v_j,   rest_i = r · v_i + b_i

Without an item of a larger share, a new vector would score the item lower.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Contributions:
    """The scores of some items for one context, split up among the items that it has."""

    weights_BH: Doubles
    """The exact contributions of H items of the history by weights between items, to B scores."""
    vectors_BH: Doubles
    """The contributions of the same items by inner products of vectors."""
    rest_B: Doubles
    """The rest of each score, such as a bias, to which no item of the history contributes."""

    @property
    def total_BH(self) -> Doubles:
        """The contribution of each item of the history, by weights and by vectors together."""
        return self.weights_BH + self.vectors_BH

    def plus(self, other: Contributions, scale: float) -> Contributions:
        """Return the contributions to the sum a + scale b of two models."""
        return Contributions(
            self.weights_BH + scale * other.weights_BH,
            self.vectors_BH + scale * other.vectors_BH,
            self.rest_B + scale * other.rest_B,
        )


def by_weights(weight_BH: NDArray[np.floating]) -> Contributions:
    """Return the contributions to a score that is a sum over the items of the history."""
    own_BH: Doubles = weight_BH.astype(np.float64)
    return Contributions(own_BH, np.zeros_like(own_BH), np.zeros(len(own_BH)))


def by_vectors(
    u_D: NDArray[np.floating],
    item_BD: NDArray[np.floating],
    bias_B: NDArray[np.floating],
    history_HD: NDArray[np.floating],
) -> Contributions:
    """Split u · v_i + b_i among the items of the history, whose vectors are given."""
    u_D, item_BD, bias_B, v_HD = (
        one.astype(np.float64) for one in (u_D, item_BD, bias_B, history_HD)
    )
    score_B = item_BD @ u_D + bias_B
    if not v_HD.size:
        none_BH = np.zeros((len(item_BD), len(v_HD)))
        return Contributions(none_BH, none_BH, score_B)
    tiny = np.finfo(np.float64).tiny
    # λ is the mean squared length of the vectors of the history.
    pull_DH = _pulls(v_HD, float(np.square(v_HD).sum(axis=1).mean() + tiny))
    p_D = pull_DH.sum(axis=1)
    c = (u_D @ p_D) / (p_D @ p_D + tiny)
    share_BH = c * (item_BD @ pull_DH)
    return Contributions(np.zeros_like(share_BH), share_BH, score_B - share_BH.sum(axis=1))


def _pulls(v_HD: Doubles, penalty: float) -> Doubles:
    """M^-1 V' = V' (V V' + λ I)^-1: the smaller of both matrices is solved."""
    items, dim = v_HD.shape
    if items < dim:
        pull_HD = np.linalg.solve(v_HD @ v_HD.T + penalty * np.eye(items), v_HD)
        return pull_HD.T.astype(np.float64)
    pull_DH = np.linalg.solve(v_HD.T @ v_HD + penalty * np.eye(dim), v_HD.T)
    return pull_DH.astype(np.float64)
