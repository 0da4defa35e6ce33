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
    ids, index = indexing.indexed(pl.Series(texts), "user", False)
    wanted = sorted({text.encode() for text in texts})
    assert [text.encode() for text in ids.values] == wanted
    assert [ids.values[at] for at in index] == texts


@given(st.lists(TEXTS, min_size=1, max_size=30))
def test_texts_of_one_hash_are_distinguished(texts):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pl.Series, "hash", lambda ids: ids.str.len_bytes().cast(pl.UInt64))
        ids, index = indexing.indexed(pl.Series(texts), "user", False)
    assert [text.encode() for text in ids.values] == sorted({text.encode() for text in texts})
    assert [ids.values[at] for at in index] == texts


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30))
def test_integers_are_ranked_as_by_a_sort(integers):
    ids, index = indexing.indexed(pl.Series(integers, dtype=pl.Int64), "user", False)
    wanted, at = np.unique(np.array(integers, np.int64), return_inverse=True)
    np.testing.assert_array_equal(ids.values, wanted)
    np.testing.assert_array_equal(index, at)


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20)
    | st.lists(st.integers(2**63, 2**64 - 1) | st.integers(0, 9), min_size=1, max_size=20),
    st.sampled_from(["0{}", "+{}", " {}", "{}.0", "{}x"]),
)
def test_texts_that_spell_integers_are_integers_and_all_are_texts_if_one_is_not(numbers, odd):
    texts = [str(number) for number in numbers]
    ids, index = indexing.indexed(pl.Series(texts), "user", True)
    assert ids.kind in ("int64", "uint64")
    assert ids.values[index].tolist() == numbers
    texts[0] = odd.format(texts[0])
    ids, index = indexing.indexed(pl.Series(texts), "user", True)
    assert ids.kind == "text"
    assert ids.values[index].tolist() == texts


@pytest.mark.parametrize("odd", ["-0", "00", "-01", "+0"])
def test_a_zero_too_many_makes_texts_of_all(odd):
    assert indexing.indexed(pl.Series(["-5", odd, "12"]), "user", True)[0].kind == "text"
