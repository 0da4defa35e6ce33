"""Philox4x32-10 for Numba kernels: the same words as ``sdgar.rng``, one address at a time."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_ROUND_A, _ROUND_B = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_A, _KEY_B = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)


@numba.njit(inline="always")
def words(seed: Any, row: Any, slot: Any, tail: Any) -> Any:
    """Four 32-bit words, as uint64, for a row and a slot; ``tail`` is stream << 24 | epoch."""
    k0, k1 = np.uint64(seed) & _MASK, np.uint64(seed) >> _SHIFT
    c0, c1 = np.uint64(row) & _MASK, np.uint64(row) >> _SHIFT
    c2, c3 = np.uint64(slot), np.uint64(tail)
    for _ in range(10):
        a, b = c0 * _ROUND_A, c2 * _ROUND_B
        c0, c1, c2, c3 = (b >> _SHIFT) ^ c1 ^ k0, b & _MASK, (a >> _SHIFT) ^ c3 ^ k1, a & _MASK
        k0, k1 = (k0 + _KEY_A) & _MASK, (k1 + _KEY_B) & _MASK
    return c0, c1, c2, c3


@numba.njit(inline="always")
def index_and_fraction(n: Any, high: Any, low: Any) -> Any:
    """Integer and 32-bit fraction of n · u / 2^64, for u = (high, low)."""
    product = high * np.uint64(n) + ((low * np.uint64(n)) >> _SHIFT)
    return product >> _SHIFT, product & _MASK
