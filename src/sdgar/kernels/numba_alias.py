"""Device code of the alias tables on the CPU: one pass over a row, integers only."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

_FULL = np.int64(1 << 32)


@numba.njit(nogil=True, cache=True)
def _next_heavy(mass_N: NDArray[np.int64], start: int) -> Any:
    while start < len(mass_N) and mass_N[start] < _FULL:
        start += 1
    return start


@numba.njit(nogil=True, cache=True)
def sweep(
    mass_RN: NDArray[np.int64],
    threshold_RN: NDArray[np.uint32],
    alias_RN: NDArray[np.int32],
    first: int,
    last: int,
) -> Any:
    """Split every bin of 2^32 between its own entry and one heavy entry, for rows first … last.

    Lights (mass < 2^32) are served in order by the current heavy; a heavy that has given more
    than its excess keeps what is left and is itself served by the next heavy.
    """
    n = mass_RN.shape[1]
    for r in range(first, last):
        heavy = _next_heavy(mass_RN[r], 0)
        left = mass_RN[r, heavy]
        light = 0
        while heavy < n:
            if left > _FULL:
                # The current heavy has excess, so a light is left to take it.
                while mass_RN[r, light] >= _FULL:
                    light += 1
                threshold_RN[r, light] = np.uint32(mass_RN[r, light])
                alias_RN[r, light] = heavy
                left -= _FULL - mass_RN[r, light]
                light += 1
            else:
                # No excess is left: at exactly 2^32 the bin is all its own, below it the next
                # heavy fills it up.
                after = _next_heavy(mass_RN[r], heavy + 1)
                full = left == _FULL
                threshold_RN[r, heavy] = np.uint32(_FULL - 1) if full else np.uint32(left)
                alias_RN[r, heavy] = heavy if full else after
                left += (mass_RN[r, after] if after < n else 0) - _FULL
                heavy = after
    return None
