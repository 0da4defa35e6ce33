"""Which thread owns a row of a table: rows are stepped by their owners alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdgar.kernels.compiled import inner

_SPREAD, _LOW, _HALF = np.uint64(0x9E3779B1), np.uint64(0xFFFFFFFF), np.uint64(32)
_LINE = np.uint64(4)


@inner
def owns(t: Any, threads: Any, row: Any) -> Any:
    """Return whether thread t owns a row.

    Rows are owned 16 at a time, by the thread in whose share of 2^32 a multiple of their number
    lies: two threads never write to one cache line of a table with one number a row.
    """
    place = ((np.uint64(row) >> _LINE) * _SPREAD) & _LOW
    return place * np.uint64(threads) >> _HALF == t
