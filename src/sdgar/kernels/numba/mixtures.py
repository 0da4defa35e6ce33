"""Draws through two alias tables and sums over states on the CPU; see ``samplers/alias.py``."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sdgar.kernels.compiled import outer
from sdgar.kernels.numba.alias_draws import entry_in
from sdgar.kernels.numba.math import exp_negative
from sdgar.kernels.numba.rng import index_and_fraction, words
from sdgar.kernels.numba.rows import add_row, dot_rows, row_at
from sdgar.kernels.numba.threads import prefetch
from sdgar.machine.threads import run_parts

_BLOCK = 128
"""Draws whose table entries are prefetched together."""
_LOW, _HALF, _WORD = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(8)


def draw(
    state_bins: Tensor, entry_bins: Tensor, rows: Tensor, *, addresses: Tensor, slots: Tensor,
    seed: int, tail: int,
) -> Tensor:  # fmt: skip
    """Draw one entry for each (row, address, slot), broadcast against each other."""
    shape = np.broadcast_shapes(rows.shape, addresses.shape, slots.shape)
    drawn = torch.empty(shape, dtype=torch.int64)
    wide = (t.expand(shape) for t in (rows, addresses, slots))
    flat = [_flat(t) for t in (state_bins, entry_bins, *wide, drawn)]
    sizes = state_bins.shape[1], entry_bins.shape[1]

    def part(first: int, last: int) -> None:
        scratch = (np.empty(_BLOCK, np.uint64) for _ in range(3))
        _draw(first, last, np.uint64(seed), tail, *sizes, *flat, *scratch)

    run_parts(part, drawn.numel(), drawn.numel())
    return drawn


def mix(left_RK: Tensor, rows_B: Tensor, right_NK: Tensor, others_BS: Tensor) -> Tensor:
    """Σ_k left_rk right_nk."""
    mixed_BS = torch.empty(others_BS.shape)
    arrays = (t.contiguous().numpy() for t in (left_RK, rows_B, right_NK, others_BS, mixed_BS))
    run_parts(_mix, len(rows_B), mixed_BS.numel() * left_RK.shape[1], *arrays)
    return mixed_BS


def log_mix(left_RK: Tensor, rows_B: Tensor, right_NK: Tensor, others_BS: Tensor) -> Tensor:
    """log Σ_k left_rk right_nk."""
    return mix(left_RK, rows_B, right_NK, others_BS).log_()


def log_average(term_BS: Tensor, weight_NK: Tensor, others_BS: Tensor) -> Tensor:
    """log mean_s exp(term_s) w_sk, shifted by the largest term; -inf for a line of -inf."""
    top_B1 = term_BS.amax(dim=1, keepdim=True)
    shift_B1 = torch.where(torch.isfinite(top_B1), top_B1, 0.0)
    sum_BK = torch.zeros(len(term_BS), weight_NK.shape[1])
    arrays = (t.contiguous().numpy() for t in (term_BS - shift_B1, weight_NK, others_BS, sum_BK))
    run_parts(_average, len(term_BS), term_BS.numel() * weight_NK.shape[1], *arrays)
    sum_BK[torch.isneginf(top_B1[:, 0])] = 0
    return sum_BK.div_(term_BS.shape[1]).log_().add_(shift_B1)


def score(
    user_UD: Tensor, item_ID: Tensor, bias_I: Tensor, users_B: Tensor, items_BN: Tensor
) -> Tensor:
    """s_BN = u_B · v_BN + b_BN."""
    return mix(user_UD, users_B, item_ID, items_BN).add_(bias_I[items_BN])


def _flat(tensor: Tensor) -> Any:
    return tensor.reshape(-1).numpy()


@outer
def _draw(
    first, last, seed, tail, n_states, n_entries, state_bins, entry_bins, row_B, address_B, slot_B,
    drawn_B, place_B, fraction_B, rest_B,
):  # fmt: skip
    """Draw a state from each row's table, then an entry from the state's, block by block."""
    states, entries = np.uint64(n_states), np.uint64(n_entries)
    state_address, entry_address = state_bins.ctypes.data, entry_bins.ctypes.data
    state_size = np.uint64(state_bins.itemsize)
    for start in range(first, last, _BLOCK):
        n = min(_BLOCK, last - start)
        # All bins are prefetched before one is read: a draw alone would wait twice for RAM.
        for b in range(n):
            w0, w1, w2, w3 = words(seed, address_B[start + b], slot_B[start + b], tail)
            place, fraction_B[b] = index_and_fraction(states, w0, w1)
            place_B[b] = place + np.uint64(row_B[start + b]) * states
            rest_B[b] = (w2 << _HALF) | w3
            prefetch(state_address + place_B[b] * state_size)
        for b in range(n):
            own = place_B[b] - np.uint64(row_B[start + b]) * states
            state = entry_in(state_bins, place_B[b], own, fraction_B[b])
            place, fraction_B[b] = index_and_fraction(
                entries, rest_B[b] >> _HALF, rest_B[b] & _LOW
            )  # fmt: skip
            place_B[b], rest_B[b] = place + state * entries, place
            prefetch(entry_address + place_B[b] * _WORD)
        for b in range(n):
            drawn_B[start + b] = entry_in(entry_bins, place_B[b], rest_B[b], fraction_B[b])


@outer
def _mix(first, last, left_RK, row_B, right_NK, other_BS, mixed_BS):
    states = left_RK.shape[1]
    for b in range(first, last):
        left = row_at(left_RK, row_B[b])
        for s in range(other_BS.shape[1]):
            mixed_BS[b, s] = dot_rows(left, row_at(right_NK, other_BS[b, s]), states)


@outer
def _average(first, last, term_BS, weight_NK, other_BS, sum_BK):
    states = weight_NK.shape[1]
    for b in range(first, last):
        for s in range(term_BS.shape[1]):
            e = exp_negative(term_BS[b, s])
            add_row(row_at(sum_BK, b), row_at(weight_NK, other_BS[b, s]), e, states)
