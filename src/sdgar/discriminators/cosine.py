"""Factorization by angles: what the softmax objective likes best."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from sdgar.contracts import Factors
from sdgar.discriminators.embeddings import Embeddings
from sdgar.errors import UsageError


class Cosine(Embeddings):
    """s(c, i) = cos(u_c, v_i) / τ (+ b_i): popularity is in no norm, but may be in a bias."""

    def __init__(
        self,
        n_users: int,
        n_items: int,
        dim: int,
        *,
        seed: int,
        tau: float,
        init_scale: float = 1.0,
        sparse: bool = False,
        bias: bool = False,
    ) -> None:
        super().__init__(
            n_users, n_items, dim, seed=seed, init_scale=init_scale, sparse=sparse, bias=bias
        )
        if not 0 < tau < float("inf"):
            raise UsageError(f"tau must be a positive number, got {tau!r}.", code="bad_tau")
        self.tau = tau

    def score(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """s_BN of N items for each row."""
        return self._angles(*self._rows(users_B, items_BN)) + self._bias(items_BN)

    def score_and_penalty(self, users_B: Tensor, items_BN: Tensor) -> tuple[Tensor, Tensor]:
        """s_BN, and ‖u‖² + ‖v⁺‖² + mean_j ‖v_j‖² with b_i as one more number of v_i.

        Angles do not feel it, but steps do: a gradient of a cosine shrinks with the norm of its
        vector, so the norms set the size of the steps; without a penalty they only grow.
        """
        u_BD, v_BND = self._rows(users_B, items_BN)
        b_BN = self._bias(items_BN)
        norm_BN = v_BND.square().sum(dim=2) + b_BN.square()
        norm_B = u_BD.square().sum(dim=1) + norm_BN[:, 0] + norm_BN[:, 1:].mean(dim=1)
        return self._angles(u_BD, v_BND) + b_BN, norm_B

    def settle(self, users_B: Tensor, items_BN: Tensor) -> None:
        """Rows may be anywhere."""

    def factors(self) -> Factors:
        """(û/τ, v̂, b), detached."""
        user_UD, item_ID = (normalize(t.detach(), dim=1) for t in (self.user_UD, self.item_ID))
        bias_I = torch.zeros_like(item_ID[:, 0]) if self.bias_I is None else self.bias_I.detach()
        return Factors(user_UD / self.tau, item_ID, bias_I)

    def _angles(self, u_BD: Tensor, v_BND: Tensor) -> Tensor:
        u_BD, v_BND = normalize(u_BD, dim=1), normalize(v_BND, dim=2)
        return (u_BD[:, None] * v_BND).sum(dim=2) / self.tau
