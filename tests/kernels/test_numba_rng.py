"""The same address gives the same words, and the same order, in torch and in Numba."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sdgar.kernels.numba import rng as numba_rng
from sdgar.maths import rng
from sdgar.maths.rng import Draws, Permutation, Stream, index_and_fraction


@numba.njit
def numba_words(seed, row, slot, tail, n):
    w0, w1, w2, w3 = numba_rng.words(seed, row, slot, tail)
    index, fraction = numba_rng.index_and_fraction(n, w0, w1)
    return w0, w1, w2, w3, index, fraction


@given(
    seed=st.integers(0, 2**64 - 1),
    stream=st.sampled_from(Stream),
    epoch=st.integers(0, 2**24 - 1),
    row=st.integers(0, 2**40),
    slot=st.integers(0, 2**32 - 1),
    n=st.integers(1, 2**31 - 1),
)
@settings(max_examples=3 * settings.default.max_examples)
def test_numba_draws_the_words_of_torch(seed, stream, epoch, row, slot, n):
    words = Draws(seed, stream, epoch, torch.tensor([row])).words(torch.tensor([slot]))
    index, fraction = index_and_fraction(n, words[0], words[1])
    tail = (int(stream) << 24) | epoch
    found = numba_words(np.uint64(seed), np.int64(row), np.int64(slot), np.int64(tail), np.int64(n))
    assert [int(w) for w in found] == [int(w) for w in (*words, index, fraction)]


@numba.njit
def numba_order(n, keys, left_bits, right_bits, places):
    out = np.empty_like(places)
    for i in range(len(places)):
        out[i] = numba_rng.permuted(n, keys, left_bits, right_bits, places[i])
    return out


@given(
    n=st.one_of(st.integers(1, 600), st.integers(1, 10**6), st.integers(2**31 - 9, 2**31 - 1)),
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 2**24 - 1),
    data=st.data(),
)
@settings(max_examples=3 * settings.default.max_examples)
def test_numba_puts_the_same_number_at_a_place_as_numpy(n, seed, epoch, data):
    order = Permutation.of(n, seed=seed, stream=Stream.SHUFFLE, epoch=epoch)
    some = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=20))
    places = np.array([0, *some, n - 1])
    keys = np.array(order.keys, np.uint64)
    found = numba_order(n, keys, order.left_bits, order.right_bits, places)
    assert found.tolist() == order(places).tolist()


def order(n: int, *, seed: int = 0, epoch: int = 1, places: int | None = None) -> np.ndarray:
    """The first ``places`` of an order, or all; many of them, so by Numba."""
    made = Permutation.of(n, seed=seed, stream=Stream.SHUFFLE, epoch=epoch)
    keys = np.array(made.keys, np.uint64)
    return numba_order(n, keys, made.left_bits, made.right_bits, np.arange(places or n))


@pytest.mark.parametrize("n", [3, 4])
def test_every_order_of_a_few_comes_out_equally_often(n):
    # Chi-square over the n! orders at a false-alarm rate of 1e-6; the seeds are fixed, so a pass
    # is a pass for ever. 200 or more are expected of an order.
    seen = [order(n, seed=seed) for seed in range(4800)]
    _, counts = np.unique(seen, axis=0, return_counts=True)
    assert len(counts) == {3: 6, 4: 24}[n]
    assert stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("n", [10, 100])
def test_the_first_of_an_order_is_anyone(n):
    # As above, with epochs for seeds; 50 or more are expected of a number.
    first = [order(n, epoch=epoch, places=1)[0] for epoch in range(5000)]
    assert stats.chisquare(np.bincount(first, minlength=n)).pvalue > 1e-6


def test_the_place_says_nothing_of_the_number():
    # A 16 x 16 table of (block of places, block of numbers) over 50 orders, chi-square at 1e-6
    # on both sides. Both margins are fixed, so 225 of the 256 counts are free.
    counts = np.zeros((16, 16))
    for epoch in range(50):
        np.add.at(counts, (np.arange(4096) // 256, order(4096, epoch=epoch) // 256), 1)
    square = ((counts - 800) ** 2 / 800).sum()
    assert 1e-6 < stats.chi2.sf(square, 225) < 1 - 1e-6


def correlations(n: int, lags: tuple[int, ...], seeds: int) -> np.ndarray:
    """Of the numbers at a distance, by seed and lag; 1 / n is added, which is what chance takes."""
    found = []
    for seed in range(seeds):
        x = order(n, seed=seed).astype(np.float64)
        found.append([np.corrcoef(x[:-lag], x[lag:])[0, 1] + 1 / n for lag in lags])
    return np.array(found)


@pytest.mark.parametrize("n", [1000, 100_000])
def test_neighbours_of_an_order_know_nothing_of_each_other(n):
    # A mean over 40 orders has a standard deviation of 1 / sqrt(40 n): 5 of them happen once in
    # 1.7 million.
    assert (np.abs(correlations(n, (1, 2, 16), 40).mean(axis=0)) < 5 / np.sqrt(40 * n)).all()


@pytest.mark.parametrize("n", [1000, 100_000])
def test_places_that_share_their_low_half_are_as_alike_as_a_collision_makes_them(n):
    """The known weakness of four rounds, held to its size.

    Two places that differ in their high half only, come out with like high halves if the second
    round's word is the same for both, which happens once in 2^right_bits.
    """
    bits = Permutation(n, ()).right_bits
    found = correlations(n, (1 << bits, 2 << bits), 40)
    error = found.std(axis=0) / np.sqrt(40)
    assert (found.mean(axis=0) < 2.0**-bits + 5 * error).all()


@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_many_rows_get_the_words_that_each_gets_alone(seed):
    rows_N1, slots_S = np.arange(2**40, 2**40 + 50_000)[:, None], np.array([0, 3, 2**32 - 1])
    draws = Draws(seed, Stream.NEGATIVES, 7, rows_N1)
    assert rows_N1.size * len(slots_S) >= rng._MANY
    found = draws.words(slots_S)
    alone = draws.at(torch.from_numpy(rows_N1)).words(torch.from_numpy(slots_S))
    for some, other in zip(found, alone, strict=True):
        assert some.dtype == np.int64
        np.testing.assert_array_equal(some, other.numpy())
