"""The words of many addresses at once: eight side by side where that is faster.

A processor with AVX2 multiplies several 32-bit numbers by one instruction, and then eight addresses
take little longer than one. Others have one unit that multiplies vectors, and are faster without.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from sdgar.kernels.compiled import inner
from sdgar.kernels.numba.rng import KEYS, ROUNDS, words
from sdgar.kernels.numba.rows import row_at

_SIDE_BY_SIDE = 8
_HALF, _BYTES = np.uint64(32), np.uint64(8)
_INT32, _INT64 = ir.IntType(32), ir.IntType(64)
_EIGHT = ir.VectorType(_INT64, _SIDE_BY_SIDE)


@cache
def multiplies_vectors() -> bool:
    """Return whether the processor multiplies several 32-bit numbers to 64 bits at a time."""
    *_, features = cpu_target.target_context.codegen().magic_tuple()
    return "+avx2," in f"{features},"


@intrinsic
def _at_once(typing_context: Any) -> Any:
    """Return how many addresses are worth taking at once."""

    def code(context: Any, builder: Any, signature: Any, given: Sequence[Any]) -> Any:
        return _INT64(_SIDE_BY_SIDE if multiplies_vectors() else 1)

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
def words_of_all(n: Any, seed: Any, tail: Any, first_VN: Any, second_VN: Any, both_VN: Any) -> Any:
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
    for e in range(done, n):
        first_e[e], second_e[e], w2, w3 = words(seed, first_e[e], second_e[e], tail)
        both_e[e] = (w2 << _HALF) | w3
    return None
