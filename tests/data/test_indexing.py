"""Ids become indices: distinct ones in ascending order, whatever they are."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdgar.data.readers import indexing

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=5)


@given(st.lists(TEXTS, min_size=1, max_size=30))
def test_texts_are_ranked_by_their_bytes(texts):
    ids, index = indexing.indexed(pl.Series(texts), "user", False, [])
    wanted = sorted({text.encode() for text in texts})
    assert [text.encode() for text in ids.values] == wanted
    assert [ids.values[at] for at in index] == texts


@given(st.lists(TEXTS, min_size=1, max_size=30))
def test_texts_of_one_hash_are_told_apart(texts):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pl.Series, "hash", lambda ids: ids.str.len_bytes().cast(pl.UInt64))
        ids, index = indexing.indexed(pl.Series(texts), "user", False, [])
    assert [text.encode() for text in ids.values] == sorted({text.encode() for text in texts})
    assert [ids.values[at] for at in index] == texts


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30))
def test_integers_are_ranked_as_by_a_sort(integers):
    ids, index = indexing.indexed(pl.Series(integers, dtype=pl.Int64), "user", False, [])
    wanted, at = np.unique(np.array(integers, np.int64), return_inverse=True)
    np.testing.assert_array_equal(ids.values, wanted)
    np.testing.assert_array_equal(index, at)
