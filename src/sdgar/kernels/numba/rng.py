"""Philox4x32-10 for Numba kernels: the same words as ``sdgar.maths.rng``, one address at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdgar.kernels.compiled import inlined, inner

_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
ROUNDS = 0xD2511F53, 0xCD9E8D57
"""What the first and the third word are multiplied by in each of the ten rounds."""
KEYS = 0x9E3779B9, 0xBB67AE85
"""What is added to the two halves of the seed after each round."""
_ROUND_A, _ROUND_B = np.uint64(ROUNDS[0]), np.uint64(ROUNDS[1])
_KEY_A, _KEY_B = np.uint64(KEYS[0]), np.uint64(KEYS[1])


@inlined
def words(seed: Any, row: Any, slot: Any, tail: Any) -> Any:
    """Return four 32-bit words of a row and a slot, as uint64; ``tail`` is stream << 24 | epoch."""
    k0, k1 = np.uint64(seed) & _MASK, np.uint64(seed) >> _SHIFT
    c0, c1 = np.uint64(row) & _MASK, np.uint64(row) >> _SHIFT
    c2, c3 = np.uint64(slot), np.uint64(tail)
    for _ in range(10):
        a, b = c0 * _ROUND_A, c2 * _ROUND_B
        c0, c1, c2, c3 = (b >> _SHIFT) ^ c1 ^ k0, b & _MASK, (a >> _SHIFT) ^ c3 ^ k1, a & _MASK
        k0, k1 = (k0 + _KEY_A) & _MASK, (k1 + _KEY_B) & _MASK
    return c0, c1, c2, c3


@inner
def index_and_fraction(n: Any, high: Any, low: Any) -> Any:
    """Return the integer and the 32-bit fraction of n · u / 2^64, for u = (high, low)."""
    product = high * np.uint64(n) + ((low * np.uint64(n)) >> _SHIFT)
    return product >> _SHIFT, product & _MASK


_MIX_A, _MIX_B = np.uint64(0x7FEB352D), np.uint64(0x846CA68B)
_15, _16 = np.uint64(15), np.uint64(16)


@inner
def _mix(x: Any) -> Any:
    x = ((x ^ (x >> _16)) * _MIX_A) & _MASK
    x = ((x ^ (x >> _15)) * _MIX_B) & _MASK
    return x ^ (x >> _16)


@inner
def permuted(n: Any, keys: Any, left_bits: Any, right_bits: Any, place: Any) -> Any:
    """Return the number at a place of ``sdgar.maths.rng.Permutation``, as int64."""
    left_bits, right_bits = np.uint64(left_bits), np.uint64(right_bits)
    left_mask = (np.uint64(1) << left_bits) - np.uint64(1)
    right_mask = (np.uint64(1) << right_bits) - np.uint64(1)
    x = np.uint64(place)
    while True:
        left, right = x >> right_bits, x & right_mask
        for i in range(0, len(keys), 2):
            left ^= _mix(right ^ keys[i]) & left_mask
            right ^= _mix(left ^ keys[i + 1]) & right_mask
        x = (left << right_bits) | right
        if x < np.uint64(n):
            return np.int64(x)
