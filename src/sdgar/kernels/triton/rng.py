"""Addressed random numbers for Triton kernels: the words of ``maths/rng.py``."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def words(seed, row, slot, tail):
    """Return four 32-bit words for rows and slots; ``tail`` is stream << 24 | epoch."""
    row = row.to(tl.uint64)
    low = (row & 0xFFFFFFFF).to(tl.uint32)
    high = (row >> 32).to(tl.uint32)
    return tl.philox(seed, low, high, slot.to(tl.uint32), (tail + 0 * slot).to(tl.uint32))


@triton.jit
def index_and_fraction(n, high, low):
    """Return the integer and the 32-bit fraction of n · u / 2^64, for u = (high, low)."""
    product = high.to(tl.uint64) * n + ((low.to(tl.uint64) * n) >> 32)
    return product >> 32, product & 0xFFFFFFFF


@triton.jit
def _mix(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _network(keys, x, ROUNDS: tl.constexpr, LEFT_BITS: tl.constexpr, RIGHT_BITS: tl.constexpr):
    left, right = x >> RIGHT_BITS, x & ((1 << RIGHT_BITS) - 1)
    for i in tl.static_range(0, ROUNDS, 2):
        left ^= _mix(right ^ tl.load(keys + i).to(tl.uint32)) & ((1 << LEFT_BITS) - 1)
        right ^= _mix(left ^ tl.load(keys + i + 1).to(tl.uint32)) & ((1 << RIGHT_BITS) - 1)
    return (left << RIGHT_BITS) | right


@triton.jit
def permuted(
    n, keys, place, ROUNDS: tl.constexpr, LEFT_BITS: tl.constexpr, RIGHT_BITS: tl.constexpr
):
    """Return the numbers at some places below n of ``sdgar.maths.rng.Permutation``, as int64.

    ``keys`` points to its keys, one an int64, so that a new epoch is no new kernel.
    """
    x = _network(keys, place.to(tl.uint32), ROUNDS, LEFT_BITS, RIGHT_BITS)
    walks = tl.max((x.to(tl.int64) >= n).to(tl.int32), axis=0)
    # Lanes that are inside keep what they have while others of the tile walk on.
    while walks > 0:
        again = _network(keys, x, ROUNDS, LEFT_BITS, RIGHT_BITS)
        x = tl.where(x.to(tl.int64) >= n, again, x)
        walks = tl.max((x.to(tl.int64) >= n).to(tl.int32), axis=0)
    return x.to(tl.int64)
