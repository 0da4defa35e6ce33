"""Histories of requests become contexts of a model without a detour, and are the same ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sdgar.data.ids import Ids
from sdgar.recommend.histories import history_of, in_order, new_contexts, rows_of

NUMBERS = Ids(np.arange(0, 40, 2))
WORDS = Ids(np.array([*(f"w{n:02}" for n in range(20)), None], dtype=object)[:-1])


@given(
    st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=9), min_size=1, max_size=6),
    st.booleans(),
)
def test_they_are_those_that_rows_give(lists, words):
    items = WORDS if words else NUMBERS
    if words:
        lists = [[f"w{n:02}" for n in one] for one in lists]
    new, known_T = new_contexts(lists, items)
    known = set(items.values.tolist())
    assert known_T.tolist() == [bool(known & set(one)) for one in lists]
    kept = [[item for item in one if item in known] for one in lists]
    kept = [one for one in kept if one]
    assert new.history.n_users == len(kept)
    if not kept:
        return
    rows = rows_of(kept)
    wanted = history_of(rows, rows.users, items)
    assert_array_equal(new.history.indptr_U1, wanted.indptr_U1)
    assert_array_equal(new.history.items_E, wanted.items_E)
    assert new.history.items_E.dtype == wanted.items_E.dtype
    assert_array_equal(new.in_order_E, in_order(rows, items))


def test_text_and_integers_name_the_same_item_and_other_things_none():
    new, known_T = new_contexts([["4", 2, None, 1.5, True], [], ["x"], [2**70, 8]], NUMBERS)
    assert known_T.tolist() == [True, False, False, True]
    assert [new.history.of(c).tolist() for c in range(2)] == [[1, 2], [4]]
    assert new.in_order_E.tolist() == [2, 1, 4]


def test_nobody_is_nothing():
    new, known_T = new_contexts([], NUMBERS)
    assert new.history.n_users == len(known_T) == 0


@pytest.mark.parametrize(
    "asked", [[2, 3], [2**63, 2], [-1, 2], [2**63, -1], [2**80, 2], [True, 2], ["2", 2], [2.0, 2]]
)
def test_ids_are_found_alike_with_and_without_a_table(asked):
    by_table = [NUMBERS._index.get(str(one), -1) for one in asked]
    wanted = [
        -1 if isinstance(one, bool | float) else at for one, at in zip(asked, by_table, strict=True)
    ]
    assert NUMBERS.index_of(asked).tolist() == wanted


def test_integers_need_no_table_of_all_ids():
    ids = Ids(np.arange(10))
    assert ids.index_of([3, 11]).tolist() == [3, -1]
    assert "_index" not in vars(ids)
