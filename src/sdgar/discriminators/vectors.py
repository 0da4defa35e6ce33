"""Inner products of picked pairs of vectors, without a copy of the vectors of each pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from sdgar.maths.sparse import SparseMatrix
from sdgar.models.sequence import InnerProducts

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions


_SHORTEST = 1e-12
"""The least length that a vector is divided by, as in torch's ``normalize``."""


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


class _Cosine(torch.autograd.Function):
    """s_bn = h_b · v_r / ‖v_r‖ with r = r(b, n).

    With G_br = Σ_{n: r(b, n) = r} g_bn / ‖v_r‖ the gradients are ∇h = G v and
    ∇v_r = (G' h)_r - v_r Σ_{b, n: r(b, n) = r} g_bn s_bn / ‖v_r‖².
    """

    @staticmethod
    def forward(ctx: Any, h_BD: Tensor, v_RD: Tensor, row_BN: Tensor) -> Tensor:
        one_over_R = 1 / v_RD.norm(dim=1).clamp(min=_SHORTEST)
        s_BN = _picks(row_BN, len(v_RD)).dots(h_BD, v_RD).view(row_BN.shape)
        s_BN = s_BN * picked_values(one_over_R, row_BN)
        ctx.save_for_backward(h_BD, v_RD, row_BN, one_over_R, s_BN)
        return s_BN

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        h_BD, v_RD, row_BN, one_over_R, s_BN = ctx.saved_tensors
        (g_BN,) = grads
        scaled_BN = g_BN * picked_values(one_over_R, row_BN)
        picks = _picks(row_BN, len(v_RD), scaled_BN.view(-1))
        pull_BN = scaled_BN * s_BN
        pull_R = torch.zeros_like(one_over_R).scatter_add_(0, row_BN.reshape(-1), pull_BN.view(-1))
        grad_RD = picks.transposed() @ h_BD
        return picks @ v_RD, grad_RD.addcmul_(v_RD, (pull_R * one_over_R)[:, None], value=-1), None


def _picks(row_BN: Tensor, n_rows: int, weight_E: Tensor | None = None) -> SparseMatrix:
    b, n = row_BN.shape
    start_B1 = torch.arange(0, b * n + 1, n, device=row_BN.device)
    return SparseMatrix(start_B1, row_BN.reshape(-1), n_rows, weight_E)


def picked_products(h_BD: Tensor, v_RD: Tensor, row_BN: Tensor) -> Tensor:
    """s_bn = h_b · v_{r(b, n)}, with gradients that are summed in the order of the pairs."""
    product_BN: Tensor = _Picked.apply(h_BD, v_RD, row_BN)  # type: ignore[no-untyped-call]
    return product_BN


def picked_cosines(h_BD: Tensor, v_RD: Tensor, row_BN: Tensor) -> Tensor:
    """s_bn = h_b · v_r / ‖v_r‖ with r = r(b, n): ‖h_b‖ times the cosine."""
    cosine_BN: Tensor = _Cosine.apply(h_BD, v_RD, row_BN)  # type: ignore[no-untyped-call]
    return cosine_BN


def picked_values(x_R: Tensor, row_BN: Tensor) -> Tensor:
    """x_{r(b, n)}, by the one way to pick whose gradient torch adds up in one quick pass."""
    return x_R.gather(0, row_BN.reshape(-1)).view_as(row_BN)


class Picks(NamedTuple):
    """The vectors of a batch: h_b of each context, and v of the items that are picked for it."""

    h_BD: Tensor
    """The vectors of contexts."""
    v_RD: Tensor
    """The vectors of items, each of them once."""
    row_BN: Tensor
    """The rows of ``v_RD`` that are picked for each context."""


class Vectors(InnerProducts):
    """s(c, i) = h_c · v_i + b_i; with τ > 0 instead cos(h_c, v_i)/τ + b_i.

    A model says what h and v are: ``rows`` for the pairs of a batch, ``tables`` for all of them.
    """

    by_event: ClassVar[bool] = False
    """True if a training row has a separate context, such as the items before it."""
    looks_at_features: ClassVar[bool] = False
    """True if ``prepare`` takes the features of users and items."""

    def prepare(self, data: Interactions) -> None:
        """Keep what scores need of the training data, besides parameters."""

    def rows(self, users_B: Tensor, items_BN: Tensor) -> Picks:
        """Return the vectors of contexts and of items."""
        raise NotImplementedError

    def event_rows(self, rows_B: Tensor, items_BN: Tensor) -> Picks:
        """Return the same for training rows, if they have separate contexts."""
        raise NotImplementedError

    def tables(self) -> tuple[Tensor, Tensor]:
        """Return h_UD of all contexts and v_ID of all items."""
        raise NotImplementedError

    def penalty(self, context_B: Tensor, items_BN: Tensor) -> Tensor:
        """b⁺² + mean_j b_j², plus what a model adds."""
        square_BN = self._bias(items_BN).square()
        return square_BN[:, 0] + square_BN[:, 1:].mean(dim=1)

    def score(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """Return s_BN of N items for each context."""
        return self._score(self.rows(users_B, items_BN), items_BN)

    def score_event(self, rows_B: Tensor, items_BN: Tensor) -> Tensor:
        """Return s_BN of N items for the context of each training row."""
        return self._score(self.event_rows(rows_B, items_BN), items_BN)

    def vectors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return (h, v, b) as inner products."""
        h_UD, v_ID = self.tables()
        return (
            self.as_inner_product(h_UD),
            normalize(v_ID, dim=1) if self.tau else v_ID,
            self.bias_I,
        )

    def _score(self, picks: Picks, items_BN: Tensor) -> Tensor:
        h_BD, v_RD, row_BN = picks
        picked = picked_cosines if self.tau else picked_products
        return picked(self.as_inner_product(h_BD), v_RD, row_BN) + self._bias(items_BN)

    def _bias(self, items_BN: Tensor) -> Tensor:
        return picked_values(self.bias_I, items_BN)
