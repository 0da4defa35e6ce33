"""Ranks by kernels are those of NumPy's ``unique``, whatever the values and the parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sdgar.kernels import optional
from sdgar.kernels.optional import kernels_of
from sdgar.machine import cores
from sdgar.maths import pieces, ranks

pytestmark = pytest.mark.skipif(not kernels_of("ranks"), reason="Numba is missing")


def cut(array, *edges):
    """Return an array in parts, some of them empty."""
    return np.split(array, sorted(int(len(array) * edge) for edge in edges))


@pytest.mark.parametrize(
    "ids",
    [
        np.array([5]),
        np.array([-(2**63), -(2**63) + 5, -(2**63)]),
        np.array([2**63 - 1, 2**63 - 9, 2**63 - 1]),
        np.array([2**64 - 1, 2**64 - 3, 2**64 - 1], np.uint64),
        np.array([2**64 - 1, 2**64 - 2], np.uint64),
        np.random.default_rng(2).integers(-40, 900, 500),
        np.random.default_rng(3).integers(0, 7, 500),
        np.array([-(2**63), 2**63 - 1, 0, 0]),
        np.array([2**64 - 1, 0, 2**63], np.uint64),
        np.random.default_rng(4).integers(-(10**12), 10**12, 200)[[*range(200)] * 3],
    ],
    ids=[
        "one",
        "lowest",
        "highest",
        "unsigned",
        "all-of-unsigned",
        "some",
        "all",
        "far",
        "far-unsigned",
        "many-far",
    ],
)
def test_integers_are_ranked(monkeypatch, ids):
    monkeypatch.setattr(optional, "LEAST", 0)
    for parts in ([ids], cut(ids, 0, 0.3, 0.3, 1)):
        distinct, index = ranks.ranked(parts)
        wanted, inverse = np.unique(ids, return_inverse=True)
        assert (distinct.dtype, index.dtype) == (ids.dtype, np.uint32)
        assert_array_equal(distinct, wanted)
        assert_array_equal(index, inverse)


def ranked(word_NW, parts):
    """Return the ranks of rows of words, in the order of the words from the first on."""
    seen = []

    def rank_of(rows, word_DW):
        assert_array_equal(word_DW, word_NW[rows])
        seen.append(word_DW)
        return np.unique(word_NW[rows], axis=0, return_inverse=True)[1].reshape(-1)

    index = ranks.ranked_words(parts, rank_of)
    wanted, inverse = np.unique(word_NW, axis=0, return_inverse=True)
    assert len(seen) == 1
    assert_array_equal(np.unique(seen[0], axis=0), wanted)
    assert len(seen[0]) == len(wanted)
    assert_array_equal(index, inverse.reshape(-1))
    return index


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("n_values", [1, 100, 40_000])
def test_words_of_any_number_are_ranked(monkeypatch, threads, width, n_values):
    monkeypatch.setattr(cores, "threads", lambda: threads)
    monkeypatch.setattr(pieces, "PIECE", 1000)
    generator = np.random.default_rng(4)
    words = generator.integers(0, 2**64, (n_values, width), np.uint64)
    words = words[generator.integers(0, n_values, 30_000)]
    ranked(words, cut(words, 0.2, 0.9))


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 1, 2**63])), min_size=1))
def test_few_words_are_ranked(rows):
    words = np.array(rows, np.uint64)
    ranked(words, [words])
