"""Attention within sequences of any lengths: by compiled kernels on a CPU, else by torch's own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from sdgar.machine.threads import share


@dataclass(frozen=True, slots=True)
class PackedSequences:
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
    def of(cls, length_S: Tensor, dtype: torch.dtype) -> PackedSequences:
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
    def forward(ctx: Any, x_TE: Tensor, bias_HL: Tensor, packed: PackedSequences) -> Tensor:
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


def _share(
    name: str, packed: PackedSequences, x_TE: Tensor, bias_HL: Tensor, *others: Tensor
) -> None:
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


@dataclass(frozen=True, slots=True)
class Rectangles:
    """The places of sequences of about one length together, with empty ones after their last."""

    groups: tuple[Tensor, ...]
    """The places of the sequences of each rectangle, t_CP; an empty one repeats the last."""
    at_T: Tensor
    """Where each place is found among those of all rectangles."""

    @classmethod
    def of(cls, start_S: Tensor, length_S: Tensor, rank_T: Tensor) -> Rectangles:
        """Lay out sequences of these lengths, which are at least 1.

        On a CPU the lengths of a rectangle are within a factor of two, as most sequences are short.
        A GPU is quicker with one rectangle.
        """
        device = length_S.device
        groups, first_S, before = [], torch.zeros_like(start_S), 0
        for some_C in _of_about_one_length(length_S):
            width = int(length_S[some_C].max())
            place_P = torch.arange(width, device=device)
            last_C1 = length_S[some_C, None] - 1
            groups.append(start_S[some_C, None] + torch.minimum(place_P, last_C1))
            first_S[some_C] = before + width * torch.arange(len(some_C), device=device)
            before += groups[-1].numel()
        at_T = torch.repeat_interleave(first_S, length_S) + rank_T
        return cls(tuple(groups), at_T)

    def attention(self, query_key_value_TE: Tensor, bias_HL: Tensor) -> Tensor:
        """Return y_TD as ``PackedSequences.attention`` defines it.

        Empty places come after all others of a sequence, so that none of these sees them.
        """
        heads = len(bias_HL)
        spread_ME = _Spread.apply(query_key_value_TE, self)  # type: ignore[no-untyped-call]
        sizes = [t_CP.numel() for t_CP in self.groups]
        parts = []
        for t_CP, some_ME in zip(self.groups, spread_ME.split(sizes), strict=True):
            width = t_CP.shape[1]
            together = some_ME.view(-1, width, 3, heads, some_ME.shape[1] // (3 * heads))
            query, key, value = together.permute(2, 0, 3, 1, 4)
            back_PP = _distances(width, t_CP.device)
            bias_HPP = pad(bias_HL[:, :width], (0, 1), value=-torch.inf)[:, back_PP]
            mixed = scaled_dot_product_attention(query, key, value, attn_mask=bias_HPP[None])
            parts.append(mixed.transpose(1, 2).flatten(2).flatten(0, 1))
        mixed_TD: Tensor = _Gathered.apply(torch.cat(parts), self)  # type: ignore[no-untyped-call]
        return mixed_TD

    def spread(self, x_TE: Tensor) -> Tensor:
        """Return x at the places of all rectangles; at an empty one, that of the last."""
        return x_TE.index_select(0, torch.cat([t_CP.view(-1) for t_CP in self.groups]))


class _Spread(torch.autograd.Function):
    """The values at the places of rectangles; no gradient comes back from empty ones."""

    @staticmethod
    def forward(ctx: Any, x_TE: Tensor, places: Rectangles) -> Tensor:
        ctx.places = places
        return places.spread(x_TE)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0].index_select(0, ctx.places.at_T), None


class _Gathered(torch.autograd.Function):
    """The values at places that are not empty; the gradient of empty ones is 0."""

    @staticmethod
    def forward(ctx: Any, x_ME: Tensor, places: Rectangles) -> Tensor:
        ctx.places, ctx.n_places = places, len(x_ME)
        return x_ME.index_select(0, places.at_T)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        grad_ME = grads[0].new_zeros(ctx.n_places, grads[0].shape[1])
        return grad_ME.index_copy_(0, ctx.places.at_T, grads[0]), None


def _of_about_one_length(length_S: Tensor) -> tuple[Tensor, ...]:
    if length_S.device.type != "cpu":
        return (torch.arange(len(length_S), device=length_S.device),)
    size_S = length_S.log2().ceil().int()
    counts = size_S.bincount().tolist()
    parts = size_S.argsort(stable=True).split(counts)  # type: ignore[no-untyped-call]
    return tuple(part for part in parts if len(part))


def _distances(width: int, device: torch.device) -> Tensor:
    """t - t' of each pair of places, and ``width`` where t' comes after t."""
    place_P = torch.arange(width, device=device)
    back_PP = place_P[:, None] - place_P
    return torch.where(back_PP >= 0, back_PP, width)
