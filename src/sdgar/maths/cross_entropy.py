"""Cross-entropy over all items, without the matrix of all scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

_SCORES = 1 << 23
"""The most scores that are in memory at once."""


def cross_entropy(h_BD: Tensor, v_ID: Tensor, bias_I: Tensor, items_B: Tensor) -> Tensor:
    """l_b = log Σ_i exp(s_bi) - s_b,i(b) with s_bi = h_b · v_i + b_i.

    The scores of some rows at a time are computed, once for the loss and once for its gradients.
    """
    loss_B: Tensor = _CrossEntropy.apply(h_BD, v_ID, bias_I, items_B)  # type: ignore[no-untyped-call]
    return loss_B


class _CrossEntropy(torch.autograd.Function):
    """With p = softmax(s) and e_b the unit vector of item i(b), s has the gradient p - e."""

    @staticmethod
    def forward(ctx: Any, h_BD: Tensor, v_ID: Tensor, bias_I: Tensor, items_B: Tensor) -> Tensor:
        log_sum_B = torch.empty_like(h_BD[:, 0])
        loss_B = torch.empty_like(log_sum_B)
        for some in _parts(len(h_BD), len(v_ID)):
            s_CI = torch.addmm(bias_I, h_BD[some], v_ID.T)
            log_sum_B[some] = s_CI.logsumexp(dim=1)
            own_C1 = s_CI.gather(1, items_B[some, None])
            loss_B[some] = log_sum_B[some] - own_C1[:, 0]
        ctx.save_for_backward(h_BD, v_ID, bias_I, items_B, log_sum_B)
        return loss_B

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        h_BD, v_ID, bias_I, items_B, log_sum_B = ctx.saved_tensors
        grad_B1 = grads[0][:, None]
        grad_BD, grad_ID = torch.empty_like(h_BD), torch.zeros_like(v_ID)
        grad_I = torch.zeros_like(bias_I)
        for some in _parts(len(h_BD), len(v_ID)):
            p_CI = torch.addmm(bias_I, h_BD[some], v_ID.T)
            p_CI.sub_(log_sum_B[some, None]).exp_().mul_(grad_B1[some])
            p_CI.scatter_add_(1, items_B[some, None], -grad_B1[some])
            torch.mm(p_CI, v_ID, out=grad_BD[some])
            grad_ID.addmm_(p_CI.T, h_BD[some])
            grad_I += p_CI.sum(dim=0)
        return grad_BD, grad_ID, grad_I, None


def _parts(n_rows: int, n_items: int) -> Iterator[slice]:
    at_once = max(1, _SCORES // n_items)
    for start in range(0, n_rows, at_once):
        yield slice(start, min(start + at_once, n_rows))
