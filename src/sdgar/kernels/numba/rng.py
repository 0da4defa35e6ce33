"""Philox4x32-10 for Numba kernels: the same words as ``sdgar.maths.rng``.

A processor with AVX2 multiplies several 32-bit numbers by one instruction, and eight addresses then
take little longer than one (``words_of_all``). Other processors have one unit that multiplies
vectors, and are faster with one address at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from sdgar.kernels.compiled import inlined, inner, outer
from sdgar.kernels.numba.rows import processor_has, row_at
from sdgar.machine.threads import share

_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
ROUNDS = 0xD2511F53, 0xCD9E8D57
"""What the first and the third word are multiplied by in each of the ten rounds."""
KEYS = 0x9E3779B9, 0xBB67AE85
"""What is added to the two halves of the seed after each round."""
_ROUND_A, _ROUND_B = np.uint64(ROUNDS[0]), np.uint64(ROUNDS[1])
_KEY_A, _KEY_B = np.uint64(KEYS[0]), np.uint64(KEYS[1])


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


_SIDE_BY_SIDE = 8
_HALF, _BYTES = np.uint64(32), np.uint64(8)
_INT32, _INT64 = ir.IntType(32), ir.IntType(64)
_EIGHT = ir.VectorType(_INT64, _SIDE_BY_SIDE)


@intrinsic
def _at_once(typing_context: Any) -> Any:
    """Return how many addresses are worth taking at once."""

    def code(context: Any, builder: Any, signature: Any, given: Sequence[Any]) -> Any:
        return _INT64(_SIDE_BY_SIDE if processor_has("avx2") else 1)

    return types.int64(), code


def _everywhere(builder: Any, number: Any) -> Any:
    """Return a vector of one number."""
    undefined = ir.Constant(_EIGHT, ir.Undefined)
    one = builder.insert_element(undefined, number, _INT32(0))
    return builder.shuffle_vector(
        one, undefined, ir.Constant(ir.VectorType(_INT32, _SIDE_BY_SIDE), [0] * _SIDE_BY_SIDE)
    )


@intrinsic
def _eight_words(
    typing_context: Any, seed: Any, tail: Any, first: Any, second: Any, both: Any
) -> Any:
    """Do what ``words_of_all`` does for the addresses that lie from these places of memory on."""

    def code(context: Any, builder: Any, signature: Any, given: Sequence[Any]) -> Any:
        seed, tail, first, second, both = given
        places = [builder.inttoptr(one, _EIGHT.as_pointer()) for one in (first, second, both)]

        def each(number: int) -> Any:
            return ir.Constant(_EIGHT, [number] * _SIDE_BY_SIDE)

        def read(place: Any) -> Any:
            value = builder.load(place)
            value.align = 8
            return value

        low, half = each(0xFFFFFFFF), each(32)
        row = read(places[0])
        c0, c1 = builder.and_(row, low), builder.lshr(row, half)
        c2, c3 = read(places[1]), _everywhere(builder, tail)
        k0 = builder.and_(seed, _INT64(0xFFFFFFFF))
        k1 = builder.lshr(seed, _INT64(32))
        for _ in range(10):
            # What is above 32 bits is cut off before each product, so that one instruction does.
            a = builder.mul(builder.and_(c0, low), each(ROUNDS[0]))
            b = builder.mul(builder.and_(c2, low), each(ROUNDS[1]))
            key0, key1 = _everywhere(builder, k0), _everywhere(builder, k1)
            c0 = builder.xor(builder.xor(builder.lshr(b, half), c1), key0)
            c2 = builder.xor(builder.xor(builder.lshr(a, half), c3), key1)
            c1, c3 = builder.and_(b, low), builder.and_(a, low)
            k0 = builder.and_(builder.add(k0, _INT64(KEYS[0])), _INT64(0xFFFFFFFF))
            k1 = builder.and_(builder.add(k1, _INT64(KEYS[1])), _INT64(0xFFFFFFFF))
        last = builder.or_(builder.shl(c2, half), c3)
        for value, place in zip((c0, c1, last), places, strict=True):
            builder.store(value, place).align = 8
        return context.get_dummy_value()

    number, address = types.uint64, types.uintp
    return types.void(number, number, address, address, address), code


@inner
def words_of_all(n, seed, tail, first_VN, second_VN, both_VN):
    """Draw the words of the first n addresses: rows are in ``first_VN``, slots in ``second_VN``.

    The first two words take the places of row and slot; the other two are w2 << 32 | w3 in
    ``both_VN``.
    """
    seed, tail, done = np.uint64(seed), np.uint64(tail), 0
    first_e, second_e, both_e = first_VN.flat, second_VN.flat, both_VN.flat
    if _at_once() > 1:
        first, second, both = row_at(first_VN, 0), row_at(second_VN, 0), row_at(both_VN, 0)
        while done + _at_once() <= n:
            skipped = np.uint64(done) * _BYTES
            _eight_words(seed, tail, first + skipped, second + skipped, both + skipped)
            done += _at_once()
    # The rest, or all of them on a processor without AVX2.
    for e in range(done, n):
        first_e[e], second_e[e], w2, w3 = words(seed, first_e[e], second_e[e], tail)
        both_e[e] = (w2 << _HALF) | w3


Words = NDArray[np.int64]


def words_of(seed: int, rows: Words, slots: Words, tail: int) -> tuple[Words, Words, Words, Words]:
    """Return four words for each row and slot, in the shape of both."""
    w0, w1, w2, w3 = (np.empty(rows.shape, np.int64) for _ in range(4))
    flat = (np.ascontiguousarray(a).reshape(-1) for a in (rows, slots, w0, w1, w2, w3))
    share(_words_of, rows.size, rows.size, np.uint64(seed), np.uint64(tail), *flat)
    return w0, w1, w2, w3


@outer
def _words_of(first, last, seed, tail, row_N, slot_N, w0_N, w1_N, w2_N, w3_N):
    for i in range(first, last):
        w0_N[i], w1_N[i], w2_N[i], w3_N[i] = words(seed, row_N[i], slot_N[i], tail)
