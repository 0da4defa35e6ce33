"""Self-attentive sequences (Kang & McAuley 2018): from the items of a context to its vector.

Attention is computed by compiled kernels on a CPU, and elsewhere by torch's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, pad, relu, scaled_dot_product_attention

from sdgar.errors import UsageError
from sdgar.machine.threads import run_parts

_AT_ONCE = 1 << 18
"""The most places that are computed at once without a gradient."""
_SPREAD = 0.02
"""The standard deviation of the first vectors of items, where scores are inner products."""
_STEPS = 1 << 16
"""The steps in which a dropout rate is rounded."""


class InnerProducts(nn.Module):
    """s(c, i) = h_c · v_i + b_i; with τ > 0 instead cos(h_c, v_i)/τ + b_i."""

    def __init__(self, n_items: int, *, tau: float, **sizes: int) -> None:
        super().__init__()
        for name, size in sizes.items():
            if size < 1:
                raise UsageError(f"{name} must be at least 1, got {size}.", code="bad_size")
        if not 0 <= tau < float("inf"):
            raise UsageError(f"tau must be a number of at least 0, got {tau!r}.", code="bad_tau")
        self.tau = tau
        """The temperature of cosines; 0 for inner products."""
        self.bias_I = nn.Parameter(torch.zeros(n_items))

    def as_inner_product(self, h_UD: Tensor) -> Tensor:
        """h/(‖h‖ τ), which makes the cosine an inner product; h itself without τ."""
        return normalize(h_UD, dim=1) / self.tau if self.tau else h_UD


class Block(nn.Module):
    """x ← x + attention(x) from each place to those before it, then x ← x + W₂ relu(W₁ x)."""

    def __init__(self, dim: int, heads: int, length: int, rate: float, width: int) -> None:
        super().__init__()
        self.rate = rate
        self.before, self.between = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.query_key_value, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.back_HL = nn.Parameter(torch.zeros(heads, length))
        """The weight β of what came so many places before."""
        self.inner, self.outer = nn.Linear(dim, width * dim), nn.Linear(width * dim, dim)

    def forward(self, x_TD: Tensor, packed: PackedSequences) -> Tensor:
        """Compute all places."""
        mixed_TD = packed.attention(self.query_key_value(self.before(x_TD)), self.back_HL)
        x_TD = x_TD + self._drop(self.out(mixed_TD))
        y_TD = self.outer(self._drop(relu(self.inner(self.between(x_TD)))))
        return x_TD + self._drop(y_TD)

    def _drop(self, x: Tensor) -> Tensor:
        return dropped(x, self.rate) if self.training else x


class SequenceEncoder(InnerProducts):
    """h = the last place of some attentive blocks over the last items of the context.

        x_t = v_{i_t},   x ← block(x) …,   h_t = norm(x_t),   s = h · v_i + b_i (or a cosine)

    Blocks know how far apart two places are, and not where a sequence begins or ends. So h_t is
    what the sequence up to t alone would give, and all places of a sequence are computed in one
    pass. A context without items is the sequence of one empty place.
    """

    def __init__(
        self,
        n_users: int,
        n_items: int,
        *,
        dim: int = 64,
        blocks: int = 2,
        heads: int = 2,
        length: int = 50,
        width: int = 1,
        dropout: float = 0.2,
        tau: float = 0.12,
    ) -> None:
        sizes = {"dim": dim, "blocks": blocks, "heads": heads, "length": length, "width": width}
        super().__init__(n_items, tau=tau, **sizes)
        if not 0 <= dropout < 1:
            raise UsageError(f"dropout must be at least 0 and less than 1, got {dropout}.")
        if dim % heads:
            raise UsageError(f"dim must be a multiple of heads, got {dim} and {heads}.")
        self.n_users, self.empty, self.length, self.rate = n_users, n_items, length, dropout
        # A cosine does not depend on the length of vectors; inner products start near 0.
        spread = dim**-0.5 if tau else _SPREAD
        self.item_JD = nn.Parameter(spread * torch.randn(n_items + 1, dim))
        """The vectors of items; the last row is the vector of an empty place."""
        nn.init.zeros_(self.item_JD[-1])
        self.blocks = nn.ModuleList(
            Block(dim, heads, length, dropout, width) for _ in range(blocks)
        )
        self.norm = nn.LayerNorm(dim)

    def states(self, begin_S: Tensor, length_S: Tensor, item_J: Tensor) -> tuple[Tensor, Tensor]:
        """Return h_TD of every place of the sequences item_J[begin …], and where each begins."""
        packed = PackedSequences.of(length_S, self.item_JD.dtype)
        at_T = torch.repeat_interleave(begin_S, length_S) + packed.rank_T
        v_TD = self.item_JD.index_select(0, item_J[at_T])
        x_TD = dropped(v_TD, self.rate) if self.training else v_TD
        for block in self.blocks:
            x_TD = block(x_TD, packed)
        return self.norm(x_TD), packed.start_S

    def fold_in(self, start_T1: Tensor, item_E: Tensor) -> Tensor:
        """h_TD of users with these items, in the order of time."""
        return self.as_inner_product(self.encode_all(start_T1, item_E))

    def encode_all(self, start_U1: Tensor, item_E: Tensor) -> Tensor:
        """h_UD of users whose items are item_E[start_U1[u] … start_U1[u + 1]], before any τ."""
        return self.encode(start_U1[:-1], start_U1.diff(), pad(item_E, (0, 1), value=self.empty))

    def encode(self, start_B: Tensor, count_B: Tensor, item_J: Tensor) -> Tensor:
        """h_BD of the last of the items item_J[start … start + count]; after all is an empty one.

        A context without items is the sequence of that one.
        """
        length_B = count_B.clamp(max=self.length)
        begin_B = torch.where(count_B > 0, start_B + count_B - length_B, len(item_J) - 1)
        at_once = max(1, _AT_ONCE // self.length)
        sequences = torch.stack((begin_B, length_B.clamp(min=1)))
        parts = []
        for begin_S, length_S in sequences.split(at_once, dim=1):  # type: ignore[no-untyped-call]
            h_TD, start_S = self.states(begin_S, length_S, item_J)
            parts.append(h_TD[start_S + length_S - 1])
        return torch.cat(parts)


def dropped(x: Tensor, rate: float) -> Tensor:
    """x_n m_n / (1 - r) with m_n = 0 with probability r, else 1; r is a multiple of 2⁻¹⁶ below 1.

    Torch's generator makes one number at a time on a CPU, which is then most of the work. So four
    numbers of 16 bits come from one of 64.
    """
    dropped_of = min(round(rate * _STEPS), _STEPS - 1)
    if not dropped_of:
        return x
    words = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)
    # From the least value on, all 64 bits are random.
    words.random_(torch.iinfo(torch.int64).min, None)
    bits = words.view(torch.int16)[: x.numel()].view(x.shape)
    kept = (bits >= dropped_of - _STEPS // 2).to(x.dtype)
    return x * kept.mul_(_STEPS / (_STEPS - dropped_of))


@dataclass(frozen=True, slots=True)
class PackedSequences:
    """Places t = 0 … T - 1; the places of one sequence follow each other.

    What is computed of each place alone is computed of all T, without empty ones. So is attention
    on a CPU, by compiled kernels; torch's attention needs a rectangle with empty places.
    """

    start_S: Tensor
    """The first place of each sequence."""
    length_S: Tensor
    """The number of places of each sequence, at least 1."""
    rank_T: Tensor
    """How many places of the sequence come before each."""
    rectangle: Rectangle | None
    """How torch's attention finds the places; None where kernels attend."""

    @classmethod
    def of(cls, length_S: Tensor, dtype: torch.dtype) -> PackedSequences:
        """Pack sequences of these lengths, whose places have numbers of this type."""
        device = length_S.device
        start_S = length_S.cumsum(0) - length_S
        rank_T = torch.arange(int(length_S.sum()), device=device)
        rank_T = rank_T - torch.repeat_interleave(start_S, length_S)
        compiled = device.type == "cpu" and dtype == torch.float32
        rectangle = None if compiled else Rectangle.of(start_S, length_S, rank_T)
        return cls(start_S, length_S, rank_T, rectangle)

    def attention(self, query_key_value_TE: Tensor, bias_HL: Tensor) -> Tensor:
        """y_t = Σ_{t' ≤ t} softmax_t'(q_t · k_t' / √d + β_{t - t'}) v_t' in each head, as y_TD.

        The sums run over the places t' of the sequence of t.
        """
        if self.rectangle is not None:
            return self.rectangle.attention(query_key_value_TE, bias_HL)
        y_TD: Tensor = _Attention.apply(query_key_value_TE, bias_HL, self)  # type: ignore[no-untyped-call]
        return y_TD


class _Attention(torch.autograd.Function):
    """Attention and its gradients by ``kernels/numba/attention.py``."""

    @staticmethod
    def forward(ctx: Any, x_TE: Tensor, bias_HL: Tensor, packed: PackedSequences) -> Tensor:
        y_TD = x_TE.new_empty(len(x_TE), x_TE.shape[1] // 3)
        l_TH = x_TE.new_empty(len(x_TE), len(bias_HL))
        scratch_SL = x_TE.new_empty(len(packed.start_S), bias_HL.shape[1])
        _share("attend", packed, x_TE, bias_HL, y_TD, l_TH, scratch_SL)
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
    """Call a kernel in several threads, each for some of the sequences."""
    from sdgar.kernels.numba import attention

    length_S = packed.length_S
    scale = np.float32((x_TE.shape[1] // (3 * len(bias_HL))) ** -0.5)
    own, rest = (
        [t.detach().contiguous().numpy() for t in some]
        for some in ((packed.start_S, length_S, x_TE, bias_HL), others)
    )
    numbers = int((length_S * (length_S + 1)).sum()) // 2 * x_TE.shape[1]
    run_parts(getattr(attention, name), len(length_S), numbers, *own, scale, *rest)


@dataclass(frozen=True, slots=True)
class Rectangle:
    """The places of all sequences side by side, with empty places after their last ones."""

    place_SP: Tensor
    """The place t at each place of the rectangle; an empty one repeats the last."""
    at_T: Tensor
    """Where each place is found in the rectangle."""

    @classmethod
    def of(cls, start_S: Tensor, length_S: Tensor, rank_T: Tensor) -> Rectangle:
        """Lay out sequences of these lengths, which are at least 1."""
        width = int(length_S.max())
        rank_P = torch.arange(width, device=length_S.device)
        place_SP = start_S[:, None] + torch.minimum(rank_P, length_S[:, None] - 1)
        first_S = width * torch.arange(len(length_S), device=length_S.device)
        return cls(place_SP, torch.repeat_interleave(first_S, length_S) + rank_T)

    def attention(self, query_key_value_TE: Tensor, bias_HL: Tensor) -> Tensor:
        """Return y_TD as ``PackedSequences.attention`` defines it.

        Empty places come after all others of a sequence, so that none of these sees them.
        """
        heads, width = len(bias_HL), self.place_SP.shape[1]
        spread_ME = _Spread.apply(query_key_value_TE, self)  # type: ignore[no-untyped-call]
        parts = spread_ME.view(-1, width, 3, heads, spread_ME.shape[1] // (3 * heads))
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        back_PP = _distances(width, self.at_T.device)
        bias_HPP = pad(bias_HL[:, :width], (0, 1), value=-torch.inf)[:, back_PP]
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=bias_HPP[None])
        mixed_MD = mixed.transpose(1, 2).flatten(2).flatten(0, 1)
        mixed_TD: Tensor = _Gathered.apply(mixed_MD, self)  # type: ignore[no-untyped-call]
        return mixed_TD


class _Spread(torch.autograd.Function):
    """The values at the places of a rectangle; no gradient comes back from empty ones."""

    @staticmethod
    def forward(ctx: Any, x_TE: Tensor, places: Rectangle) -> Tensor:
        ctx.places = places
        return x_TE.index_select(0, places.place_SP.view(-1))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0].index_select(0, ctx.places.at_T), None


class _Gathered(torch.autograd.Function):
    """The values at places that are not empty; the gradient of empty ones is 0."""

    @staticmethod
    def forward(ctx: Any, x_ME: Tensor, places: Rectangle) -> Tensor:
        ctx.places, ctx.n_places = places, len(x_ME)
        return x_ME.index_select(0, places.at_T)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        grad_ME = grads[0].new_zeros(ctx.n_places, grads[0].shape[1])
        return grad_ME.index_copy_(0, ctx.places.at_T, grads[0]), None


def _distances(width: int, device: torch.device) -> Tensor:
    """t - t' of each pair of places, and ``width`` where t' comes after t."""
    place_P = torch.arange(width, device=device)
    back_PP = place_P[:, None] - place_P
    return torch.where(back_PP >= 0, back_PP, width)
