"""Answers as records: plain lists for JSON, frames for those who want frames."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import sdgar
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


def test_plain_lists_have_one_object_for_each_who_was_asked_about(lists):
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
    asked = [3, 99, 5]
    rows = model.recommend(asked, k=4).to_dicts()
    told = model.recommend_lists(asked, k=4).dicts()
    assert [one["user"] for one in told] == asked
    assert [one["basis"] for one in told] == ["model", "popular", "model"]
    flat = [(one["user"], item["item"], item["score"]) for one in told for item in one["items"]]
    assert flat == [(row["user"], row["item"], row["score"]) for row in rows]


def test_similar_items_come_as_lists_too():
    model = a_model()
    told = model.similar_lists("item", [2, 3], k=3).dicts()
    rows = model.similar_items([2, 3], k=3)
    assert [one["like"] for one in told] == [2, 3]
    assert [item["item"] for one in told for item in one["items"]] == rows["item"].to_list()


BARE = """
import sys
for name in ("polars", "pandas", "typer", "rich", "optuna", "matplotlib"):
    sys.modules[name] = None
import json
import sdgar
model = sdgar.load(sys.argv[1])
asked = [
    model.recommend_lists([1, 2], k=3),
    model.recommend_lists(history=["a", "b"], k=2),
    model.recommend_lists([77], k=2),
    model.similar_lists("item", "a", k=2),
]
print(json.dumps([lists.dicts() for lists in asked]))
training = (
    "cli", "contracts", "discriminators", "engines", "experiments", "objectives", "parts",
    "samplers", "systems", "training",
)
loaded = [name for name in sys.modules if name.startswith("sdgar.") and name.count(".") > 1]
loaded += [name for name in ("sdgar.contracts", "sdgar.objectives") if name in sys.modules]
names_alone = "sdgar.systems.names"  # which imports no code
found = [name for name in loaded if name.split(".")[1] in training and name != names_alone]
print(json.dumps(found))
"""


def test_a_request_needs_no_frames_no_command_line_and_no_training_code(tmp_path):
    data = Interactions.from_arrays([1, 1, 2, 2, 3, 3], ["a", "b", "b", "c", "a", "d"])
    model = sdgar.SDSoftmax(dim=2, sampler__states=2, epochs=2, early_stopping=False).fit(data)
    folder = model.save(tmp_path / "model")
    command = [sys.executable, "-W", "ignore", "-c", BARE, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers, rooms = map(json.loads, done.stdout.splitlines())
    assert rooms == []
    assert answers[0] == model.recommender_.recommend_lists([1, 2], k=3).dicts()
    assert answers[1] == model.recommender_.recommend_lists(history=["a", "b"], k=2).dicts()
    assert answers[2][0]["basis"] == "popular"
    assert answers[3] == model.recommender_.similar_lists("item", "a", k=2).dicts()
