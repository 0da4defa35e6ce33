"""Orders and ranks equal NumPy's sorts, whatever the numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdgar.maths.order import by_pair, in_order, later_last, ranked


@pytest.mark.parametrize("end", [1, 7, 1 << 31, 1 << 54, 1 << 60, (1 << 63) - 1])
def test_an_order_is_that_of_a_stable_sort(end):
    numbers = np.random.default_rng(0).integers(0, min(end, 50), 1000)
    numbers[::7], numbers[::5] = end - 1, end // 3
    order, found = in_order(numbers, end)
    assert order.tolist() == np.argsort(numbers, kind="stable").tolist()
    assert found.tolist() == sorted(numbers.tolist())


@pytest.mark.parametrize("ends", [(30, 20), (1 << 31, 1 << 30), (1 << 32, 1 << 31)])
def test_pairs_are_ordered_by_the_first_and_then_the_second(ends):
    generator = np.random.default_rng(1)
    first, second = (
        generator.integers(0, 20, 2000) * (end // 20 if end > 100 else 1) for end in ends
    )
    order, key = by_pair(first, second, ends)
    assert order.tolist() == np.lexsort((second, first)).tolist()
    assert key.tolist() == (first * ends[1] + second)[order].tolist()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=40))
def test_rows_of_one_key_are_ordered_by_time_and_then_as_they_came(rows):
    key, time = np.array(rows, np.int64).T
    order = np.argsort(key, kind="stable")
    last = np.append(np.diff(key[order]) != 0, True)
    assert later_last(order, last, key[order], time).tolist() == np.lexsort((time, key)).tolist()


@pytest.mark.parametrize(
    "ids",
    [
        np.array([], np.int64),
        np.array([-(2**63), 2**63 - 1, 0, 0]),
        np.array([-(2**63), -(2**63) + 5, -(2**63)]),
        np.array([2**64 - 1, 2**64 - 3, 2**64 - 1], np.uint64),
        np.array([2**63, 0], np.uint64),
        np.random.default_rng(2).integers(-40, 900, 500),
        np.random.default_rng(3).integers(0, 10**12, 500),
        np.array([-100, 100, 45, 44], np.int8),
        np.array([-30_000, 30_000, 7], np.int16),
        np.array([0, 255, 3], np.uint8),
        np.array([127, 125, 126, 125], np.int8),
        np.array([2**64 - 1, 2**64 - 2], np.uint64),
        np.array(["b", "a", "b"], object),
    ],
    ids=[
        "none",
        "far",
        "lowest",
        "highest",
        "unsigned",
        "near",
        "apart",
        "int8",
        "int16",
        "uint8",
        "all of int8",
        "all of uint64",
        "text",
    ],
)
def test_ranks_are_those_of_unique(ids):
    distinct, index = ranked(ids)
    wanted, inverse = np.unique(ids, return_inverse=True)
    assert (distinct.dtype, index.dtype) == (wanted.dtype, np.int64)
    assert distinct.tolist() == wanted.tolist()
    assert index.tolist() == inverse.tolist()
