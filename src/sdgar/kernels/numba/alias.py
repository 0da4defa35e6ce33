"""Alias tables are built on the CPU in two passes over each row, with rows shared by threads."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sdgar.kernels.compiled import inner, outer
from sdgar.machine.threads import run_parts


def quantize(weight_RN: Tensor, top_R1: Tensor, scale: float, bits: int) -> Tensor:
    """Return the masses of ``samplers.alias.quantize``, number by number."""
    mass_RN = torch.empty(weight_RN.shape, dtype=torch.int64)
    arrays = weight_RN.contiguous().numpy(), top_R1[:, 0].numpy(), scale, bits, mass_RN.numpy()
    run_parts(_quantize, len(mass_RN), mass_RN.numel(), *arrays)
    return mass_RN


def build(mass_RN: Tensor, word: torch.dtype) -> Tensor:
    """Return alias bins of a type that draw entries in proportion to these masses."""
    # One compiled kernel serves both types: a narrow bin is the same number in a wide one.
    bin_RN = torch.empty_like(mass_RN, memory_format=torch.contiguous_format)
    arrays = mass_RN.contiguous().numpy(), word.itemsize * 4, bin_RN.numpy()
    run_parts(_sweep, len(bin_RN), bin_RN.numel(), *arrays)
    return bin_RN.to(word)


@inner
def _next_heavy(mass_RN, full, r, start):
    while start < mass_RN.shape[1] and mass_RN[r, start] < full:
        start += 1
    return start


@outer
def _sweep(first, last, mass_RN, bits, bin_RN):
    """Split every bin of 2^bits between its own entry and one heavy entry, in some rows.

    Lights (mass < 2^bits) are served in order by the current heavy; a heavy that has given more
    than its excess keeps what is left and is itself served by the next heavy.
    """
    n, full = mass_RN.shape[1], np.int64(1) << np.int64(bits)
    for r in range(first, last):
        heavy = _next_heavy(mass_RN, full, r, 0)
        left = mass_RN[r, heavy]
        light = 0
        while heavy < n:
            if left > full:
                # The current heavy has excess, so a light is left to take it.
                while mass_RN[r, light] >= full:
                    light += 1
                bin_RN[r, light] = (np.int64(heavy) << bits) | mass_RN[r, light]
                left -= full - mass_RN[r, light]
                light += 1
            else:
                # No excess is left: at exactly 2^bits the bin is all its own, below it the next
                # heavy fills it up.
                after = _next_heavy(mass_RN, full, r, heavy + 1)
                alone = left == full
                threshold = full - 1 if alone else left
                bin_RN[r, heavy] = (np.int64(heavy if alone else after) << bits) | threshold
                left += (mass_RN[r, after] if after < n else 0) - full
                heavy = after


@outer
def _quantize(first, last, weight_RN, top_R, scale, bits, mass_RN):
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
        rest = (n << bits) - quanta
        # Running sums are rounded and not masses: errors do not add up, and the total is exact.
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
