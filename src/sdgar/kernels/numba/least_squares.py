"""Conjugate gradients for the rows of one side on the CPU; see ``maths/least_squares.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdgar.kernels.compiled import outer
from sdgar.kernels.numba.rows import (
    Number,
    Numbers,
    Row,
    add_row,
    clear_row,
    dot_rows,
    each_place,
    muladd,
    row_at,
)
from sdgar.kernels.numba.sums import add_rows
from sdgar.kernels.numba.threads import prefetch_row, share

__all__ = ["improve", "share"]

_AHEAD = 6
"""Rows ahead of the one that is read."""
_NUMBER = np.int64(4)


@each_place
def _follow(way: Row, rest: Row, c: Number) -> Numbers:
    """Way = rest + c way."""
    return muladd(c, way, rest)


@outer
def improve(
    first: Any, last: Any, start_R1: Any, column_E: Any, weight_E: Any, norm_R: Any, v_CD: Any,
    gram_DD: Any, steps: Any, tiny: Any, u_RD: Any, scratch_3D: Any,
) -> Any:  # fmt: skip
    """Move u_r towards the solution of (Σ_c w_rc v_c v_c' + G + norm_r) u_r = Σ_c w_rc v_c.

    All steps of a row follow each other, while the rows of v that it needs are in the cache. A row
    that has arrived has no way left to go: 0 / tiny is 0.
    """
    dim, entries, one = u_RD.shape[1], len(column_E), np.float32(1)
    address, row_bytes = v_CD.ctypes.data, np.int64(dim * 4)
    rest, way, left = row_at(scratch_3D, 0), row_at(scratch_3D, 1), row_at(scratch_3D, 2)
    gram = row_at(gram_DD, 0)
    for r in range(first, last):
        begin, end, u = start_R1[r], start_R1[r + 1], row_at(u_RD, r)
        clear_row(rest, dim)
        for e in range(begin, end):
            if e + _AHEAD < entries:
                ahead = np.int64(column_E[e + _AHEAD])
                prefetch_row(address, ahead, np.uint64(row_bytes), np.uint64(row_bytes))
            v = row_at(v_CD, column_E[e])
            add_row(rest, v, weight_E[e] * (one - dot_rows(u, v, dim)), dim)
        add_rows(rest, -one, u, _NUMBER, gram, row_bytes, dim, dim)
        add_row(rest, u, -norm_R[r], dim)
        clear_row(way, dim)
        size, before = dot_rows(rest, rest, dim), tiny
        for step in range(steps):
            _follow(way, rest, size / max(before, tiny) if step > 0 else np.float32(0), dim)
            clear_row(left, dim)
            for e in range(begin, end):
                v = row_at(v_CD, column_E[e])
                add_row(left, v, weight_E[e] * dot_rows(way, v, dim), dim)
            add_rows(left, one, way, _NUMBER, gram, row_bytes, dim, dim)
            add_row(left, way, norm_R[r], dim)
            length = size / max(dot_rows(way, left, dim), tiny)
            add_row(u, way, length, dim)
            add_row(rest, left, -length, dim)
            before, size = size, dot_rows(rest, rest, dim)
    return None
