"""Choices and divisions that a processor need not guess or wait for.

A processor goes on by a guess of which way a branch will take, and throws away what it did where
the guess was wrong. What hangs on random draws cannot be guessed; here both ways are computed, and
one of them is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from sdgar.kernels.compiled import inner

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
def reciprocal(n: Any) -> Any:
    """Return m = ⌊2^(32 + b) / n⌋ + 1, where n ≤ 2^b, and 32 + b, as ``quotient`` takes them."""
    bits = np.uint64(0)
    while _ONE << bits < np.uint64(n):
        bits += _ONE
    shift = _HALF + bits
    return (_ONE << shift) // np.uint64(n) + _ONE, shift


@inner
def quotient(e: Any, m: Any, shift: Any) -> Any:
    """Return ⌊e / n⌋ for 0 ≤ e < 2^31 and the reciprocal of n, without a division."""
    return np.int64((np.uint64(e) * m) >> shift)
