"""The same address gives the same words in torch and in Numba."""

from __future__ import annotations

import numba
import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sdgar.kernels import numba_rng
from sdgar.rng import Draws, Stream, index_and_fraction


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
