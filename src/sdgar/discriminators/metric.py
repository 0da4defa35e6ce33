"""Points in a unit ball, the model of collaborative metric learning (Hsieh et al. 2017)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from sdgar.discriminators.embeddings import Embeddings
from sdgar.models.factor_tensors import FactorTensors

if TYPE_CHECKING:
    from sdgar.parts import Ingredients


class Metric(Embeddings):
    """Nearer is better: s(c, i) = ‖u_c‖² - ‖u_c - v_i‖² = 2 u_c · v_i - ‖v_i‖².

    It differs from the negative squared distance by ‖u_c‖² only, a constant of the context that
    neither a ranking nor a loss of differences sees, and is an inner product with a bias.
    All points lie in the unit ball, ‖u_c‖ <= 1 and ‖v_i‖ <= 1: a step that leaves it is followed
    by a projection. They start spread over it, from N(0, 1/D), as in the authors' code.
    """

    def __init__(
        self,
        n_users: int,
        n_items: int,
        dim: int,
        *,
        seed: int,
        init_scale: float = 1.0,
        sparse: bool = False,
    ) -> None:
        super().__init__(n_users, n_items, dim, seed=seed, init_scale=init_scale, sparse=sparse)
        for table in (self.user_UD, self.item_ID):
            _project(table, slice(None))

    def score(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """Return s_BN of N items for each row."""
        return _nearness(*self._rows(users_B, items_BN))

    def score_and_penalty(self, users_B: Tensor, items_BN: Tensor) -> tuple[Tensor, Tensor]:
        """Return s_BN, and how redundant the D axes are in this batch, one value for all rows.

            C = 1/n Σ_y (y - μ)(y - μ)',   penalty = ‖C‖² - ‖diag C‖²

        over the n vectors y of the batch's contexts and items, as often as they occur in it. The
        paper divides by n once more, and adds it to a sum over rows, where an engine takes a
        mean. The authors' code has the plain sum of the off-diagonal entries of C instead,
        positive ones against negative ones, which has no lower bound at independent axes.
        """
        u_BD, v_BND = self._rows(users_B, items_BN)
        y_RD = torch.cat((u_BD, v_BND.flatten(0, 1)))
        y_RD = y_RD - y_RD.mean(dim=0)
        c_DD = y_RD.T @ y_RD / len(y_RD)
        penalty = (c_DD - c_DD.diagonal().diag()).square().sum()
        return _nearness(u_BD, v_BND), penalty.expand(len(users_B))

    def project(self, users_B: Tensor, items_BN: Tensor) -> None:
        """Project the rows that moved onto the unit ball: all of them, after a dense optimiser."""
        _project(self.user_UD, users_B if self._sparse else slice(None))
        _project(self.item_ID, items_BN.reshape(-1) if self._sparse else slice(None))

    def factors(self) -> FactorTensors:
        """Return (2u, v, -‖v‖²), detached."""
        user_UD, item_ID = self.user_UD.detach(), self.item_ID.detach()
        return FactorTensors(2 * user_UD, item_ID, -item_ID.square().sum(dim=1))

    def take(self, model: FactorTensors) -> None:
        """Set the points from a model that ``factors`` returned."""
        super().take(replace(model, user_UD=model.user_UD / 2))


def _nearness(u_BD: Tensor, v_BND: Tensor) -> Tensor:
    return ((2 * u_BD[:, None] - v_BND) * v_BND).sum(dim=2)


@torch.no_grad()
def _project(table: nn.Parameter, rows: Tensor | slice) -> None:
    """Divide each y by max(1, ‖y‖). A row that is named twice gets the same value twice."""
    y_RD = table[rows]
    table[rows] = y_RD / y_RD.norm(dim=1, keepdim=True).clamp(min=1)


def metric(given: Ingredients) -> Metric:
    """Return points in a unit ball, where nearer is better."""
    data = given.data
    return Metric(data.n_users, data.n_items, given.dim, seed=given.seed, sparse=given.row_wise)
