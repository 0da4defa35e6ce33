"""Philox4x32-10 for Numba kernels: the same words as ``sdgar.maths.rng``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import inlined, inner, outer
from sdgar.machine.threads import run_parts

_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_ROUND_A, _ROUND_B = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_A, _KEY_B = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)


@inlined
def words(seed, row, slot, tail):
    """Return four 32-bit words of a row and a slot, as uint64; ``tail`` is stream << 24 | epoch."""
    k0, k1 = np.uint64(seed) & _MASK, np.uint64(seed) >> _SHIFT
    c0, c1 = np.uint64(row) & _MASK, np.uint64(row) >> _SHIFT
    c2, c3 = np.uint64(slot), np.uint64(tail)
    for _ in range(10):
        # Factors of 32 bits in words of 64: the product has both halves, whatever the processor.
        a, b = c0 * _ROUND_A, c2 * _ROUND_B
        c0, c1, c2, c3 = (b >> _SHIFT) ^ c1 ^ k0, b & _MASK, (a >> _SHIFT) ^ c3 ^ k1, a & _MASK
        k0, k1 = (k0 + _KEY_A) & _MASK, (k1 + _KEY_B) & _MASK
    return c0, c1, c2, c3


@inner
def index_and_fraction(n, high, low):
    """Return the integer and the 32-bit fraction of n · u / 2^64, for u = (high, low)."""
    product = high * np.uint64(n) + ((low * np.uint64(n)) >> _SHIFT)
    return product >> _SHIFT, product & _MASK


_MIX_A, _MIX_B = np.uint64(0x7FEB352D), np.uint64(0x846CA68B)
_15, _16 = np.uint64(15), np.uint64(16)


@inner
def _mix(x):
    x = ((x ^ (x >> _16)) * _MIX_A) & _MASK
    x = ((x ^ (x >> _15)) * _MIX_B) & _MASK
    return x ^ (x >> _16)


@inner
def permuted(n, keys, left_bits, right_bits, place):
    """Return the number at a place of ``sdgar.maths.rng.Permutation``, as int64."""
    left_bits, right_bits = np.uint64(left_bits), np.uint64(right_bits)
    left_mask = (np.uint64(1) << left_bits) - np.uint64(1)
    right_mask = (np.uint64(1) << right_bits) - np.uint64(1)
    x = np.uint64(place)
    # Numbers from n on go through the network again, on average less than once.
    while True:
        left, right = x >> right_bits, x & right_mask
        for i in range(0, len(keys), 2):
            left ^= _mix(right ^ keys[i]) & left_mask
            right ^= _mix(left ^ keys[i + 1]) & right_mask
        x = (left << right_bits) | right
        if x < np.uint64(n):
            return np.int64(x)


Words = NDArray[np.int64]


def words_of(seed: int, rows: Words, slots: Words, tail: int) -> tuple[Words, Words, Words, Words]:
    """Return four words for each row and slot, in the shape of both."""
    w0, w1, w2, w3 = (np.empty(rows.shape, np.int64) for _ in range(4))
    flat = (np.ascontiguousarray(a).reshape(-1) for a in (rows, slots, w0, w1, w2, w3))
    run_parts(_words_of, rows.size, rows.size, np.uint64(seed), np.uint64(tail), *flat)
    return w0, w1, w2, w3


@outer
def _words_of(first, last, seed, tail, row_N, slot_N, w0_N, w1_N, w2_N, w3_N):
    for i in range(first, last):
        w0_N[i], w1_N[i], w2_N[i], w3_N[i] = words(seed, row_N[i], slot_N[i], tail)
