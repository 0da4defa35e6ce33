"""Inner products of picked pairs of vectors, without a copy of the vectors of each pair."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sdgar.maths.sparse import SparseMatrix


class _Picked(torch.autograd.Function):
    """s_bn = h_b · v_{r(b, n)}; with G_br = Σ_{n: r(b, n) = r} g_bn, ∇h = G v and ∇v = G' h."""

    @staticmethod
    def forward(ctx: Any, h_BD: Tensor, v_RD: Tensor, row_BN: Tensor) -> Tensor:
        ctx.save_for_backward(h_BD, v_RD, row_BN)
        return _picks(row_BN, len(v_RD)).dots(h_BD, v_RD).view(row_BN.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        h_BD, v_RD, row_BN = ctx.saved_tensors
        picks = _picks(row_BN, len(v_RD), grads[0].contiguous().view(-1))
        return picks @ v_RD, picks.transposed() @ h_BD, None


def _picks(row_BN: Tensor, n_rows: int, weight_E: Tensor | None = None) -> SparseMatrix:
    b, n = row_BN.shape
    start_B1 = torch.arange(0, b * n + 1, n, device=row_BN.device)
    return SparseMatrix(start_B1, row_BN.reshape(-1), n_rows, weight_E)


def picked_products(h_BD: Tensor, v_RD: Tensor, row_BN: Tensor) -> Tensor:
    """s_bn = h_b · v_{r(b, n)}, with gradients that are summed in the order of the pairs."""
    product_BN: Tensor = _Picked.apply(h_BD, v_RD, row_BN)  # type: ignore[no-untyped-call]
    return product_BN


def picked_values(x_R: Tensor, row_BN: Tensor) -> Tensor:
    """x_{r(b, n)}, by the one way to pick whose gradient torch adds up in one quick pass."""
    return x_R.gather(0, row_BN.reshape(-1)).view_as(row_BN)
