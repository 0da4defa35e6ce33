"""Which share of the rows of a table a row belongs to: one thread at a time steps a share."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdgar.kernels.compiled import inner

_SPREAD, _LOW, _HALF = np.uint64(0x9E3779B1), np.uint64(0xFFFFFFFF), np.uint64(32)
_LINE = np.uint64(4)


@inner
def owns(own: Any, shares: Any, row: Any) -> Any:
    """Return whether a row belongs to share ``own`` of so many shares.

    Rows go together 16 at a time, into the share of 2^32 that a multiple of their number lies in:
    two threads never write to one cache line of a table with one number a row.
    """
    place = ((np.uint64(row) >> _LINE) * _SPREAD) & _LOW
    return np.int64(place * np.uint64(shares) >> _HALF) == own
