"""Dropout whose random numbers cost less than torch's."""

from __future__ import annotations

import torch
from torch import Tensor

_STEPS = 1 << 16


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
