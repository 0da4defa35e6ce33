"""Arithmetic without calls, branches or divisions, so that loops become vectors.

A processor continues with a guess of which way a branch will go, and discards that work where the
guess was wrong. What depends on random draws cannot be guessed: ``chosen`` computes both ways and
selects one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sdgar.kernels.compiled import inner, summing
from sdgar.kernels.numba.rows import dot_rows, row_at

_LOG2_E = np.float32(1.44269504088896341)
# ln 2 in two parts: the first has few bits, so that n · ln 2 is exact in it.
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_LEAST = np.float32(-87.0)


@intrinsic
def _from_bits(typing_context: Any, bits: Any) -> Any:
    """Return the float32 with these bits."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), code


@inner
def exp_negative(x):
    """exp(x) for x ≤ 0, relative error under 2e-7; below -87 it stays at exp(-87) ≈ 1.6e-38.

    x = n ln 2 + r with |r| ≤ ln 2 / 2; a polynomial of degree 6 for exp(r), and 2^n by its bits.
    """
    # Below this, 2^n would have no exponent in float32.
    x = max(x, _LEAST)
    # To subtract a half and cut off rounds a number that is not positive; it becomes vectors.
    n = np.float32(np.int32(x * _LOG2_E - np.float32(0.5)))
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = p * r * r + r + np.float32(1)
    # The exponent alone makes 2^n, in the bits above the 23 of the fraction.
    return p * _from_bits((np.int32(n) + np.int32(127)) << np.int32(23))


@inner
def log1p_unit(e):
    """log(1 + e) for 0 ≤ e ≤ 1 by 2 artanh(e / (2 + e)), relative error under 2e-7."""
    # z is at most 1/3, so seven terms reach the precision of float32.
    z = e / (np.float32(2) + e)
    s = z * z
    p = np.float32(1 / 13)
    p = p * s + np.float32(1 / 11)
    p = p * s + np.float32(1 / 9)
    p = p * s + np.float32(1 / 7)
    p = p * s + np.float32(1 / 5)
    p = p * s + np.float32(1 / 3)
    return np.float32(2) * z * (p * s + np.float32(1))


@inner
def softplus_and_sigmoid(s):
    """log(1 + exp(s)) and its derivative 1 / (1 + exp(-s)), from one exponential; NaN stays NaN."""
    # The exponential of a number that is not positive cannot overflow; both signs follow from it.
    e = exp_negative(-abs(s))
    rest = np.float32(1) / (np.float32(1) + e)
    sigmoid = rest if s >= 0 else e * rest
    return max(s, np.float32(0)) + log1p_unit(e), sigmoid


@summing
def product(x_D, y_D):
    """x · y, of arrays; its terms may be added in any order."""
    total = np.float32(0)
    for d in range(len(x_D)):
        total += x_D[d] * y_D[d]
    return total


@inner
def dot(user_UCD, item_ICD, user, item):
    """u_c · v_i, from tables whose rows begin with the parameters."""
    return dot_rows(row_at(user_UCD, user), row_at(item_ICD, item), user_UCD.shape[2])


_ONE, _HALF = np.uint64(1), np.uint64(32)


@intrinsic
def chosen(typing_context: Any, condition: Any, one: Any, other: Any) -> Any:
    """Return ``one`` where the condition is true, else ``other``, which has the same type."""

    def code(context: Any, builder: Any, signature: Any, given: Sequence[Any]) -> Any:
        condition, one, other = given
        found = builder.select(condition, one, other)
        found.set_metadata("unpredictable", builder.module.add_metadata([]))
        return found

    return one(types.boolean, one, one), code


@inner
def reciprocal(n):
    """Return m = ⌊2^(32 + b) / n⌋ + 1, where n ≤ 2^b, and 32 + b, as ``quotient`` takes them."""
    bits = np.uint64(0)
    while _ONE << bits < np.uint64(n):
        bits += _ONE
    shift = _HALF + bits
    return (_ONE << shift) // np.uint64(n) + _ONE, shift


@inner
def quotient(e, m, shift):
    """Return ⌊e / n⌋ for 0 ≤ e < 2^31 and the reciprocal of n, without a division."""
    return np.int64((np.uint64(e) * m) >> shift)
