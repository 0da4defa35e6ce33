"""Products of sparse matrices into dense blocks on the CPU; see ``maths/sparse.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdgar.kernels.compiled import outer
from sdgar.kernels.numba.rows import add_row, clear_row, dot_rows, row_at
from sdgar.kernels.numba.threads import prefetch_row, share

_AHEAD = 6
"""Rows ahead of the one that is read."""

__all__ = ["add_product", "pull", "share"]


@outer
def add_product(
    first: Any, last: Any, start_R1: Any, column_E: Any, weight_E: Any, other_start_C1: Any,
    other_column_E: Any, other_weight_E: Any, scale: Any, out_RC: Any,
) -> Any:  # fmt: skip
    """out_rc += scale Σ_j x_rj y_jc for some rows, the terms of a sum in the order of entries."""
    for r in range(first, last):
        for e in range(start_R1[r], start_R1[r + 1]):
            j, x = column_E[e], scale * weight_E[e]
            for f in range(other_start_C1[j], other_start_C1[j + 1]):
                out_RC[r, other_column_E[f]] += x * other_weight_E[f]
    return None


@outer
def pull(
    first: Any, last: Any, start_R1: Any, column_E: Any, weight_E: Any, p_RD: Any, v_CD: Any,
    out_RD: Any,
) -> Any:  # fmt: skip
    """out_r = Σ_c w_rc (p_r · v_c) v_c for some rows; a row of v is read once for both products."""
    dim, entries = p_RD.shape[1], len(column_E)
    address, row_bytes = v_CD.ctypes.data, np.uint64(dim * 4)
    for r in range(first, last):
        out = row_at(out_RD, r)
        clear_row(out, dim)
        for e in range(start_R1[r], start_R1[r + 1]):
            if e + _AHEAD < entries:
                prefetch_row(address, column_E[e + _AHEAD], row_bytes, row_bytes)
            v = row_at(v_CD, column_E[e])
            add_row(out, v, weight_E[e] * dot_rows(row_at(p_RD, r), v, dim), dim)
    return None
