"""Sums of many rows equal float64, for any numbers of rows and places, and write no others."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sdgar.kernels.compiled import outer
from sdgar.kernels.numba.least_squares import add_rows
from sdgar.kernels.numba.rows import WIDTH, row_at


@outer
def _added(out_D: Any, scale: Any, c_RC: Any, column: Any, x_RD: Any, rows: Any, n: Any) -> Any:
    c = row_at(c_RC, 0) + np.uint64(column * 4)
    size, width = c_RC.strides[0], x_RD.strides[0]
    add_rows(out_D.ctypes.data, scale, c, size, row_at(x_RD, 0), width, rows, n)
    return None


@given(
    rows=st.integers(0, 11),
    n=st.integers(0, 2 * WIDTH + 3),
    more=st.integers(1, 3),
    column=st.integers(0, 2),
    scale=st.sampled_from([-2.5, 0.0, 1.0, 3.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_sum_of_rows_is_that_of_float64(rows, n, more, column, scale, seed):
    random = np.random.default_rng(seed)
    out_D, c_RC, x_RD = (
        random.standard_normal(shape).astype(np.float32)
        for shape in (n + more, (rows + 1, 3), (rows + 1, n + more))
    )
    before_D = out_D.copy()
    _added(out_D, np.float32(scale), c_RC, column, x_RD, rows, n)
    exact_D = before_D.astype(np.float64)
    terms_D = np.abs(exact_D)
    for r in range(rows):
        term_D = scale * np.float64(c_RC[r, column]) * x_RD[r].astype(np.float64)
        exact_D += term_D
        terms_D += np.abs(term_D)
    bound_D = (rows + 2) * np.finfo(np.float32).eps * terms_D
    assert (np.abs(out_D[:n] - exact_D[:n]) <= bound_D[:n]).all()
    np.testing.assert_array_equal(out_D[n:], before_D[n:])


def test_rows_are_added_up_alike_wherever_they_begin():
    random = np.random.default_rng(3)
    c_RC = random.standard_normal((9, 3)).astype(np.float32)
    x_RD = random.standard_normal((9, 40)).astype(np.float32)
    sums = []
    for shift in range(5):
        table_RD = np.zeros((9, 48), np.float32)
        table_RD[:, shift : shift + 40] = x_RD
        out_D = np.zeros(40, np.float32)
        _added(out_D, np.float32(1), c_RC, 1, table_RD[:, shift:], 9, 40)
        sums.append(out_D.tobytes())
    assert len(set(sums)) == 1
