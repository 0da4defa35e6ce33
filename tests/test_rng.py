from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sdgar.errors import UsageError
from sdgar.maths.rng import (
    Draws,
    Permutation,
    Stream,
    below,
    check_seed,
    normal,
    philox,
    sort_keys,
    uniform,
    uniform_range,
)

ONES = 0xFFFFFFFF
KNOWN = [
    # Known answers of philox4x32-10 from the Random123 distribution (kat_vectors).
    (0, (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (2**64 - 1, (ONES,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x299F31D0 << 32) | 0xA4093822,
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("key", "counter", "answer"), KNOWN)
@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_philox_gives_the_published_answers_in_numpy_and_torch(key, counter, answer, make):
    words = philox(key, *(make([c]) for c in counter))
    assert tuple(int(w[0]) for w in words) == answer


@given(
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 2**24 - 1),
    row=st.integers(0, 2**40),
    slot=st.integers(0, 2**32 - 1),
)
def test_a_number_depends_on_its_address_alone(seed, epoch, row, slot):
    alone = Draws(seed, Stream.NEGATIVES, epoch, np.array([row])).words(np.array([slot]))
    rows = np.array([[row - 1 if row else 5], [row]])
    in_a_batch = Draws(seed, Stream.NEGATIVES, epoch, rows).words(np.array([3, slot]))
    assert [int(w[0]) for w in alone] == [int(w[1, 1]) for w in in_a_batch]


def test_streams_epochs_rows_and_slots_do_not_repeat_each_other():
    seen = set()
    rows, slots = np.arange(50)[:, None], np.arange(20)
    for stream in Stream:
        for epoch in (0, 1, 255, 256, 2**24 - 1):
            w0, w1, w2, w3 = Draws(7, stream, epoch, rows).words(slots)
            seen |= set(zip(*(w.ravel().tolist() for w in (w0, w1, w2, w3)), strict=True))
    assert len(seen) == len(Stream) * 5 * 50 * 20


@given(n=st.integers(1, 2**31 - 1), high=st.integers(0, ONES), low=st.integers(0, ONES))
def test_an_index_is_the_floor_of_the_exact_product(n, high, low):
    exact = (n * ((high << 32) | low)) >> 64
    got = int(below(n, np.array([high]), np.array([low]))[0])
    assert 0 <= got < n
    # The low word is multiplied and cut first, which can lose a carry: never more than one.
    assert exact - got in (0, 1)


def test_indices_are_uniform():
    # Chi-square over 1,000 bins at a false-alarm rate of 1e-6; the seed is fixed, so a pass
    # is a pass for ever. 2 million draws detect a 2 % error in every bin.
    n, draws = 1000, 2_000_000
    w0, w1, _, _ = Draws(11, Stream.NEGATIVES, 1, np.arange(draws)).words(np.zeros(1, np.int64))
    counts = np.bincount(below(n, w0, w1), minlength=n)
    assert stats.chisquare(counts).pvalue > 1e-6


def test_normal_numbers_are_normal_and_do_not_depend_on_how_many_are_requested():
    z = normal(3, Stream.INIT_ITEM, 1_000_001)
    assert stats.kstest(z[:200_000], "norm").pvalue > 1e-6
    np.testing.assert_array_equal(normal(3, Stream.INIT_ITEM, 10), z[:10])


def test_sorting_by_keys_is_a_permutation_that_changes_with_the_epoch():
    orders = [np.argsort(sort_keys(0, Stream.SHUFFLE, e, np.arange(1000))) for e in (1, 2)]
    assert all(np.array_equal(np.sort(o), np.arange(1000)) for o in orders)
    assert not np.array_equal(*orders)


def order(n: int, seed: int, epoch: int = 1) -> Permutation:
    return Permutation.of(n, seed=seed, stream=Stream.SHUFFLE, epoch=epoch)


@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_an_order_holds_every_number_once(seed):
    for n in (*range(1, 301), 65_535, 65_536, 65_537):
        found = order(n, seed)(np.arange(n))
        assert np.array_equal(np.sort(found), np.arange(n)), n


@given(n=st.integers(1, 10**6), seed=st.integers(0, 2**64 - 1), epoch=st.integers(0, 2**24 - 1))
@settings(max_examples=30)
def test_an_order_of_many_holds_every_number_once(n, seed, epoch):
    assert (np.bincount(order(n, seed, epoch)(np.arange(n)), minlength=n) == 1).all()


@given(n=st.integers(1, 10**6), seed=st.integers(0, 2**64 - 1), data=st.data())
def test_a_place_of_an_order_is_the_same_in_numpy_and_torch_and_in_any_company(n, seed, data):
    places = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=20))
    together = order(n, seed)(np.array(places))
    assert order(n, seed)(torch.tensor(places)).tolist() == together.tolist()
    alone = [int(order(n, seed)(np.array([place]))[0]) for place in places]
    assert alone == together.tolist()


def test_epochs_seeds_and_streams_have_orders_of_their_own():
    places = np.arange(1000)
    orders = {
        Permutation.of(1000, seed=seed, stream=stream, epoch=epoch)(places).tobytes()
        for seed in (0, 1, 2**32)
        for stream in (Stream.SHUFFLE, Stream.DEAL)
        for epoch in (1, 2, 3, 2**24 - 1)
    }
    assert len(orders) == 3 * 2 * 4


@pytest.mark.parametrize("seed", [-1, 2**64, "abc", 1.5, True, None])
def test_a_seed_that_is_no_64_bit_integer_is_refused(seed):
    with pytest.raises(UsageError, match="seed must be an integer"):
        check_seed(seed)


def test_a_long_line_of_uniform_numbers_is_that_of_its_rows() -> None:
    first, last = 3, 3 + 2 * (1 << 16) + 5  # over several blocks
    line = uniform_range(7, Stream.INIT_GENERATOR, first, last)
    np.testing.assert_array_equal(
        line, uniform(7, Stream.INIT_GENERATOR, 0, np.arange(first, last))
    )
