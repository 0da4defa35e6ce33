"""Matrix factorization, the paper's discriminator (section 3.2)."""

from __future__ import annotations

import torch
from torch import Tensor, gather, nn
from torch.nn.functional import embedding

from sdgar.contracts import Factors
from sdgar.errors import UsageError
from sdgar.rng import Stream, normal


class MatrixFactorization(nn.Module):
    """g(c, i) = u_c · v_i + b_i, with u and v drawn from N(0, σ²) and b = 0 at the start."""

    def __init__(
        self,
        n_users: int,
        n_items: int,
        dim: int,
        *,
        seed: int,
        init_scale: float = 0.1,
        sparse: bool = False,
    ) -> None:
        super().__init__()
        if dim < 1:
            raise UsageError(f"dim must be at least 1, got {dim}.", code="bad_dim")
        # σ shrinks with √D, so that a first score is of the same size at every D.
        sigma = init_scale / dim**0.5
        self.user_UD = nn.Parameter(_normal(seed, Stream.INIT_CONTEXT, n_users, dim, sigma))
        self.item_ID = nn.Parameter(_normal(seed, Stream.INIT_ITEM, n_items, dim, sigma))
        self.bias_I = nn.Parameter(torch.zeros(n_items))
        self._sparse = sparse
        """Whether gradients name the rows of a batch, for optimisers that move only those."""

    @property
    def n_items(self) -> int:
        """Number of items in the catalogue."""
        return self.item_ID.shape[0]

    @property
    def device(self) -> torch.device:
        """Where the parameters live."""
        return self.item_ID.device

    def score(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """s_BN of N items for each row."""
        u_BD, v_BND = self._rows(users_B, items_BN)
        return (u_BD[:, None] * v_BND).sum(dim=2) + self._bias(items_BN)

    def score_and_penalty(self, users_B: Tensor, items_BN: Tensor) -> tuple[Tensor, Tensor]:
        """s_BN, and ‖u‖² + ‖v⁺‖² + mean_j ‖v_j‖² with b_i as one more number of v_i."""
        u_BD, v_BND = self._rows(users_B, items_BN)
        b_BN = self._bias(items_BN)
        s_BN = (u_BD[:, None] * v_BND).sum(dim=2) + b_BN
        norm_BN = v_BND.square().sum(dim=2) + b_BN.square()
        norm_B = u_BD.square().sum(dim=1) + norm_BN[:, 0] + norm_BN[:, 1:].mean(dim=1)
        return s_BN, norm_B

    def settle(self, users_B: Tensor, items_BN: Tensor) -> None:
        """Rows may be anywhere."""

    def _rows(self, users_B: Tensor, items_BN: Tensor) -> tuple[Tensor, Tensor]:
        u_BD = embedding(users_B, self.user_UD, sparse=self._sparse)
        return u_BD, embedding(items_BN, self.item_ID, sparse=self._sparse)

    def _bias(self, items_BN: Tensor) -> Tensor:
        if self._sparse:
            return gather(self.bias_I, 0, items_BN.reshape(-1), sparse_grad=True).view_as(items_BN)
        return self.bias_I[items_BN]

    def score_all(self, users_B: Tensor) -> Tensor:
        """s_BI of the whole catalogue."""
        return self.factors().score_all(users_B)

    def factors(self) -> Factors:
        """The parameters, detached, as inner products."""
        return Factors(self.user_UD.detach(), self.item_ID.detach(), self.bias_I.detach())


def _normal(seed: int, stream: Stream, rows: int, dim: int, sigma: float) -> Tensor:
    return torch.from_numpy(normal(seed, stream, rows * dim)).reshape(rows, dim) * sigma
