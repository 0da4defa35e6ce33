"""LightGCN (He et al. 2020): vectors averaged along the graph of who has what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from sdgar.arguments import at_least
from sdgar.discriminators.vectors import Picks, Vectors, picked_values
from sdgar.errors import UsageError
from sdgar.maths.sparse import SparseMatrix

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions


class LightGCN(Vectors):
    """h and v are means over layers l = 0 … L of what neighbours pass on.

        u⁽ˡ⁺¹⁾ = R v⁽ˡ⁾,   v⁽ˡ⁺¹⁾ = R' u⁽ˡ⁾,   R_ci = 1 / √(|I_c| |C_i|) where c has i, else 0
        h_c = 1/(L + 1) Σ_l u_c⁽ˡ⁾,   v_i = 1/(L + 1) Σ_l v_i⁽ˡ⁾

    Only u⁽⁰⁾ and v⁽⁰⁾ are parameters. A step passes over the whole graph, so batches want to be
    large; the penalty is on the parameters of the rows a batch names.
    """

    def __init__(
        self, n_users: int, n_items: int, *, dim: int = 64, layers: int = 3, tau: float = 0.12
    ) -> None:
        super().__init__(n_items, tau=tau, dim=dim)
        self.layers = at_least("layers", layers, 0)
        self.user_UD = nn.Parameter(0.1 * torch.randn(n_users, dim))
        self.item_ID = nn.Parameter(0.1 * torch.randn(n_items, dim))
        self._items_of: SparseMatrix | None = None

    def prepare(self, data: Interactions) -> None:
        """Take the graph R and R' from the training data."""
        device = self.item_ID.device
        ones = SparseMatrix.of(data.indptr_U1, data.items_E, data.n_items, device=device)
        count_U, count_I = ones.length_R.float(), ones.transposed().length_R.float()
        weight_E = (count_U[ones.row_E] * count_I[ones.column_E]).rsqrt()
        self._items_of = SparseMatrix(ones.start_R1, ones.column_E, data.n_items, weight_E)
        self._users_of = self._items_of.transposed()

    def tables(self) -> tuple[Tensor, Tensor]:
        """Return h_UD and v_ID."""
        if self._items_of is None:
            raise UsageError(
                "LightGCN has no graph yet: call prepare(data) first.", code="no_graph"
            )
        u_UD: Tensor = self.user_UD
        v_ID: Tensor = self.item_ID
        sum_UD, sum_ID = u_UD, v_ID
        for _ in range(self.layers):
            u_UD, v_ID = (
                _product(self._items_of, self._users_of, v_ID),
                _product(self._users_of, self._items_of, u_UD),
            )
            sum_UD, sum_ID = sum_UD + u_UD, sum_ID + v_ID
        return sum_UD / (self.layers + 1), sum_ID / (self.layers + 1)

    def rows(self, users_B: Tensor, items_BN: Tensor) -> Picks:
        """Return the vectors of contexts, and of all items, which a step computes anyway."""
        h_UD, v_ID = self.tables()
        return Picks(h_UD.index_select(0, users_B), v_ID, items_BN)

    def penalty(self, context_B: Tensor, items_BN: Tensor) -> Tensor:
        """‖u⁽⁰⁾‖² + ‖v⁺⁽⁰⁾‖² + mean_j ‖v_j⁽⁰⁾‖², with biases."""
        norm_BN = picked_values(self.item_ID.square().sum(dim=1), items_BN)
        norm_B = self.user_UD.index_select(0, context_B).square().sum(dim=1) + norm_BN[:, 0]
        return super().penalty(context_B, items_BN) + norm_B + norm_BN[:, 1:].mean(dim=1)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """Move the graph with the parameters."""
        if self._items_of is not None:
            self._items_of, self._users_of = (
                SparseMatrix(fn(m.start_R1), fn(m.column_E), m.n_columns, fn(m.weights()))
                for m in (self._items_of, self._users_of)
            )
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]


class _Product(torch.autograd.Function):
    """The product R x, whose gradient is R' g."""

    @staticmethod
    def forward(ctx: Any, x_CD: Tensor, matrix: SparseMatrix, transposed: SparseMatrix) -> Tensor:
        ctx.transposed = transposed
        return matrix @ x_CD

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return ctx.transposed @ grads[0].contiguous(), None, None


def _product(matrix: SparseMatrix, transposed: SparseMatrix, x_CD: Tensor) -> Tensor:
    product: Tensor = _Product.apply(x_CD, matrix, transposed)  # type: ignore[no-untyped-call]
    return product
