"""Choices without a guess and quotients without a division equal plain arithmetic."""

from __future__ import annotations

import numba
from hypothesis import example, given
from hypothesis import strategies as st

from sdgar.kernels.numba import math as choice


@numba.njit
def either(condition, one, other):
    return choice.chosen(condition, one, other)


@numba.njit
def divided(e, n):
    m, shift = choice.reciprocal(n)
    return choice.quotient(e, m, shift)


def test_one_of_two_numbers_is_chosen():
    assert (either(True, 3, 4), either(False, 3, 4)) == (3, 4)
    assert (either(True, 0.5, 1.5), either(False, 0.5, 1.5)) == (0.5, 1.5)


@given(n=st.integers(1, 2**31 - 1), e=st.integers(0, 2**31 - 1))
@example(n=1, e=2**31 - 1)
@example(n=2**31 - 1, e=2**31 - 1)
@example(n=2**31 - 1, e=2**31 - 2)
@example(n=2**30 + 1, e=2**31 - 1)
def test_a_quotient_is_rounded_down(n, e):
    assert divided(e, n) == e // n
    below = e // n * n - 1  # where the quotient changes
    assert below < 0 or divided(below, n) == below // n
