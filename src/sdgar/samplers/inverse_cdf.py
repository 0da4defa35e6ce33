"""Draw from distributions that soon change, so that no table is worth its cost."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_BITS = 40
MOST_ROWS = 1 << (62 - _BITS)
"""The most distributions whose running sums fit behind each other into an int64."""
BLOCK = 256
"""The items of a block, whose sum is looked at first; sums within it are made for draws only."""
_DRAWS_AT_ONCE = 1 << 15


def inverse_cdf(p_CI: Tensor, place_RN: Tensor, high_RN: Tensor, low_RN: Tensor) -> Tensor:
    """Return the first item whose running sum Σ_{j <= i} p_cj exceeds a number in [0, Σ p_c).

    c is the row of p that ``place_RN`` names. First the block of items, then the item in it, so
    that all of p is read once, to be summed. Blocks are compared in whole numbers of 2^-40, offset
    by row, so that a single binary search serves all. No item
    of probability 0 is drawn, unless a row has no other.
    """
    n_items = p_CI.shape[1]
    even = n_items - n_items % BLOCK
    blocks_CKL = p_CI[:, :even].unflatten(1, (-1, BLOCK))  # type: ignore[no-untyped-call]
    parts = [blocks_CKL.sum(2)]
    if even < n_items:
        parts.append(p_CI[:, even:].sum(1, keepdim=True))
    blocks = Blocks.of(torch.cat(parts, dim=1))
    items = [
        _draw(p_CI, blocks, place_R, uniform_R)
        for place_R, uniform_R in zip(
            place_RN.reshape(-1).split(_DRAWS_AT_ONCE),  # type: ignore[no-untyped-call]
            uniforms(high_RN, low_RN).reshape(-1).split(_DRAWS_AT_ONCE),  # type: ignore[no-untyped-call]
            strict=True,
        )
    ]
    return torch.cat(items).view(place_RN.shape)


def uniforms(high_RN: Tensor, low_RN: Tensor) -> Tensor:
    """Return whole numbers below 2^40 from two words of 32 bits."""
    return (high_RN << (_BITS - 32)) | (low_RN >> (64 - _BITS))


@dataclass(frozen=True, slots=True)
class Blocks:
    """The running sums of blocks, in whole numbers of 2^-40 of the sum of a row."""

    whole_CK: Tensor
    """The running sums of each row."""
    bounds: Tensor
    """The running sums, offset by row so that one binary search serves all."""

    @classmethod
    def of(cls, sum_CK: Tensor) -> Blocks:
        """Add up the sums of blocks."""
        sum_CK = sum_CK.cumsum(dim=1, dtype=torch.float64)
        sum_CK /= sum_CK[:, -1:].clamp(min=torch.finfo(torch.float64).tiny)
        whole_CK = (sum_CK * 2.0**_BITS).long()
        before_C1 = torch.arange(len(sum_CK), device=sum_CK.device)[:, None] << _BITS
        return cls(whole_CK, (whole_CK + before_C1).view(-1))

    def chosen(self, place_R: Tensor, uniform_R: Tensor) -> tuple[Tensor, Tensor]:
        """Return the block that each number falls into, and the share of the block below it."""
        n_blocks = self.whole_CK.shape[1]
        block_R = torch.searchsorted(self.bounds, (place_R << _BITS) + uniform_R, right=True)
        block_R = (block_R - place_R * n_blocks).clamp(max=n_blocks - 1)
        end_R = self.whole_CK[place_R, block_R]
        start_R = torch.where(block_R > 0, self.whole_CK[place_R, block_R - 1], 0)
        # Halfway into the unit of 2^-40, so that it is below the sum however that is rounded.
        return block_R, (uniform_R - start_R + 0.5) / (end_R - start_R).clamp(min=1)


def _draw(p_CI: Tensor, blocks: Blocks, place_R: Tensor, uniform_R: Tensor) -> Tensor:
    n_items = p_CI.shape[1]
    block_R, share_R = blocks.chosen(place_R, uniform_R)
    item_RL = block_R[:, None] * BLOCK + torch.arange(BLOCK, device=p_CI.device)
    p_RL = p_CI[place_R[:, None], item_RL.clamp(max=n_items - 1)]
    sum_RL = p_RL.masked_fill_(item_RL >= n_items, 0).cumsum(dim=1, dtype=torch.float64)
    at_R1 = torch.searchsorted(sum_RL, share_R[:, None] * sum_RL[:, -1:], right=True)
    return (block_R * BLOCK + at_R1[:, 0]).clamp(max=n_items - 1)
