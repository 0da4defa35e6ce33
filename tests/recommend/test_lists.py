"""Answers as records: plain lists for JSON, and frames."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sdgar.data.ids import Ids
from sdgar.recommend.lists import RankedLists


@pytest.fixture
def lists() -> RankedLists:
    """Ann has a full list, bob a short one, cid none."""
    return RankedLists(
        queried={"user": np.array(["ann", "bob", "cid"], object)},
        items_TK=np.array([[1, 0], [2, -1], [-1, -1]], np.int32),
        scores_TK=np.array([[2.5, 1.0], [0.5, -np.inf], [-np.inf, -np.inf]], np.float32),
        basis_T=np.array(["model", "model", "popular"]),
        k=2,
        ids=Ids(np.array([7, 8, 9])),
    )


def test_plain_lists_have_one_object_for_each_query(lists):
    assert lists.dicts() == [
        {
            "user": "ann",
            "items": [{"item": 8, "score": 2.5}, {"item": 7, "score": 1.0}],
            "short": False,
            "basis": "model",
        },
        {"user": "bob", "items": [{"item": 9, "score": 0.5}], "short": True, "basis": "model"},
        {"user": "cid", "items": [], "short": True, "basis": "popular"},
    ]
    assert json.loads(json.dumps(lists.dicts(), allow_nan=False)) == lists.dicts()


def test_entries_have_names_where_names_are_given(lists):
    named = lists.dicts({"8": "Eight"})[0]["items"]
    assert named == [
        {"item": 8, "name": "Eight", "score": 2.5},
        {"item": 7, "name": "7", "score": 1.0},
    ]


def test_a_frame_has_a_row_for_each_entry_and_one_for_an_empty_list(lists):
    frame = lists.frame()
    assert frame.columns == ["user", "rank", "item", "score", "short", "basis"]
    assert frame["user"].to_list() == ["ann", "ann", "bob", "cid"]
    assert frame["rank"].to_list() == [1, 2, 1, None]
    assert frame["item"].to_list() == [8, 7, 9, None]
    assert frame["short"].to_list() == [False, False, True, True]
