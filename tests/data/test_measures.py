"""Columns of features that are measured: numbers, words and embeddings."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from sklearn.feature_extraction.text import TfidfVectorizer

import sdgar
from sdgar.errors import DataError, UsageError

IDS = np.array(["b", "a", "c"], dtype=object)


def rows(features: sdgar.Features, ids: list[str] = IDS) -> np.ndarray:
    return features.matrix(np.array(ids, dtype=object)).toarray()


def test_numbers_are_standardised_and_missing_ones_are_the_mean():
    made = sdgar.Features.from_columns(IDS, {"price": [1.5, None, 4.5]})
    assert made.names == ("price",)
    assert_allclose(rows(made), [[-1], [0], [1]])
    same = sdgar.Features.from_columns(IDS, {"price": np.array([2.0, 2.0, 2.0])})
    assert_allclose(rows(same), 0)


def test_words_have_the_tf_idf_of_scikit_learn():
    texts = ["The red sun", "a red, RED moon_light", "sun of the sea"]
    made = sdgar.Features.from_columns(IDS, {"title": texts}, kinds={"title": "text"})
    theirs = TfidfVectorizer(token_pattern=r"[^\W_]+", vocabulary=["red", "sun", "the"], norm="l2")
    # Words of one row alone say nothing of others, and are left out.
    assert made.names == ("title:red", "title:sun", "title:the")
    assert_allclose(rows(made), theirs.fit_transform(texts).toarray(), rtol=1e-6)


def test_an_embedding_is_centred_and_scaled_as_a_whole():
    e_ND = np.array([[1.0, 0.0], [0.0, 2.0], [5.0, 1.0]])
    centred = e_ND - e_ND.mean(axis=0)
    wanted = centred / np.sqrt((centred**2).sum(axis=1).mean())
    for cells in (e_ND, e_ND.tolist(), [np.array(row) for row in e_ND]):
        made = sdgar.Features.from_columns(IDS, {"e": cells})
        assert made.names == ("e[0]", "e[1]")
        assert_allclose(rows(made), wanted, rtol=1e-6)


def test_measures_stand_behind_categories_which_count_one():
    made = sdgar.Features.from_columns(
        IDS, {"size": [0.5, 1.5, None], "kind": ["x", ["y", "x"], None]}
    )
    assert made.names == ("kind=x", "kind=y", "size")
    assert_allclose(rows(made, ["c", "a", "new"]), [[0, 0, 0], [1, 1, 1], [0, 0, 0]])
    assert (
        made.digest()
        != sdgar.Features.from_columns(
            IDS, {"size": [0.5, 2.5, 2.0], "kind": ["x", ["y", "x"], None]}
        ).digest()
    )


@pytest.mark.parametrize(
    ("cells", "said", "kind"),
    [
        ([1.5, float("nan"), 2.0], "that of 'a' is nan", None),
        ([1.5, float("inf"), 2.0], "that of 'a' is inf", None),
        ([1.5, "x", 2.0], "that of 'a' is 'x'", None),
        ([1, True, 2], "that of 'a' is True", "number"),
        (
            [[1.0, 2.0], [1.0], [1.0, 3.0]],
            "of 'a' has 1 numbers, and other embeddings have",
            None,
        ),
        ([[1.0, 2.0], 7, [1.0, 3.0]], "of 'a' has 7, and other embeddings have", None),
        ([[1.0, 2.0], [1.0, None], [1.0, 3.0]], "that of 'a' is None", None),
        ([[1.0, 2.0], [1.0, float("nan")], [1.0, 3.0]], "that of 'a' is nan", None),
        (["x", 7, "y"], "that of 'a' is 7", "text"),
    ],
)
def test_a_cell_that_cannot_be_measured_is_named(cells, said, kind):
    with pytest.raises(DataError, match=said) as refused:
        sdgar.Features.from_columns(IDS, {"x": cells}, kinds=None if kind is None else {"x": kind})
    assert refused.value.code == "bad_features"


def test_kinds_of_unknown_columns_and_unknown_kinds_are_refused():
    with pytest.raises(UsageError, match="unknown column of features 'titel'"):
        sdgar.Features.from_columns(IDS, {"title": ["x"] * 3}, kinds={"titel": "text"})
    with pytest.raises(UsageError, match="unknown kind of column title 'words'"):
        sdgar.Features.from_columns(IDS, {"title": ["x"] * 3}, kinds={"title": "words"})


def test_tables_hold_all_kinds_of_columns(tmp_path):
    frame = pl.DataFrame(
        {"film": ["b", "a"], "title": ["Red Sun", "Red|Moon"], "year": [1999, 2001],
         "price": [2.5, None], "e": [[1.0, 0.5], None]}
    )  # fmt: skip
    frame.write_parquet(tmp_path / "films.parquet")
    kinds = {"title": "text", "year": "number"}
    found = sdgar.read_features(tmp_path / "films.parquet", kinds=kinds)
    assert found.names == ("title:red", "year", "price", "e[0]", "e[1]")
    text = "film,title,year,price\nb,Red Sun,1999,2.5\na,Red|Moon,2001,\n"
    (tmp_path / "films.csv").write_text(text)
    of_text = sdgar.read_features(tmp_path / "films.csv", kinds=kinds)
    assert of_text.names == ("title:red", "year", "price")
    assert_allclose(rows(of_text, ["a", "b"]), rows(found, ["a", "b"])[:, :3])
    (tmp_path / "bad.csv").write_text("film,price\nb,2.5\na,cheap\n")
    with pytest.raises(DataError, match="that of 'a' is 'cheap'"):
        sdgar.read_features(tmp_path / "bad.csv", kinds={"price": "number"})


def test_two_towers_refuse_what_is_measured():
    events = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    features = sdgar.Features.from_columns(IDS, {"price": [1.5, 2.5, 3.5]})
    model = sdgar.Composed(discriminator="two-tower", dim=2, epochs=1, early_stopping=False)
    with pytest.raises(DataError, match="two-tower looks at categories"):
        model.fit(events.with_features(None, features))
