"""Draw through two alias tables and sum over states: by Numba, on a GPU by Triton.

A hundred small operations for one random number, and rows gathered into a table of B × S × K
numbers only to be summed up, are what torch spends most of an update with. Where neither compiler
is installed, and for numbers other than float32, torch computes the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sdgar.machine import cores
from sdgar.maths.rng import Draws, tail

if TYPE_CHECKING:
    from sdgar.samplers.alias import AliasTables


def draw(
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
        tail=tail(draws.stream, draws.epoch),
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
    from sdgar.machine.threads import share

    with cores.torch_aside():
        share(part, chunks, numbers, at_once=1)


@cache
def _kernels(device_type: str) -> Any:
    """Return the compiled kernels for a device, or None if their compiler is not installed."""
    try:
        if device_type == "cuda":
            from sdgar.kernels.triton import mixtures as on_gpu

            return on_gpu
        if device_type == "cpu":
            from sdgar.kernels.numba import mixtures as on_cpu

            return on_cpu
    except ImportError:
        pass
    return None
