"""Alias tables are built on the CPU in two passes over each row, with rows shared by threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sdgar.kernels.compiled import inner, outer
from sdgar.kernels.numba.threads import share

_FULL, _HALF = np.int64(1 << 32), np.int64(32)


def quantize(weight_RN: Tensor, top_R1: Tensor, scale: float) -> Tensor:
    """Return the masses of ``samplers.alias.quantize``, number by number."""
    mass_RN = torch.empty(weight_RN.shape, dtype=torch.int64)
    arrays = weight_RN.contiguous().numpy(), top_R1[:, 0].numpy(), scale, mass_RN.numpy()
    share(_quantize, len(mass_RN), mass_RN.numel(), *arrays)
    return mass_RN


def build(mass_RN: Tensor) -> Tensor:
    """Return alias bins that draw entries in proportion to these masses."""
    bin_RN = torch.empty_like(mass_RN, memory_format=torch.contiguous_format)
    arrays = mass_RN.contiguous().numpy(), bin_RN.numpy()
    share(_sweep, len(bin_RN), bin_RN.numel(), *arrays)
    return bin_RN


@inner
def _next_heavy(mass_RN: Any, r: Any, start: Any) -> Any:
    while start < mass_RN.shape[1] and mass_RN[r, start] < _FULL:
        start += 1
    return start


@outer
def _sweep(first: Any, last: Any, mass_RN: Any, bin_RN: Any) -> Any:
    """Split every bin of 2^32 between its own entry and one heavy entry, in some rows.

    Lights (mass < 2^32) are served in order by the current heavy; a heavy that has given more
    than its excess keeps what is left and is itself served by the next heavy.
    """
    n = mass_RN.shape[1]
    for r in range(first, last):
        heavy = _next_heavy(mass_RN, r, 0)
        left = mass_RN[r, heavy]
        light = 0
        while heavy < n:
            if left > _FULL:
                # The current heavy has excess, so a light is left to take it.
                while mass_RN[r, light] >= _FULL:
                    light += 1
                bin_RN[r, light] = (np.int64(heavy) << _HALF) | mass_RN[r, light]
                left -= _FULL - mass_RN[r, light]
                light += 1
            else:
                # No excess is left: at exactly 2^32 the bin is all its own, below it the next
                # heavy fills it up.
                after = _next_heavy(mass_RN, r, heavy + 1)
                full = left == _FULL
                threshold = _FULL - 1 if full else left
                bin_RN[r, heavy] = (np.int64(heavy if full else after) << _HALF) | threshold
                left += (mass_RN[r, after] if after < n else 0) - _FULL
                heavy = after
    return None


@outer
def _quantize(first: Any, last: Any, weight_RN: Any, top_R: Any, scale: Any, mass_RN: Any) -> Any:
    """Quantize rows first … last - 1."""
    n = weight_RN.shape[1]
    for r in range(first, last):
        total, quanta = np.int64(0), np.int64(0)
        for i in range(n):
            weight = np.float64(weight_RN[r, i])
            if weight > 0:
                total += max(np.int64(weight / top_R[r] * scale), np.int64(1))
                quanta += 1
            mass_RN[r, i] = total
        rest = n * _FULL - quanta
        before, quanta = np.int64(0), np.int64(0)
        for i in range(n):
            share = mass_RN[r, i]
            quanta += weight_RN[r, i] > 0
            upto = rest
            if share != total:
                part = np.float64(share) / np.float64(total) * np.float64(rest)
                upto = min(np.int64(part), rest)
            mass_RN[r, i] = upto + quanta - before
            before = upto + quanta
    return None
