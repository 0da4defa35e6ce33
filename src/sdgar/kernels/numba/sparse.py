"""Products and transposes of sparse matrices on the CPU; see ``maths/sparse.py``.

An entry whose column is negative does not count.
"""

from __future__ import annotations

from typing import Any

from sdgar.kernels.compiled import outer


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
def count(column_E: Any, length_C: Any) -> Any:
    """Count the entries of each column, on top of what is there."""
    for e in range(len(column_E)):
        if column_E[e] >= 0:
            length_C[column_E[e]] += 1
    return None


@outer
def gather(
    first: Any, last: Any, start_R1: Any, column_E: Any, weight_E: Any, next_C: Any, row_E: Any,
    row_weight_E: Any,
) -> Any:  # fmt: skip
    """Put the row and the weight of each entry of columns first … last - 1 where it belongs."""
    weighted = len(weight_E) > 0
    for r in range(len(start_R1) - 1):
        for e in range(start_R1[r], start_R1[r + 1]):
            c = column_E[e]
            if first <= c < last:
                row_E[next_C[c]] = r
                if weighted:
                    row_weight_E[next_C[c]] = weight_E[e]
                next_C[c] += 1
    return None
