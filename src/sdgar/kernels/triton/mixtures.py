"""The generator on a GPU: draws through two alias tables, and sums over its K states.

Each function is the twin of a torch expression in ``sdgar.samplers``, without what makes that
slow on a GPU: a hundred small operations for one random number, and rows gathered into a table of
B × S × K numbers only to be summed up.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from sdgar.kernels.triton.rng import index_and_fraction, words


@triton.jit
def alias_entry(bins, row, n, high, low, wanted):
    """``AliasTables.draw``: an entry of distribution ``row`` for each number (high, low)."""
    entry, fraction = index_and_fraction(n, high, low)
    found = tl.load(bins + row * n + entry.to(tl.int64), mask=wanted, other=0)
    own, fraction = entry.to(tl.int64), fraction.to(tl.int64)
    if found.dtype == tl.int32:  # thresholds and aliases of 16 bits
        alias, threshold = ((found >> 16) & 0xFFFF).to(tl.int64), (found & 0xFFFF).to(tl.int64)
        fraction = fraction >> 16
    else:
        alias, threshold = found >> 32, found & 0xFFFFFFFF
    return tl.where(fraction < threshold, own, alias)


@triton.jit(do_not_specialize=["tail", "n"])
def _draw(
    out,
    row,
    address,
    slot,
    state_bins,
    entry_bins,
    seed,
    tail,
    n,
    n_states,
    n_entries,
    TILE: tl.constexpr,
):
    at = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    wanted = at < n
    w0, w1, w2, w3 = words(
        seed,
        tl.load(address + at, mask=wanted, other=0),
        tl.load(slot + at, mask=wanted, other=0),
        tail,
    )
    state = alias_entry(
        state_bins, tl.load(row + at, mask=wanted, other=0), n_states, w0, w1, wanted
    )
    tl.store(out + at, alias_entry(entry_bins, state, n_entries, w2, w3, wanted), mask=wanted)


def draw(
    state_bins_RK: Tensor,
    entry_bins_KN: Tensor,
    rows: Tensor,
    *,
    addresses: Tensor,
    slots: Tensor,
    seed: int,
    tail: int,
) -> Tensor:
    """Draw a state from each row's table, then an entry from the state's; rows are broadcast."""
    together = torch.broadcast_tensors(rows, addresses, slots)
    rows, addresses, slots = (tensor.contiguous() for tensor in together)
    out = torch.empty_like(rows)
    tile = 256
    with on(out):
        _draw[(triton.cdiv(out.numel(), tile),)](
            out,
            rows,
            addresses,
            slots,
            state_bins_RK,
            entry_bins_KN,
            seed,
            tail,
            out.numel(),
            state_bins_RK.shape[1],
            entry_bins_KN.shape[1],
            TILE=tile,
        )
    return out


@triton.jit(do_not_specialize=["n_samples"])
def _log_mix(
    out_BS,
    row_B,
    other_BS,
    left_RK,
    right_NK,
    n_samples,
    K: tl.constexpr,
    KK: tl.constexpr,
    TILE: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    s = tl.program_id(1) * TILE + tl.arange(0, TILE)
    k = tl.arange(0, KK)
    wanted = s < n_samples
    other = tl.load(other_BS + b * n_samples + s, mask=wanted, other=0)
    left = tl.load(left_RK + tl.load(row_B + b) * K + k, mask=k < K, other=0.0)
    right = tl.load(
        right_NK + other[:, None] * K + k[None, :],
        mask=wanted[:, None] & (k < K)[None, :],
        other=0.0,
    )
    value = tl.sum(left[None, :] * right, axis=1)
    tl.store(out_BS + b * n_samples + s, tl.log(tl.where(wanted, value, 1.0)), mask=wanted)


def log_mix(left_RK: Tensor, rows_B: Tensor, right_NK: Tensor, others_BS: Tensor) -> Tensor:
    """log Σ_k left_rk right_nk for the row and each of the S others of a line."""
    others_BS = others_BS.contiguous()
    n_lines, n_samples = others_BS.shape
    out_BS = torch.empty((n_lines, n_samples), dtype=torch.float32, device=others_BS.device)
    states = left_RK.shape[1]
    tile = min(triton.next_power_of_2(n_samples), 32)
    with on(out_BS):
        _log_mix[(n_lines, triton.cdiv(n_samples, tile))](
            out_BS,
            rows_B.contiguous(),
            others_BS,
            left_RK,
            right_NK,
            n_samples,
            K=states,
            KK=triton.next_power_of_2(states),
            TILE=tile,
        )
    return out_BS


@triton.jit(do_not_specialize=["n_samples"])
def _log_average(
    out_BK,
    term_BS,
    other_BS,
    weight_NK,
    log_samples,
    n_samples,
    K: tl.constexpr,
    KK: tl.constexpr,
    SS: tl.constexpr,
    TILE: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, KK)
    every = tl.arange(0, SS)
    terms = tl.load(term_BS + b * n_samples + every, mask=every < n_samples, other=-float("inf"))
    # Measured from the largest term, so that no exponential overflows.
    top = tl.max(terms, axis=0)
    shift = tl.where(tl.abs(top) < float("inf"), top, 0.0)
    total = tl.zeros((KK,), tl.float32)
    for first in range(0, n_samples, TILE):
        s = first + tl.arange(0, TILE)
        wanted = s < n_samples
        term = tl.load(term_BS + b * n_samples + s, mask=wanted, other=-float("inf"))
        other = tl.load(other_BS + b * n_samples + s, mask=wanted, other=0)
        weight = tl.load(
            weight_NK + other[:, None] * K + k[None, :],
            mask=wanted[:, None] & (k < K)[None, :],
            other=0.0,
        )
        total += tl.sum(tl.exp(term - shift)[:, None] * weight, axis=0)
    tl.store(out_BK + b * K + k, shift + tl.log(total) - log_samples, mask=k < K)


def log_average(term_BS: Tensor, weight_NK: Tensor, others_BS: Tensor) -> Tensor:
    """log mean_s exp(term_s) w_sk with w_s the row of the s-th other; -inf for a line of -inf."""
    n_lines, n_samples = term_BS.shape
    states = weight_NK.shape[1]
    out_BK = torch.empty((n_lines, states), dtype=torch.float32, device=term_BS.device)
    all_samples = triton.next_power_of_2(n_samples)
    with on(out_BK):
        _log_average[(n_lines,)](
            out_BK,
            term_BS.contiguous(),
            others_BS.contiguous(),
            weight_NK,
            math.log(n_samples),
            n_samples,
            K=states,
            KK=triton.next_power_of_2(states),
            SS=all_samples,
            TILE=min(all_samples, 32),
        )
    return out_BK


def on(tensor: Tensor) -> torch.cuda.device:
    """Make a tensor's device the current one, on which Triton launches; -1 changes nothing."""
    return torch.cuda.device(tensor.device if tensor.is_cuda else -1)
