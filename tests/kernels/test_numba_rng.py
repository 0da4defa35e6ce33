"""The same address gives the same words, and the same order, in torch and in Numba."""

from __future__ import annotations

import numba
import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sdgar.kernels import numba_rng
from sdgar.rng import Draws, Permutation, Stream, index_and_fraction


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
@settings(max_examples=300)
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
@settings(max_examples=300)
def test_numba_puts_the_same_number_at_a_place_as_numpy(n, seed, epoch, data):
    order = Permutation.of(n, seed=seed, stream=Stream.SHUFFLE, epoch=epoch)
    some = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=20))
    places = np.array([0, *some, n - 1])
    keys = np.array(order.keys, np.uint64)
    found = numba_order(n, keys, order.left_bits, order.right_bits, places)
    assert found.tolist() == order(places).tolist()
