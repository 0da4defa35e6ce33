"""Draw from a softmax over all items on a GPU, without writing the scores of all items.

The first kernel computes scores block by block, and writes of each block of items its largest score
and its sum. The second computes once more the one block that a draw falls into. See
``samplers/inverse_cdf.py`` for how a block is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from sdgar.kernels.triton.mixtures import on

_CONTEXTS = 16
"""The contexts whose scores of a block are computed together."""


@triton.jit
def _is_known(known_CW: tl.tensor, at: tl.tensor, item: tl.tensor, wanted: tl.tensor) -> tl.tensor:
    word = tl.load(known_CW + at + item // 32, mask=wanted, other=0)
    return ((word >> (item % 32)) & 1) == 1


@triton.jit(do_not_specialize=["n_contexts", "n_items"])
def _block_sums(
    top_CK: tl.tensor,
    sum_CK: tl.tensor,
    context_C: tl.tensor,
    known_CW: tl.tensor,
    user_UD: tl.tensor,
    item_ID: tl.tensor,
    bias_I: tl.tensor,
    over_tau: tl.tensor,
    n_contexts: tl.tensor,
    n_items: tl.tensor,
    n_blocks: tl.tensor,
    n_words: tl.tensor,
    D: tl.constexpr,
    DD: tl.constexpr,
    TILE: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """top = max_i s_ci and Σ_i exp(s_ci - top) over the unknown items i of a block."""
    block = tl.program_id(0)
    c = tl.program_id(1).to(tl.int64) * TILE + tl.arange(0, TILE)
    i = block * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, DD)
    there, within = c < n_contexts, i < n_items
    user = tl.load(context_C + c, mask=there, other=0)
    u = tl.load(
        user_UD + user[:, None] * D + d[None, :],
        mask=there[:, None] & (d < D)[None, :],
        other=0.0,
    )
    v = tl.load(
        item_ID + i.to(tl.int64)[None, :] * D + d[:, None],
        mask=within[None, :] & (d < D)[:, None],
        other=0.0,
    )
    bias = tl.load(bias_I + i, mask=within, other=0.0)
    s = (tl.dot(u, v, input_precision="ieee") + bias[None, :]) * over_tau
    wanted = there[:, None] & within[None, :]
    known = _is_known(known_CW, c[:, None] * n_words, i[None, :], wanted)
    s = tl.where(wanted & (known == 0), s, -float("inf"))
    top = tl.max(s, axis=1)
    shift = tl.where(top > -float("inf"), top, 0.0)
    total = tl.sum(tl.exp(s - shift[:, None]), axis=1)
    tl.store(top_CK + c * n_blocks + block, top, mask=there)
    tl.store(sum_CK + c * n_blocks + block, total, mask=there)


@triton.jit(do_not_specialize=["n_items"])
def _within_block(
    item_R: tl.tensor,
    score_R: tl.tensor,
    place_R: tl.tensor,
    block_R: tl.tensor,
    share_R: tl.tensor,
    context_C: tl.tensor,
    known_CW: tl.tensor,
    user_UD: tl.tensor,
    item_ID: tl.tensor,
    bias_I: tl.tensor,
    over_tau: tl.tensor,
    n_items: tl.tensor,
    n_words: tl.tensor,
    D: tl.constexpr,
    DD: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Return the first item of a block whose running sum exceeds a share of the block's sum."""
    r = tl.program_id(0).to(tl.int64)
    place = tl.load(place_R + r)
    n = tl.arange(0, BLOCK)
    i = tl.load(block_R + r) * BLOCK + n
    d = tl.arange(0, DD)
    within = i < n_items
    u = tl.load(user_UD + tl.load(context_C + place) * D + d, mask=d < D, other=0.0)
    v = tl.load(
        item_ID + i[:, None] * D + d[None, :],
        mask=within[:, None] & (d < D)[None, :],
        other=0.0,
    )
    s = (tl.sum(u[None, :] * v, axis=1) + tl.load(bias_I + i, mask=within, other=0.0)) * over_tau
    known = _is_known(known_CW, place * n_words, i, within)
    s = tl.where(within & (known == 0), s, -float("inf"))
    top = tl.max(s, axis=0)
    e = tl.exp(s - tl.where(top > -float("inf"), top, 0.0))
    running = tl.cumsum(e, axis=0)
    target = tl.load(share_R + r) * tl.max(running, axis=0)
    # Rounding may leave no sum above the target: then it is the last item that can be drawn.
    last = tl.max(tl.where(e > 0, n, 0), axis=0)
    at = tl.minimum(tl.sum((running <= target).to(tl.int32), axis=0), last)
    tl.store(item_R + r, tl.load(block_R + r) * BLOCK + at)
    tl.store(score_R + r, tl.sum(tl.where(n == at, s, 0.0), axis=0))


@dataclass(frozen=True, slots=True)
class Scores:
    """s_ci = (u_c · v_i + b_i) / τ of some contexts c and all items i; -inf where c knows i."""

    context_C: Tensor
    """The contexts, as rows of ``user_UD``."""
    known_CW: Tensor
    """The items that each context knows: bit i mod 32 of word ⌊i / 32⌋, as int32."""
    user_UD: Tensor
    """The vectors of contexts."""
    item_ID: Tensor
    """The vectors of items."""
    bias_I: Tensor
    """The biases of items."""
    temperature: float
    """The temperature τ."""
    block: int
    """The number of items in a block, a power of two."""

    def block_sums(self) -> Tensor:
        """Return log Σ_i exp(s_ci) over the items of each block, as float64; -inf without any."""
        n_items, dim = self.item_ID.shape
        n_contexts, n_blocks = len(self.context_C), triton.cdiv(n_items, self.block)
        top_CK, sum_CK = torch.empty(
            (2, n_contexts, n_blocks), dtype=torch.float32, device=self.item_ID.device
        )
        with on(top_CK):
            _block_sums[(n_blocks, triton.cdiv(n_contexts, _CONTEXTS))](
                top_CK, sum_CK, self.context_C, self.known_CW, self.user_UD, self.item_ID,
                self.bias_I, 1 / self.temperature, n_contexts, n_items, n_blocks,
                self.known_CW.shape[1], D=dim, DD=max(16, triton.next_power_of_2(dim)),
                TILE=_CONTEXTS, BLOCK=self.block,
            )  # fmt: skip
        return torch.where(sum_CK > 0, top_CK.double() + sum_CK.double().log(), -torch.inf)

    def within(self, place_R: Tensor, block_R: Tensor, share_R: Tensor) -> tuple[Tensor, Tensor]:
        """Return the item at a share of a block's sum, for a context by its place, and its s."""
        n_items, dim = self.item_ID.shape
        # A place that is the same for many draws may be a view that repeats one number.
        place_R, block_R = place_R.contiguous(), block_R.contiguous()
        share_R = share_R.float().contiguous()
        item_R = torch.empty_like(place_R)
        score_R = torch.empty(len(place_R), dtype=torch.float32, device=place_R.device)
        with on(item_R):
            _within_block[(len(place_R),)](
                item_R, score_R, place_R, block_R, share_R, self.context_C, self.known_CW,
                self.user_UD, self.item_ID, self.bias_I, 1 / self.temperature, n_items,
                self.known_CW.shape[1], D=dim, DD=triton.next_power_of_2(dim), BLOCK=self.block,
            )  # fmt: skip
        return item_R, score_R
