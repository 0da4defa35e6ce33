"""Equations between rows: compared with float64, for any length, and nothing past their end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sdgar.kernels.compiled import outer
from sdgar.kernels.numba.rows import (
    WIDTH,
    Number,
    Number64,
    Numbers,
    Row,
    Row64,
    add_row,
    clear_row,
    dot_rows,
    each_place,
    fuses,
    muladd,
    root,
    row_at,
    scale_row,
    sum_of_places,
)

_LENGTHS = st.integers(0, 3 * WIDTH + 1)
_EPSILON = float(np.finfo(np.float32).eps)


@each_place
def _swap_and_root(a: Row, b: Row, c: Number) -> tuple[Numbers, Numbers]:
    """Two rows are written: c √b, and a / c."""
    return c * root(b), a / c


@sum_of_places
def _cubes(before: Numbers, x: Row, c: Number) -> Numbers:
    """Σ (c x)³."""
    return muladd(c * x * (c * x), c * x, before)


@outer
def _written(what: Any, table_RD: Any, c: Any, n: Any) -> Any:
    first, second = row_at(table_RD, 0), row_at(table_RD, 1)
    if what == 0:
        scale_row(first, second, c, n)
    elif what == 1:
        add_row(first, second, c, n)
    elif what == 2:
        clear_row(first, n)
    else:
        _swap_and_root(first, second, c, n)
    return None


@outer
def _summed(a_RD: Any, b_RD: Any, c: Any, n: Any) -> Any:
    a = row_at(a_RD, 1)
    return dot_rows(a, row_at(b_RD, 1), n), _cubes(a, c, n)


def _rows(n: int, seed: int) -> NDArray[np.float32]:
    """Draw rows with one number more than there are places."""
    return np.random.default_rng(seed).uniform(0.5, 2, (2, n + 1)).astype(np.float32)


@given(_LENGTHS, st.integers(0, 99), st.sampled_from(range(4)))
def test_rows_are_written_as_in_float64_and_nothing_after_them(
    n: int, seed: int, what: int
) -> None:
    table, c = _rows(n, seed), np.float32(0.7)
    wanted = table.astype(np.float64)
    a, b = wanted[0, :n].copy(), wanted[1, :n].copy()
    wanted[0, :n] = [c * b, a + c * b, 0 * a, c * np.sqrt(b)][what]
    if what == 3:
        wanted[1, :n] = a / c
    _written(what, table, c, n)
    np.testing.assert_allclose(table, wanted, rtol=3 * _EPSILON)
    assert (table[:, n] == wanted[:, n]).all()


@given(_LENGTHS, st.integers(0, 99))
def test_sums_are_those_of_float64(n: int, seed: int) -> None:
    a, b = _rows(n, seed), _rows(n, seed + 100)
    c, exact = np.float32(-0.7), a[1, :n].astype(np.float64)
    wanted = exact * b[1, :n], (np.float64(c) * exact) ** 3
    for found, terms in zip(_summed(a, b, c, n), wanted, strict=True):
        assert abs(found - terms.sum()) <= (n + 4) * _EPSILON * np.abs(terms).sum()


@given(st.integers(1, 3 * WIDTH), st.sampled_from([np.nan, np.inf]))
def test_a_number_that_is_none_is_found_at_any_place(n: int, odd: float) -> None:
    for place in range(n):
        a, b = _rows(n, 1), _rows(n, 2)
        a[1, place] = odd
        assert not np.isfinite(_summed(a, b, np.float32(1), n)[0])


@each_place
def _less_double(a: Row64, b: Row64, c: Number64) -> Numbers:
    """A -= c b, in float64."""
    return a - c * b


@sum_of_places
def _squares_double(before: Numbers, x: Row64) -> Numbers:
    """Σ x², in float64."""
    return before + x * x


@outer
def _of_doubles(table_RD: Any, c: Any, n: Any) -> Any:
    first, second = row_at(table_RD, 0), row_at(table_RD, 1)
    _less_double(first, second, c, n)
    return _squares_double(first, n)


@given(_LENGTHS, st.integers(0, 99))
def test_rows_of_float64_are_those_of_numpy_to_the_last_bit(n: int, seed: int) -> None:
    table, c = _rows(n, seed).astype(np.float64), 1 / 3
    wanted = table.copy()
    wanted[0, :n] = wanted[0, :n] - c * wanted[1, :n]
    found = _of_doubles(table, c, n)
    np.testing.assert_array_equal(table, wanted)
    assert found == pytest.approx(float((wanted[0, :n] ** 2).sum()), rel=1e-13)


@outer
def _all_summed(a_RD: Any, b_RD: Any, n: Any, sum_R: Any) -> Any:
    for r in range(len(sum_R)):
        sum_R[r] = dot_rows(row_at(a_RD, r), row_at(b_RD, r), n)
    return None


@outer
def _one_summed(a_RD: Any, b_RD: Any, n: Any, sum_R: Any) -> Any:
    sum_R[0] = dot_rows(row_at(a_RD, 0), row_at(b_RD, 0), n)
    return None


def _short(shape: tuple[int, ...], seed: int) -> NDArray[np.float32]:
    """Draw numbers of 16 bits, whose products and sums float64 has without rounding."""
    return (np.random.default_rng(seed).integers(1 << 15, 1 << 16, shape) / 2**15).astype(
        np.float32
    )


@pytest.mark.skipif(not fuses(), reason="this processor rounds products and sums apart")
@given(st.integers(1, WIDTH - 1), st.integers(0, 99))
def test_a_sum_is_rounded_once_a_term_whatever_it_is_a_part_of(n: int, seed: int) -> None:
    # A compiler that makes vectors of such a loop may round each product before it is added.
    a, b = _short((40, n), seed), _short((40, n), seed + 1)
    wanted = np.zeros(40, np.float32)
    for d in range(n):
        wanted = (wanted + a[:, d].astype(np.float64) * b[:, d]).astype(np.float32)
    found, one = np.zeros(40, np.float32), np.zeros(1, np.float32)
    _all_summed(a, b, n, found)
    _one_summed(a, b, n, one)
    np.testing.assert_array_equal(found, wanted)
    assert one[0] == wanted[0]
