"""Draws from distributions that are used a few times and then change: no table is worth it."""

from __future__ import annotations

import torch
from torch import Tensor

_BITS = 40
MOST_ROWS = 1 << (62 - _BITS)
"""Distributions whose running sums fit behind each other into an int64."""


def inverse_cdf(p_CI: Tensor, place_RN: Tensor, high_RN: Tensor, low_RN: Tensor) -> Tensor:
    """The first item whose running sum Σ_{j <= i} p_cj exceeds a uniform number in [0, Σ p_c).

    c is the row of p that ``place_RN`` names. In whole numbers of 2^-40, the sums of one row
    behind those of the row before, so that a single binary search serves all. No item of
    probability 0 is drawn, unless a row has no other.
    """
    sum_CI = p_CI.cumsum(dim=1, dtype=torch.float64)
    sum_CI /= sum_CI[:, -1:].clamp(min=2.0**-_BITS)
    whole_CI = (sum_CI * 2.0**_BITS).long()
    whole_CI += torch.arange(len(p_CI), device=p_CI.device)[:, None] << _BITS
    uniform_RN = (high_RN << (_BITS - 32)) | (low_RN >> (64 - _BITS))
    at_RN = torch.searchsorted(whole_CI.view(-1), (place_RN << _BITS) + uniform_RN, right=True)
    return (at_RN - place_RN * p_CI.shape[1]).clamp(max=p_CI.shape[1] - 1)
