from __future__ import annotations

import gzip
import itertools

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from sklearn.feature_extraction.text import TfidfVectorizer

import sdgar
from sdgar.data.features import Features
from sdgar.data.interactions import Interactions
from sdgar.data.merge import merge
from sdgar.errors import DataError, UsageError


def test_cells_are_values_lists_or_nothing():
    made = Features.from_columns(
        ["b", "a", "c"], {"kind": [["x", "y", "x"], None, "x"], "size": [1, 2, None]}
    )
    assert made.names == ("kind=x", "kind=y", "size=1", "size=2")
    start, feature = made.of(np.array(["a", "b", "new", "c"], dtype=object))
    bags = [feature[a:b].tolist() for a, b in itertools.pairwise(start)]
    assert bags == [[3], [0, 1, 2], [], [0]]


def test_an_id_with_two_rows_and_a_short_column_are_refused():
    with pytest.raises(DataError, match="several rows"):
        Features.from_columns([1, 2, 1], {"kind": ["x", "y", "z"]})
    with pytest.raises(DataError, match="2 cells for 3 ids"):
        Features.from_columns([1, 2, 3], {"kind": ["x", "y"]})


@pytest.mark.parametrize(
    ("ids", "cells", "said"),
    [
        ([1, "b"], ["x", "y"], "ids of features mix types"),
        ([1, None], ["x", "y"], "ids of features are missing"),
        ([1.5], ["x"], "ids of features are of type float"),
        ([], [], "no row of features"),
        ([1], [[2.5, "x"]], "holds numbers"),
        ([1], [float("nan")], "holds numbers"),
        ([1], [pl.Series(["a"])], "a feature is a text"),
    ],
)
def test_ids_and_cells_without_one_spelling_are_refused(ids, cells, said):
    with pytest.raises(DataError, match=said):
        Features.from_columns(ids, {"kind": cells})


def test_a_set_of_values_is_the_same_in_any_order_and_large_ids_are_held():
    one, two = (
        Features.from_columns([2**64 - 1], {"kind": [cell]}) for cell in ({"a", "b"}, ["b", "a"])
    )
    assert one.digest() == two.digest()
    assert one.ids.values.tolist() == [2**64 - 1]
    assert Features.from_columns(np.array([3]), {"n": np.array([7])}).names == ("n=7",)


def test_parts_of_the_data_keep_the_features():
    features = Features.from_columns([5, 6], {"kind": ["x", "y"]})
    data = Interactions.from_arrays([0, 0, 1], [5, 6, 5]).with_features(None, features)
    assert data.subset(np.array([True, False, True]), "half").item_features is features
    assert merge(data, data).item_features is features


FILMS = {
    "films.csv": "film,genre,year\n007,Drama|War,1994\n8,,1995\nx,Comedy,\n",
    "films.tsv": "film\tgenre\tyear\n007\tDrama|War\t1994\n8\t\t1995\nx\tComedy\t\n",
    "films.jsonl": (
        '{"film": "007", "genre": ["Drama", "War"], "year": 1994}\n'
        '{"film": "8", "genre": [], "year": 1995}\n'
        '{"film": "x", "genre": ["Comedy"], "year": null}\n'
    ),
}


@pytest.mark.parametrize("name", [*FILMS, "films.csv.gz", "films.parquet"])
def test_a_table_of_any_format_gives_the_same_features(tmp_path, name):
    path = tmp_path / name
    if name.endswith("parquet"):
        pl.read_ndjson(FILMS["films.jsonl"].encode()).write_parquet(path)
    elif name.endswith(".gz"):
        path.write_bytes(gzip.compress(FILMS["films.csv"].encode()))
    else:
        path.write_text(FILMS[name])
    found = sdgar.read_features(path)
    assert found.names == (
        "genre=Comedy", "genre=Drama", "genre=War", "year=1994", "year=1995",
    )  # fmt: skip
    assert found.ids.values.tolist() == ["007", "8", "x"]
    assert np.split(found.feature_E, found.start_R1[1:-1])[0].tolist() == [1, 2, 3]
    assert found.digest() != sdgar.Features.from_columns(["007"], {"genre": ["War"]}).digest()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "film\n1\n", "has one column, 'film'"),
        ("a.csv", "film,genre\n1,a\n,b\n", "lacks an id, first in row 2"),
        ("a.csv", "film,genre\n1,a\n1,b\n", "several rows"),
        ("a.csv", "film,genre\n1,a,b\n", "not a table that can be read"),
        ("a.jsonl", '{"film": 1, "size": {"w": 2}}\n', "column 'size' of .* is of type Struct"),
        ("a.parquet", "film,genre\n1,a\n", "not a table that can be read"),
        ("a.csv", "1,drama\n2,war\n", "looks like data"),
        ("a.csv", "film,genre,genre\n1,a,b\n", "more than one column named 'genre'"),
        ("a.csv", "film,genre\n", "has no rows"),
        ("a.jsonl", '{"f": 1, "g": ["a"]}\n{"f": 2, "g": "b"}\n', "lists in some rows"),
        ("a.jsonl", '{"f": [1], "g": "b"}\n', "cannot be ids"),
    ],
)
def test_a_table_that_gives_no_features_says_why(tmp_path, name, text, said):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(DataError, match=said):
        sdgar.read_features(path)


# Numbers, words and embeddings

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
