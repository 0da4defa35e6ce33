"""Products and transposes of sparse matrices on the CPU; see ``maths/sparse.py``.

An entry whose column is negative does not count.
"""

from __future__ import annotations

from sdgar.kernels.compiled import outer


@outer
def add_product(
    first, last, start_R1, column_E, weight_E, other_start_C1, other_column_E, other_weight_E,
    scale, out_RC,
):  # fmt: skip
    """out_rc += scale Σ_j x_rj y_jc for some rows, the terms of a sum in the order of entries."""
    for r in range(first, last):
        for e in range(start_R1[r], start_R1[r + 1]):
            j, x = column_E[e], scale * weight_E[e]
            for f in range(other_start_C1[j], other_start_C1[j + 1]):
                out_RC[r, other_column_E[f]] += x * other_weight_E[f]


@outer
def count(column_E, length_C):
    """Count the entries of each column, on top of what is there."""
    for e in range(len(column_E)):
        if column_E[e] >= 0:
            length_C[column_E[e]] += 1


@outer
def gather(first, last, start_R1, column_E, weight_E, next_C, row_E, row_weight_E):
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
