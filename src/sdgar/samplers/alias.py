"""Alias tables (Walker 1977; Vose 1991) on integers, many distributions at once.

A distribution over n entries is held as integer masses m_i that sum to n · 2^b exactly, b = 32 or
16. Bin i of 2^b belongs to entry i below its threshold and to one other entry, its alias, above it:

    m_i = threshold_i + Σ_{j : alias_j = i} (2^b - threshold_j)        exactly, for every i

so the table draws precisely the distribution that ``probability`` reports, an entry of weight 0
cannot be drawn, and importance weights computed from the masses are exact.

A draw takes one 64-bit number u: with n·u/2^64 = i + f, bin i and the fraction f are independent
and uniform, up to n/2^64; the outcome is i if f < threshold_i / 2^b, else alias_i.

Draws through two tables and sums over states are computed by Numba, on a GPU by Triton. A hundred
small operations for one random number, and rows gathered into a table of B × S × K numbers only to
be summed up, would else take most of an update. Where neither compiler is installed, and for
numbers other than float32, torch computes the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sdgar.errors import NumericalError
from sdgar.maths.rng import Draws, index_and_fraction, last_counter_word

_WORD = {32: torch.int64, 16: torch.int32}
"""The type of a bin, by the bits of its threshold."""
_NUMPY = {torch.int64: np.int64, torch.int32: np.int32, torch.float32: np.float32}
"""The types of tables, by torch and by NumPy."""
_AT_ONCE = 1 << 24
"""The most entries that tables are computed for at once, with some arrays of 8 bytes for each."""


@dataclass(frozen=True, slots=True)
class AliasTables:
    """R distributions over N entries each; a bin is one word, so a draw reads one word."""

    bin_RN: Tensor
    """The bins as int64 or int32: the alias in the high half of the bits, the threshold in
    0 … 2^b - 1 in the low half. A bin that belongs to one entry alone has that entry as alias."""

    @classmethod
    def of(cls, weight_RN: Tensor, bits: int = 32) -> AliasTables:
        """Build tables from weights; rows need not be normalised.

        ``bits`` is the size of a threshold; with 16 there are at most 65,536 entries.
        """
        return cls(
            _by_rows(lambda part_RN: _bins(quantize(part_RN, bits), bits), weight_RN, _WORD[bits])
        )

    @classmethod
    def restored(cls, mass_RN: Tensor) -> AliasTables:
        """Build tables from masses out of a file; raise if they cannot be masses."""
        n, total_R = mass_RN.shape[1], mass_RN.sum(dim=1)
        for bits in _WORD:
            wrong_RN = (mass_RN < 0) | (mass_RN > n << bits)
            if not wrong_RN.any() and (total_R == n << bits).all():
                return cls(_by_rows(partial(_bins, bits=bits), mass_RN, _WORD[bits]))
        raise ValueError("the masses of a distribution do not add up")

    @property
    def n(self) -> int:
        """The number of entries of a distribution."""
        return self.bin_RN.shape[1]

    @property
    def bits(self) -> int:
        """The bits of a threshold, and of an alias."""
        return self.bin_RN.element_size() * 4

    @property
    def threshold_RN(self) -> Tensor:
        """The thresholds as int64; below it, a bin belongs to its own entry."""
        return _halves(self.bin_RN)[1]

    @property
    def alias_RN(self) -> Tensor:
        """The aliases as int64; above the threshold, a bin belongs to this entry."""
        return _halves(self.bin_RN)[0]

    @property
    def mass_RN(self) -> Tensor:
        """The masses that the tables draw, int64, added up by bins; each row sums to N · 2^b."""
        return _by_rows(_masses, self.bin_RN, torch.int64)

    def draw(self, rows: Tensor, high: Tensor, low: Tensor) -> Tensor:
        """Draw one entry from distribution ``rows`` for each 64-bit number (high, low), in O(1)."""
        entry, fraction = index_and_fraction(self.n, high, low)
        alias, threshold = _halves(self.bin_RN.view(-1)[rows * self.n + entry])
        return torch.where(fraction >> (32 - self.bits) < threshold, entry, alias)

    def probability(self) -> Tensor:
        """Return the probabilities with which entries are drawn, float32."""
        return _by_rows(self._probability, self.bin_RN, torch.float32)

    def probability_by_entry(self) -> Tensor:
        """Return the same with a row for each entry, and a column for each distribution."""
        shape = self.bin_RN.shape[::-1]
        found_NR = _allocated(shape, torch.float32, self.bin_RN.device)
        _by_rows(self._probability, self.bin_RN, torch.float32, into=found_NR.T)
        return found_NR

    def _probability(self, bin_RN: Tensor) -> Tensor:
        return (_masses(bin_RN).double() / (self.n << self.bits)).float()

    def to(self, device: torch.device) -> AliasTables:
        """Move the tables to a device."""
        return AliasTables(self.bin_RN.to(device))


def _by_rows(
    of: Callable[[Tensor], Tensor],
    table_RN: Tensor,
    dtype: torch.dtype,
    into: Tensor | None = None,
) -> Tensor:
    """Return what ``of`` makes of a table, for as many rows at once as bounded memory holds."""
    found_RN = _allocated(table_RN.shape, dtype, table_RN.device) if into is None else into
    size = max(1, _AT_ONCE // max(1, table_RN.shape[1]))
    for start in range(0, len(table_RN), size):
        found_RN[start : start + size] = of(table_RN[start : start + size])
    return found_RN


def _allocated(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Allocate a table; on the CPU where compiled loops can read it without a copy."""
    if device.type != "cpu":
        return torch.empty(shape, dtype=dtype, device=device)
    from sdgar.machine.memory import aligned

    return torch.from_numpy(aligned(tuple(shape), _NUMPY[dtype]))


def _halves(bins: Tensor) -> tuple[Tensor, Tensor]:
    """Return the aliases and the thresholds of bins, as int64."""
    bits = bins.element_size() * 4
    low = (1 << bits) - 1
    return (bins >> bits).long() & low, (bins & low).long()


def _masses(bin_RN: Tensor) -> Tensor:
    alias_RN, threshold_RN = _halves(bin_RN)
    full = 1 << (bin_RN.element_size() * 4)
    return threshold_RN.scatter_add(1, alias_RN, full - threshold_RN)


def _bins(mass_RN: Tensor, bits: int) -> Tensor:
    if mass_RN.shape[1] > 1 << bits:
        raise ValueError(f"{mass_RN.shape[1]:,} entries cannot be numbered by {bits} bits")
    kernels = _kernels(mass_RN.device.type, "alias")
    if kernels is not None:
        bin_RN: Tensor = kernels.build(mass_RN, _WORD[bits])
        return bin_RN
    threshold_RN, alias_RN = build_torch(mass_RN, bits)
    return ((alias_RN << bits) | threshold_RN).to(_WORD[bits])


def quantize(weight_RN: Tensor, bits: int = 32) -> Tensor:
    """Return integer masses that sum to N · 2^bits a row: 0 for weight 0, else at least 1.

    Weights become integers relative to the largest of their row, so that prefix sums are exact
    and do not depend on the order of summation; then one quantum goes to every positive entry
    and the rest is shared by rounding the prefix sums down. A probability p is off by at most
    2^-bits (p + 2 / N); the tables draw, and log Q reports, the rounded one.
    """
    n = weight_RN.shape[1]
    top_R1 = weight_RN.amax(dim=1, keepdim=True).double()
    if not (torch.isfinite(top_R1).all() and (weight_RN >= 0).all() and (top_R1 > 0).all()):
        raise NumericalError(
            "a distribution to be sampled has a negative weight, one that is not finite, or no "
            "positive weight at all.",
            code="bad_distribution",
        )
    scale = 2.0 ** min(52, 62 - max(n - 1, 1).bit_length())
    kernels = _kernels(weight_RN.device.type, "alias")
    by = quantize_torch if kernels is None else kernels.quantize
    mass_RN: Tensor = by(weight_RN, top_R1, scale, bits)
    return mass_RN


def quantize_torch(weight_RN: Tensor, top_R1: Tensor, scale: float, bits: int) -> Tensor:
    """Return the masses of ``quantize`` by prefix sums, on any device."""
    positive_RN = weight_RN > 0
    share_RN = (weight_RN.double() / top_R1 * scale).long().clamp(min=1) * positive_RN
    share_RN = share_RN.cumsum(dim=1)
    quanta_RN = positive_RN.long().cumsum(dim=1)
    rest_R1 = (weight_RN.shape[1] << bits) - quanta_RN[:, -1:]
    upto_RN = (share_RN.double() / share_RN[:, -1:].double() * rest_R1.double()).long()
    upto_RN = torch.minimum(upto_RN, rest_R1)
    upto_RN = torch.where(share_RN == share_RN[:, -1:], rest_R1, upto_RN) + quanta_RN
    return upto_RN.diff(dim=1, prepend=torch.zeros_like(rest_R1))


def build_torch(mass_RN: Tensor, bits: int = 32) -> tuple[Tensor, Tensor]:
    """Build thresholds and aliases by prefix sums, on any device.

    This follows Hübschle-Schneider & Sanders (2019).

    With C the running deficit of the lights and E the running excess of the heavies, in order:
    light a is served by the first heavy b with E_b > C_{a-1}; heavy b is overdrawn by
    C_a* - E_b at the first light a* with C_a* >= E_b, and is served by the next heavy.
    """
    n, full = mass_RN.shape[1], 1 << bits
    light_RN = mass_RN < full
    gap_RN = (mass_RN - full).abs()
    # Lights first, heavies behind them, each in order of their index.
    order_RN = torch.argsort((~light_RN).to(torch.int8), dim=1, stable=True)
    lights_R1 = light_RN.sum(dim=1, keepdim=True)
    place_N = torch.arange(n, device=mass_RN.device)
    is_light_RN = place_N < lights_R1
    gap_RN = gap_RN.gather(1, order_RN)
    never = torch.iinfo(torch.int64).max
    deficit_RN = torch.where(is_light_RN, gap_RN, 0).cumsum(dim=1)
    excess_RN = torch.where(is_light_RN, 0, gap_RN).cumsum(dim=1)
    before_RN = deficit_RN - torch.where(is_light_RN, gap_RN, 0)
    served_by_RN = torch.searchsorted(
        torch.where(is_light_RN, -1, excess_RN), before_RN.contiguous(), right=True
    ).clamp(max=n - 1)
    light_threshold_RN = full - gap_RN
    drained_RN = torch.searchsorted(
        torch.where(is_light_RN, deficit_RN, never), excess_RN.contiguous()
    ).clamp(max=n - 1)
    overdraft_RN = (deficit_RN.gather(1, drained_RN) - excess_RN).clamp(min=0)
    overdraft_RN = torch.where(excess_RN == 0, 0, overdraft_RN)  # full before the first light
    full_RN = ~is_light_RN & (overdraft_RN == 0)
    heavy_threshold_RN = torch.where(full_RN, full - 1, full - overdraft_RN)
    next_RN = torch.where(full_RN, place_N, (place_N + 1).clamp(max=n - 1))
    threshold_RN = torch.where(is_light_RN, light_threshold_RN, heavy_threshold_RN)
    target_RN = torch.where(is_light_RN, served_by_RN, next_RN)
    alias_RN = order_RN.gather(1, target_RN)
    return (
        torch.empty_like(threshold_RN).scatter_(1, order_RN, threshold_RN),
        torch.empty_like(alias_RN).scatter_(1, order_RN, alias_RN),
    )


def draw_through(
    state_of: AliasTables, entry_of: AliasTables, rows: Tensor, draws: Draws, slots: Tensor
) -> Tensor:
    """Draw a state from each row's table, then an entry from the state's table."""
    kernels = _kernels(rows.device.type)
    if kernels is None:
        w0, w1, w2, w3 = draws.words(slots)
        return entry_of.draw(state_of.draw(rows.expand(w0.shape), w0, w1), w2, w3)
    drawn: Tensor = kernels.draw(
        state_of.bin_RN,
        entry_of.bin_RN,
        rows,
        addresses=draws.rows,
        slots=slots,
        seed=draws.seed,
        tail=last_counter_word(draws.stream, draws.epoch),
    )
    return drawn


def log_mix(left_RK: Tensor, rows_B: Tensor, right_NK: Tensor, others_BS: Tensor) -> Tensor:
    """log Σ_k left_rk right_nk for the row and each of the S others of a line."""
    kernels = _kernels(left_RK.device.type)
    if kernels is None or left_RK.dtype != torch.float32:
        return (left_RK[rows_B][:, None] * right_NK[others_BS]).sum(dim=2).log()
    mixed_BS: Tensor = kernels.log_mix(left_RK, rows_B, right_NK, others_BS)
    return mixed_BS


def log_average(term_BS: Tensor, weight_NK: Tensor, others_BS: Tensor) -> Tensor:
    """log mean_s exp(term_s) w_sk with w_s the row of the s-th other; -inf for a line of -inf."""
    kernels = _kernels(term_BS.device.type)
    if kernels is not None and term_BS.dtype == torch.float32:
        average_BK: Tensor = kernels.log_average(term_BS, weight_NK, others_BS)
        return average_BK
    top_B1 = term_BS.amax(dim=1, keepdim=True)
    shift_B1 = torch.where(torch.isfinite(top_B1), top_B1, 0.0)
    sum_BK = torch.einsum("bs,bsk->bk", (term_BS - shift_B1).exp(), weight_NK[others_BS])
    return shift_B1 + sum_BK.log() - math.log(term_BS.shape[1])


def on_threads(
    part: Callable[[int, int], None], chunks: int, numbers: int, device: torch.device
) -> None:
    """Call part(first, last) for all chunks; on the CPU each chunk by a thread that is free.

    ``numbers`` is how many numbers there are to compute in all.
    """
    if chunks == 1 or device.type != "cpu" or _kernels("cpu") is None:
        part(0, chunks)
        return
    from sdgar.machine import cores
    from sdgar.machine.threads import run_parts

    with cores.torch_aside():
        run_parts(part, chunks, numbers, at_once=1)


@cache
def _kernels(device_type: str, module: str = "mixtures") -> Any:
    """Return a module of compiled kernels for a device; None if the device has none of them.

    Alias tables are built by kernels on the CPU alone.
    """
    package = {"cpu": "numba"} if module == "alias" else {"cpu": "numba", "cuda": "triton"}
    try:
        return import_module(f"sdgar.kernels.{package[device_type]}.{module}")
    except (ImportError, KeyError):
        return None
