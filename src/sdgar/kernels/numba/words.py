"""Random words of many rows at once, for ``sdgar.maths.rng``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import outer
from sdgar.kernels.numba.rng import words
from sdgar.kernels.numba.threads import share

Words = NDArray[np.int64]


def words_of(seed: int, rows: Words, slots: Words, tail: int) -> tuple[Words, Words, Words, Words]:
    """Return four words for each row and slot, in the shape of both."""
    w0, w1, w2, w3 = (np.empty(rows.shape, np.int64) for _ in range(4))
    flat = (np.ascontiguousarray(a).reshape(-1) for a in (rows, slots, w0, w1, w2, w3))
    share(_words_of, rows.size, rows.size, np.uint64(seed), np.uint64(tail), *flat)
    return w0, w1, w2, w3


@outer
def _words_of(
    first: Any, last: Any, seed: Any, tail: Any, row_N: Any, slot_N: Any, w0_N: Any,
    w1_N: Any, w2_N: Any, w3_N: Any,
) -> Any:  # fmt: skip
    for i in range(first, last):
        w0_N[i], w1_N[i], w2_N[i], w3_N[i] = words(seed, row_N[i], slot_N[i], tail)
    return None
