"""Known items are found by their bits, in a filter or by a search, as by counting."""

from __future__ import annotations

import numba
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sdgar.data.interactions import Interactions
from sdgar.engines.fused import cpu_records
from sdgar.kernels.numba import known as numba_pairs


@numba.njit
def numba_known(known, user, item):
    return numba_pairs.is_known(known, user, item)


@numba.njit
def numba_nth_unknown(sorted_E, first, last, r):
    low, size = numba_pairs.near_nth_unknown(sorted_E, first, last, r)
    return numba_pairs.nth_unknown_near(sorted_E, first, low, size, r)


PAIRS = st.sets(st.tuples(st.integers(0, 30), st.integers(0, 40)), min_size=1, max_size=200)


@given(pairs=PAIRS, bytes_left=st.sampled_from([None, 1, 2, 8]))
def test_the_filter_never_misses_a_known_pair_and_never_makes_one_up(pairs, bytes_left):
    """With far too few bits it is slow, but right."""
    users, items = np.array(sorted(pairs)).T
    data = Interactions.from_arrays(users, items)
    known = cpu_records.known_of(data)
    if bytes_left is not None:
        bits = np.zeros(bytes_left, np.uint8)
        numba_pairs.fill(data.indptr_U1, data.items_E, 0, bits)
        known = known._replace(n_items=0, bits=bits)
    here = set(zip(data.users_E.tolist(), data.items_E.tolist(), strict=True))
    for user in range(data.n_users):
        for item in range(data.n_items):
            assert numba_known(known, user, item) == ((user, item) in here)


def test_the_filter_excludes_nearly_all_other_pairs():
    """16 bits or more a pair: at most 1 in 16 of all other pairs finds its bit set."""
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 4000 * 2000, 20_000))
    data = Interactions.from_arrays(pairs // 2000, pairs % 2000)
    known = cpu_records.known_of(data)
    assert known.n_items == 0
    assert len(known.bits) * 8 >= 16 * len(data)
    assert np.unpackbits(known.bits).mean() <= 1 / 16
    # As many set bits as pairs, up to collisions: the hash must not fold pairs together.
    assert np.unpackbits(known.bits).sum() > 0.9 * len(data)


def test_where_pairs_are_few_each_has_a_bit_of_its_own():
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 200 * 100, 2_000))
    data = Interactions.from_arrays(pairs // 100, pairs % 100)
    known = cpu_records.known_of(data)
    assert known.n_items == data.n_items
    bits = np.unpackbits(known.bits, bitorder="little")[: data.n_users * data.n_items]
    expected = np.zeros((data.n_users, data.n_items))
    expected[data.users_E, data.items_E] = 1
    np.testing.assert_array_equal(bits.reshape(expected.shape), expected)


@given(known=st.sets(st.integers(0, 60), max_size=61), before=st.integers(0, 5))
def test_the_rth_unknown_item_is_found_by_counting(known, before):
    """In the middle of an array: what stands before and after belongs to others."""
    items = sorted(known)
    sorted_E = np.array([60] * before + items + [0, 0], np.int32)
    for r, item in enumerate(i for i in range(61) if i not in known):
        assert numba_nth_unknown(sorted_E, before, before + len(items), r) == item
