"""Counts are used only on request; then they are transformed, and the notes say how."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdgar.data.interactions import Interactions
from sdgar.data.read_options import WEIGHTINGS
from sdgar.data.readers import ReadOptions, read_frame
from sdgar.data.weighting import weigh
from sdgar.errors import UsageError

HOURS = {"user": [1, 1, 2, 2], "item": [1, 2, 1, 3], "hours": [0.0, 2.0, 11754.0, 1.0]}


def rows(weights: list[float]) -> Interactions:
    n = len(weights)
    return Interactions.from_arrays(np.arange(n) // 2, np.arange(n) % 2, weight=weights)


def test_a_column_that_looks_like_a_weight_is_offered_and_every_row_counts_once():
    loaded = read_frame(HOURS)
    assert loaded.interactions.weight_E is None
    assert loaded.interactions.account.kept == 4  # no hours played is still a purchase
    assert loaded.facts["weights"] == (
        "every row counts once. 'hours' looks like a weight, and --weight-column hours "
        "(weight='hours' in Python) uses it"
    )


def test_several_that_look_like_weights_are_all_named():
    loaded = read_frame({**HOURS, "clicks": [1, 2, 3, 4]})
    assert "'hours' and 'clicks' look like weights" in loaded.facts["weights"]
    assert not loaded.notes


def test_a_named_column_is_tamed_where_it_ranges_widely_and_that_is_said():
    loaded = read_frame({**HOURS, "hours": [3.0] * 99 + [1e4], "user": range(100),
                         "item": [1] * 100}, ReadOptions(weight="hours"))  # fmt: skip
    weight_E = loaded.interactions.weight_E
    expected = np.log1p([3.0, 1e4]) / np.log1p([3.0] * 99 + [1e4]).mean()
    np.testing.assert_allclose(weight_E[[0, 99]], expected, rtol=1e-6)
    assert loaded.facts["weights"].startswith("hours: log(1 + weight) over its mean")
    assert "3 to 1e+04 is too wide" in loaded.facts["weights"]
    assert "--weights says otherwise (auto, raw, log, bm25)" in loaded.facts["weights"]


def test_weights_of_a_narrow_range_are_taken_as_they_are():
    loaded = read_frame({**HOURS, "hours": [1.0, 2.0, 3.0, 4.0]}, ReadOptions(weight="hours"))
    assert loaded.interactions.weight_E.tolist() == [1, 2, 3, 4]
    assert loaded.facts["weights"].startswith("hours: weights as they are, 1 to 4")


def test_asking_how_is_asking_for_the_column_that_looks_like_a_weight():
    loaded = read_frame(HOURS, ReadOptions(weights="raw"))
    assert loaded.columns.weight == "hours"
    assert loaded.interactions.account.filtered == {"zero_weight": 1}
    with pytest.raises(UsageError, match="needs a column of weights"):
        read_frame({"user": [1], "item": [2]}, ReadOptions(weights="log"))
    with pytest.raises(UsageError, match="needs a column of weights"):
        read_frame(HOURS, ReadOptions(weights="log", weight="none"))
    with pytest.raises(UsageError, match="Did you mean 'log'"):
        ReadOptions(weights="logg")


def test_bm25_is_that_of_the_formula():
    data = Interactions.from_arrays([0, 0, 1, 2], [0, 1, 1, 2], weight=[3.0, 1.0, 5.0, 2.0])
    length = np.array([3.0, 6.0, 2.0])
    norm = 0.2 + 0.8 * length / length.mean()
    rarity = np.log(3 / (1 + np.array([2, 1, 1]))).clip(min=0.01)
    w, i, u = np.array([3.0, 1, 5, 2]), np.array([0, 1, 1, 2]), np.array([0, 0, 1, 2])
    expected = 101 * w / (100 * norm[i] + w) * rarity[u]
    weighed, said = weigh(data, "bm25")
    np.testing.assert_allclose(weighed.weight_E, expected / expected.mean(), rtol=1e-6)
    assert said.startswith("BM25 of the weights over its mean")


@given(st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=40), st.sampled_from(WEIGHTINGS))
def test_weights_stay_finite_positive_and_in_their_order_but_for_bm25(weights, how):
    data = rows(weights)
    weighed, said = weigh(data, how)
    assert np.isfinite(weighed.weight_E).all()
    assert (weighed.weight_E > 0).all()
    assert said
    if how != "bm25":
        order = np.argsort(data.weight_E, kind="stable")
        assert (np.diff(weighed.weight_E[order]) >= 0).all()
    if how in ("log", "bm25"):
        assert weighed.weight_E.mean() == pytest.approx(1, rel=1e-4)


def test_rows_without_weights_stay_as_they_are():
    data = Interactions.from_arrays([1, 2], [1, 2])
    assert weigh(data, "log") == (data, "every row counts once")
