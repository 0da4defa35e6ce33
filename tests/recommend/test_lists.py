"""Answers as records: plain lists for JSON, and frames."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.models.factors import Factors
from sdgar.recommend.artifact import Artifact
from sdgar.recommend.lists import RankedLists
from sdgar.recommend.recommender import Recommender


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


def a_model(users: int = 40, items: int = 30) -> Recommender:
    rng = np.random.default_rng(0)
    has = rng.random((users, items)) < 0.2
    has[:, 0] = True
    data = Interactions.from_arrays(*np.nonzero(has))
    vectors = (rng.normal(size=(n, 4)).astype(np.float32) for n in (users, data.n_items))
    factors = Factors(*vectors, np.zeros(data.n_items, np.float32))
    return Recommender(Artifact(factors, data.users, data.items, data.history, {"system": "bpr"}))


@pytest.mark.filterwarnings("ignore::sdgar.errors.SdgarWarning")
def test_the_frame_and_the_plain_lists_say_the_same():
    model = a_model()
    users = [3, 99, 5]
    rows = model.recommend(users, k=4).to_dicts()
    lists = model.recommend_lists(users, k=4).dicts()
    assert [one["user"] for one in lists] == users
    assert [one["basis"] for one in lists] == ["model", "popular", "model"]
    flat = [(one["user"], item["item"], item["score"]) for one in lists for item in one["items"]]
    assert flat == [(row["user"], row["item"], row["score"]) for row in rows]


def test_similar_items_come_as_lists_too():
    model = a_model()
    lists = model.similar_lists("item", [2, 3], k=3).dicts()
    rows = model.similar_items([2, 3], k=3)
    assert [one["like"] for one in lists] == [2, 3]
    assert [item["item"] for one in lists for item in one["items"]] == rows["item"].to_list()
