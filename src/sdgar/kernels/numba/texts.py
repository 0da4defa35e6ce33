"""Look into short texts as Arrow lays them out; see ``data/readers/short_texts.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdgar.kernels.compiled import outer

_LENGTH, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_ONES, _HIGHEST = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)


@outer
def find_zero(word_N2: Any, inside_L2: Any, found_1: Any) -> Any:
    """Note whether a text has a byte that is 0.

    The first four bytes lie above the length, in the first word. ``inside_L2`` has the bits of each
    word in which the bytes of a text of a length lie.
    """
    zeros = np.uint64(0)
    for n in range(len(word_N2)):
        length = np.int64(word_N2[n, 0] & _LENGTH)
        first, second = word_N2[n, 0] >> _HALF, word_N2[n, 1]
        # The highest bit of the lowest byte that is 0 is set, and perhaps some of those above it.
        zeros |= (first - _ONES) & ~first & _HIGHEST & inside_L2[length, 0]
        zeros |= (second - _ONES) & ~second & _HIGHEST & inside_L2[length, 1]
    if zeros != 0:
        found_1[0] = True
    return None
