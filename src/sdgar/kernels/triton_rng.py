"""Addressed random numbers for Triton kernels: by its own Philox, the words of ``sdgar.rng``."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit
def words(seed: Any, row: Any, slot: Any, tail: Any) -> Any:
    """Four 32-bit words for rows and slots; ``tail`` is stream << 24 | epoch."""
    row = row.to(tl.uint64)
    low = (row & 0xFFFFFFFF).to(tl.uint32)
    high = (row >> 32).to(tl.uint32)
    return tl.philox(seed, low, high, slot.to(tl.uint32), (tail + 0 * slot).to(tl.uint32))


@triton.jit
def index_and_fraction(n: Any, high: Any, low: Any) -> Any:
    """Integer and 32-bit fraction of n · u / 2^64, for u = (high, low)."""
    product = high.to(tl.uint64) * n + ((low.to(tl.uint64) * n) >> 32)
    return product >> 32, product & 0xFFFFFFFF
