"""Products of sparse matrices into dense blocks on the CPU; see ``maths/sparse.py``."""

from __future__ import annotations

from typing import Any

from sdgar.kernels.compiled import outer
from sdgar.kernels.numba.threads import share

__all__ = ["add_product", "share"]


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
