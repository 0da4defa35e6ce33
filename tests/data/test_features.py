from __future__ import annotations

import itertools

import numpy as np
import pytest

from sdgar.data.features import Features
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.errors import DataError


def test_cells_are_values_lists_or_nothing():
    made = Features.from_columns(
        ["b", "a", "c"], {"kind": [["x", "y", "x"], None, "x"], "size": [1, 2, None]}
    )
    assert made.names == ("kind=x", "kind=y", "size=1", "size=2")
    start, feature = made.of(Ids(np.array(["a", "b", "new", "c"], dtype=object)))
    bags = [feature[a:b].tolist() for a, b in itertools.pairwise(start)]
    assert bags == [[3], [0, 1, 2], [], [0]]


def test_an_id_with_two_rows_and_a_short_column_are_refused():
    with pytest.raises(DataError, match="several rows"):
        Features.from_columns([1, 2, 1], {"kind": ["x", "y", "z"]})
    with pytest.raises(DataError, match="2 cells for 3 ids"):
        Features.from_columns([1, 2, 3], {"kind": ["x", "y"]})


def test_parts_of_the_data_keep_the_features():
    features = Features.from_columns([5, 6], {"kind": ["x", "y"]})
    data = Interactions.from_arrays([0, 0, 1], [5, 6, 5]).with_features(None, features)
    assert data.subset(np.array([True, False, True]), "half").item_features is features
    assert data.merge(data).item_features is features
