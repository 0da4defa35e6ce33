from __future__ import annotations

import gzip
import itertools

import numpy as np
import polars as pl
import pytest

import sdgar
from sdgar.data.features import Features
from sdgar.data.interactions import Interactions
from sdgar.data.merge import merge
from sdgar.errors import DataError


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
        ([1, "b"], ["x", "y"], "all text or all integers"),
        ([1, None], ["x", "y"], "all text or all integers"),
        ([1.5], ["x"], "all text or all integers"),
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
