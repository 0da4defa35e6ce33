"""Draw from distributions that soon change, so that no table is worth its cost."""

from __future__ import annotations

import torch
from torch import Tensor

_BITS = 40
MOST_ROWS = 1 << (62 - _BITS)
"""The most distributions whose running sums fit behind each other into an int64."""
_BLOCK = 256
"""The items of a block, whose sum is looked at first; sums within it are made for draws only."""
_DRAWS_AT_ONCE = 1 << 15


def inverse_cdf(p_CI: Tensor, place_RN: Tensor, high_RN: Tensor, low_RN: Tensor) -> Tensor:
    """Return the first item whose running sum Σ_{j <= i} p_cj exceeds a number in [0, Σ p_c).

    c is the row of p that ``place_RN`` names. First the block of items, then the item in it, so
    that all of p is read once, to be summed. Blocks are compared in whole numbers of 2^-40, those
    of one row behind those of the row before, so that a single binary search serves all. No item
    of probability 0 is drawn, unless a row has no other.
    """
    n_items = p_CI.shape[1]
    even = n_items - n_items % _BLOCK
    blocks_CKL = p_CI[:, :even].unflatten(1, (-1, _BLOCK))  # type: ignore[no-untyped-call]
    parts = [blocks_CKL.sum(2)]
    if even < n_items:
        parts.append(p_CI[:, even:].sum(1, keepdim=True))
    sum_CK = torch.cat(parts, dim=1).cumsum(dim=1, dtype=torch.float64)
    sum_CK /= sum_CK[:, -1:].clamp(min=torch.finfo(torch.float64).tiny)
    whole_CK = (sum_CK * 2.0**_BITS).long()
    bounds = (whole_CK + (torch.arange(len(p_CI), device=p_CI.device)[:, None] << _BITS)).view(-1)
    uniform_RN = (high_RN << (_BITS - 32)) | (low_RN >> (64 - _BITS))
    items = [
        _draw(p_CI, whole_CK, bounds, place_R, uniform_R)
        for place_R, uniform_R in zip(
            place_RN.reshape(-1).split(_DRAWS_AT_ONCE),  # type: ignore[no-untyped-call]
            uniform_RN.reshape(-1).split(_DRAWS_AT_ONCE),  # type: ignore[no-untyped-call]
            strict=True,
        )
    ]
    return torch.cat(items).view(place_RN.shape)


def _draw(
    p_CI: Tensor, whole_CK: Tensor, bounds: Tensor, place_R: Tensor, uniform_R: Tensor
) -> Tensor:
    n_items, n_blocks = p_CI.shape[1], whole_CK.shape[1]
    block_R = torch.searchsorted(bounds, (place_R << _BITS) + uniform_R, right=True)
    block_R = (block_R - place_R * n_blocks).clamp(max=n_blocks - 1)
    end_R = whole_CK[place_R, block_R]
    start_R = torch.where(block_R > 0, whole_CK[place_R, block_R - 1], 0)
    # Halfway into the unit of 2^-40, so that it is below the block's sum however that is rounded.
    share_R = (uniform_R - start_R + 0.5) / (end_R - start_R).clamp(min=1)
    item_RL = block_R[:, None] * _BLOCK + torch.arange(_BLOCK, device=p_CI.device)
    p_RL = p_CI[place_R[:, None], item_RL.clamp(max=n_items - 1)]
    sum_RL = p_RL.masked_fill_(item_RL >= n_items, 0).cumsum(dim=1, dtype=torch.float64)
    at_R1 = torch.searchsorted(sum_RL, share_R[:, None] * sum_RL[:, -1:], right=True)
    return (block_R * _BLOCK + at_R1[:, 0]).clamp(max=n_items - 1)
