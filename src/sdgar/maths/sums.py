"""Sum floats exactly, so that the sum does not depend on the order of its parts."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

_HALF = 26
"""The bits of the lower half of a significand of 53 bits."""
_BLOCK = 1 << 20
"""The numbers that are summed at once: sums of as many halves stay exact in float64."""


def exact_sum(values: NDArray[np.floating[Any]]) -> Fraction:
    """Return Σ values without any rounding; the values are finite.

    Each value is m · 2^e with an integer m of 53 bits. Both halves of m are added up for each
    exponent e, which is exact.
    """
    total = Fraction(0)
    for first in range(0, len(values), _BLOCK):
        fraction, exponent = np.frexp(values[first : first + _BLOCK].astype(np.float64))
        whole = (fraction * 2.0**53).astype(np.int64)
        high, low = whole >> _HALF, whole & ((1 << _HALF) - 1)
        least = int(exponent.min())
        highs = np.bincount(exponent - least, high)
        lows = np.bincount(exponent - least, low)
        for at in np.flatnonzero((highs != 0) | (lows != 0)).tolist():
            part = (int(highs[at]) << _HALF) + int(lows[at])
            total += part * Fraction(2) ** (at + least - 53)
    return total
