"""Sequences of any lengths, one after the other in one tensor, and attention within each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sdgar.machine.threads import share
from sdgar.models.networks.rectangles import Rectangles


@dataclass(frozen=True, slots=True)
class Packed:
    """Places t = 0 … T - 1, of which those of one sequence follow each other.

    What is computed of each place alone is computed of all T, without empty ones. So is attention
    on a CPU, by kernels of its own; torch's attention needs rectangles with empty places.
    """

    start_S: Tensor
    """The first place of each sequence."""
    length_S: Tensor
    """The number of places of each sequence, at least 1."""
    rank_T: Tensor
    """How many places of the sequence come before each."""
    rectangles: Rectangles | None
    """How torch's attention finds the places; None where kernels attend."""

    @classmethod
    def of(cls, length_S: Tensor, dtype: torch.dtype) -> Packed:
        """Pack sequences of these lengths, whose places have numbers of this type."""
        device = length_S.device
        start_S = length_S.cumsum(0) - length_S
        rank_T = torch.arange(int(length_S.sum()), device=device)
        rank_T = rank_T - torch.repeat_interleave(start_S, length_S)
        compiled = device.type == "cpu" and dtype == torch.float32 and _kernels() is not None
        rectangles = None if compiled else Rectangles.of(start_S, length_S, rank_T)
        return cls(start_S, length_S, rank_T, rectangles)

    def attention(self, query_key_value_TE: Tensor, bias_HL: Tensor) -> Tensor:
        """y_t = Σ_{t' ≤ t} softmax_t'(q_t · k_t' / √d + β_{t - t'}) v_t' in each head, as y_TD.

        The sums run over the places t' of the sequence of t.
        """
        if self.rectangles is not None:
            return self.rectangles.attention(query_key_value_TE, bias_HL)
        y_TD: Tensor = _Attention.apply(query_key_value_TE, bias_HL, self)  # type: ignore[no-untyped-call]
        return y_TD


class _Attention(torch.autograd.Function):
    """Attention and its gradients by ``kernels/numba/attention.py``."""

    @staticmethod
    def forward(ctx: Any, x_TE: Tensor, bias_HL: Tensor, packed: Packed) -> Tensor:
        y_TD = x_TE.new_empty(len(x_TE), x_TE.shape[1] // 3)
        l_TH = x_TE.new_empty(len(x_TE), len(bias_HL))
        room_SL = x_TE.new_empty(len(packed.start_S), bias_HL.shape[1])
        _share("attend", packed, x_TE, bias_HL, y_TD, l_TH, room_SL)
        ctx.packed = packed
        ctx.save_for_backward(x_TE, bias_HL, y_TD, l_TH)
        return y_TD

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        x_TE, bias_HL, y_TD, l_TH = ctx.saved_tensors
        grad_TE = torch.zeros_like(x_TE)
        grad_SHL = x_TE.new_zeros(len(ctx.packed.start_S), *bias_HL.shape)
        _share("slopes", ctx.packed, x_TE, bias_HL, y_TD, l_TH, grads[0], grad_TE, grad_SHL)
        return grad_TE, grad_SHL.sum(dim=0), None


def _share(name: str, packed: Packed, x_TE: Tensor, bias_HL: Tensor, *others: Tensor) -> None:
    """Let threads call a kernel for parts of the sequences."""
    kernels, length_S = _kernels(), packed.length_S
    scale = np.float32((x_TE.shape[1] // (3 * len(bias_HL))) ** -0.5)
    own, rest = (
        [t.detach().contiguous().numpy() for t in some]
        for some in ((packed.start_S, length_S, x_TE, bias_HL), others)
    )
    numbers = int((length_S * (length_S + 1)).sum()) // 2 * x_TE.shape[1]
    share(getattr(kernels, name), len(length_S), numbers, *own, scale, *rest)


@cache
def _kernels() -> Any:
    """Return the compiled kernels, or None if their compiler is not installed."""
    try:
        from sdgar.kernels.numba import attention
    except ImportError:
        return None
    return attention
