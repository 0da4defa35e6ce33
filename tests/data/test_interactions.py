from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from sdgar.data.building import RowAccount
from sdgar.data.held_out import HeldOut
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.data.merge import merge
from sdgar.errors import DataError, SdgarError

pairs = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=60)
raw_ids = st.one_of(
    st.lists(st.text(min_size=1), min_size=1, max_size=20),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20),
    st.lists(st.integers(0, 2**64 - 1).map(np.uint64), min_size=1, max_size=20),
)


def test_rows_become_csr_with_items_ascending():
    data = Interactions.from_arrays(["b", "a", "b", "b"], [5, 9, 1, 3])
    assert data.users.values.tolist() == ["a", "b"]
    assert data.items.values.tolist() == [1, 3, 5, 9]
    assert data.indptr_U1.tolist() == [0, 1, 4]
    assert data.items_E.tolist() == [3, 0, 1, 2]


@given(pairs)
def test_the_order_of_rows_changes_nothing(rows):
    users, items = map(list, zip(*rows, strict=True))
    forward = Interactions.from_arrays(users, items)
    backward = Interactions.from_arrays(users[::-1], items[::-1])
    assert forward.fingerprint() == backward.fingerprint()


@given(pairs)
def test_every_row_is_kept_or_counted_as_a_duplicate(rows):
    data = Interactions.from_arrays(*map(list, zip(*rows, strict=True)))
    assert data.account.read == len(rows)
    assert data.account.kept == len(set(rows)) == len(data)
    assert data.account.duplicates == len(rows) - len(set(rows))


@given(raw_ids)
def test_ids_come_out_as_they_went_in(raw):
    data = Interactions.from_arrays(raw, np.zeros(len(raw), int))
    out = data.users.values.tolist()
    assert set(out) == {v.item() if hasattr(v, "item") else v for v in raw}
    assert data.users.index_of(data.users.values).tolist() == list(range(len(out)))


def test_an_integer_is_found_by_its_plain_spelling_only():
    ids = Ids(np.array([7, 17]))
    assert ids.index_of(["7", "17", "007", "7.0", " 7", "+7"]).tolist() == [0, 1, -1, -1, -1, -1]
    assert ids.index_of([7, 2**63, -1, 2**80, True, 17.0]).tolist() == [0, -1, -1, -1, -1, -1]
    assert ids.index_of([2**63, 17]).tolist() == [-1, 1]
    assert Ids(np.array(["007", "7"], object)).index_of([7, "007"]).tolist() == [1, 0]


def test_an_account_that_loses_a_row_cannot_be_made():
    with pytest.raises(AssertionError, match="row accounting"):
        RowAccount(read=10, kept=8, duplicates=1)


def test_the_latest_of_repeated_rows_gives_the_time():
    data = Interactions.from_arrays([1, 1, 1], [2, 2, 3], time=[50, 40, 10])
    assert data.time_E.tolist() == [50, 10]


@pytest.mark.parametrize(("rule", "weight"), [("sum", 5.0), ("max", 3.0), ("last", 2.0)])
def test_repeated_rows_merge_their_weights_by_the_rule(rule, weight):
    data = Interactions.from_arrays([1, 1], [2, 2], weight=[3.0, 2.0], time=[1, 2], duplicates=rule)
    assert data.weight_E.tolist() == [weight]


@pytest.mark.parametrize(
    ("users", "items", "weight", "code", "said"),
    [
        ([1, 2], [1, 2], [1.0, -1.0], "bad_weight", "finite and not negative"),
        ([1, 2], [1, 2], [1.0, float("nan")], "bad_weight", "finite and not negative"),
        ([1, 2], [1, 2], [1.0, float("inf")], "bad_weight", "finite and not negative"),
        ([1, 2], [1, 2], [1e30, 1.0], "weight_range", "factor of 1e12"),
        (["u", "u"], ["i", "i"], [1, 2], "differing_weights", "--duplicates sum, max or last"),
        (np.array([1.0, 2.0]), [1, 2], None, "float_ids", "floats lose digits"),
        (np.array([True, False]), [1, 2], None, "unsupported_type", "cannot be ids"),
        (np.array(["a", 1], object), [1, 2], None, "mixed_ids", "mix types"),
        ([[1, 2]], [1, 2], None, "bad_shape", "one-dimensional"),
        ([], [], None, "no_rows", "no row"),
    ],
)
def test_arrays_that_are_no_rows_are_refused(users, items, weight, code, said):
    with pytest.raises(SdgarError, match=said) as error:
        Interactions.from_arrays(users, items, weight=weight)
    assert error.value.code == code


def test_a_sparse_matrix_gives_its_row_and_column_numbers_and_counts_stored_zeros():
    matrix = scipy.sparse.csr_array(np.array([[0, 2.0], [1.0, 0], [0, 0]]))
    matrix.data[0] = 0.0
    data = Interactions.from_csr(matrix, weighted=True)
    assert data.users.values.tolist() == [1]
    assert data.items.values.tolist() == [0]
    assert data.weight_E.tolist() == [1.0]
    assert data.account.as_dict()["filtered"] == {"zero_weight": 1}


@given(pairs, st.randoms(use_true_random=False))
def test_a_subset_accounts_for_what_it_leaves_out(rows, random):
    data = Interactions.from_arrays(*map(list, zip(*rows, strict=True)))
    keep = np.array([random.random() < 0.5 for _ in range(len(data))])
    if not keep.any():
        keep[0] = True
    part = data.subset(keep, "test")
    assert part.account.kept == keep.sum()
    assert part.account.filtered["test"] == (~keep).sum()
    whole = set(zip(data.users.at(data.users_E), data.items.at(data.items_E), strict=True))
    assert set(zip(part.users.at(part.users_E), part.items.at(part.items_E), strict=True)) <= whole


@given(pairs, st.integers(1, 59))
def test_merging_the_parts_gives_the_whole(rows, cut):
    users, items = map(list, zip(*rows, strict=True))
    whole = Interactions.from_arrays(users, items)
    cut = min(cut, len(rows) - 1)
    if cut < 1:
        return
    first = Interactions.from_arrays(users[:cut], items[:cut])
    second = Interactions.from_arrays(users[cut:], items[cut:])
    assert merge(first, second).fingerprint() == whole.fingerprint()


def test_parts_with_different_kinds_of_ids_do_not_merge():
    with pytest.raises(DataError, match="different kinds"):
        merge(Interactions.from_arrays([1], [1]), Interactions.from_arrays(["1"], [1]))


def test_held_out_rows_of_unknown_users_are_counted_and_unknown_items_still_count_as_missed():
    train = Interactions.from_arrays([1, 1, 2], [10, 11, 10])
    test = Interactions.from_arrays([1, 2, 3, 3], [99, 11, 10, 11])
    held_out = HeldOut.of(test, train)
    assert held_out.users_T.tolist() == [0, 1]
    assert held_out.items_E.tolist() == [2, 1]
    assert (held_out.unknown_users, held_out.unknown_user_rows) == (1, 2)
    assert (held_out.cold_items, held_out.cold_item_rows) == (1, 1)


def test_held_out_rows_without_a_common_user_are_refused():
    train, test = Interactions.from_arrays([1], [1]), Interactions.from_arrays(["x"], [1])
    with pytest.raises(DataError, match="no held-out user occurs"):
        HeldOut.of(test, train)


def test_a_sample_of_held_out_users_keeps_their_rows_whole():
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 50, 500), rng.integers(0, 40, 500)
    data = Interactions.from_arrays(users, items)
    whole = HeldOut.of(data, data)
    part = whole.sample(10, seed=3)
    assert len(part) == 10
    for t, user in enumerate(part.users_T):
        mine = part.items_E[part.indptr_T1[t] : part.indptr_T1[t + 1]]
        np.testing.assert_array_equal(mine, data.history.of(user))
    assert np.array_equal(part.users_T, whole.sample(10, seed=3).users_T)
    assert not np.array_equal(part.users_T, whole.sample(10, seed=4).users_T)


def test_statistics_are_those_of_table_1():
    data = Interactions.from_arrays([1, 1, 2, 3], list("aabc"))
    stats = data.stats()
    assert (stats["users"], stats["items"], stats["interactions"]) == (3, 3, 3)
    assert stats["density"] == pytest.approx(3 / 9)
    assert stats["concentration"] == pytest.approx(1 / 3)
