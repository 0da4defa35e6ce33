"""Choices without a guess and quotients without a division equal plain arithmetic."""

from __future__ import annotations

import numba
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from sdgar.kernels.numba import math as choice
from sdgar.kernels.numba.known import SHORT, is_among
from sdgar.kernels.numba.moves import _chain


@numba.njit
def either(condition, one, other):
    return choice.chosen(condition, one, other)


@numba.njit
def divided(e, n):
    m, shift = choice.reciprocal(n)
    return choice.quotient(e, m, shift)


@numba.njit
def found_among(sorted_E, first, last, item):
    return is_among(sorted_E, first, last, item)


@numba.njit
def chained(entries, key_e, own, shares, tail_R, next_e, list_e):
    return _chain(entries, key_e, own, shares, tail_R, next_e, list_e)


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


@given(
    st.lists(st.integers(0, 300), unique=True, max_size=4 * SHORT),
    st.integers(0, 5),
    st.integers(0, 5),
)
def test_an_item_is_found_among_few_and_many(items, before, after):
    sorted_E = np.sort(np.array(items, np.int32))
    first, last = min(before, len(items)), max(len(items) - after, 0)
    some = set(sorted_E[first:last].tolist())
    for item in range(-1, 302):
        assert found_among(sorted_E, first, last, item) == (item in some)


@given(st.lists(st.integers(-1, 60), max_size=80), st.integers(1, 3))
def test_entries_of_a_row_are_chained_in_order_and_rows_with_one_come_first(keys, shares):
    key_e, entries = np.array(keys, np.int32), len(keys)
    chains = {}
    for own in range(shares):
        tail_R = np.full(61, -1, np.int32)
        next_e = np.zeros(entries + 1, np.int32)
        list_e = np.zeros(2 * entries + 1, np.int32)
        mine = chained(entries, key_e, own, shares, tail_R, next_e, list_e)
        lengths = []
        for first in list_e[:mine]:
            chain = [int(first)]
            while (e := int(next_e[chain[-1]])) >= 0:
                chain.append(e)
            chains[int(key_e[first])] = chain
            lengths.append(len(chain))
        alone = lengths.count(1)
        assert all(length == 1 for length in lengths[:alone])
    rows = {row: np.flatnonzero(key_e == row).tolist() for row in set(keys) - {-1}}
    assert chains == rows
