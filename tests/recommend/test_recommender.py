from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sdgar.data.interactions import Interactions
from sdgar.errors import UsageError
from sdgar.models.factors import Factors
from sdgar.recommend.artifact import Artifact
from sdgar.recommend.recommender import Recommender, most_popular
from sdgar.systems.solver import MostPopular


@pytest.fixture
def data() -> Interactions:
    return Interactions.from_arrays(
        ["ann", "ann", "bob", "cid", "cid", "cid", "cid"], ["a", "b", "a", "a", "b", "c", "d"]
    )


@pytest.fixture
def model(data) -> Recommender:
    """Scores are known: user vectors pick a column, items a..d hold 4, 3, 2, 1."""
    item_ID = np.array([[4, 0], [3, 0], [2, 1], [1, 2]], np.float32)
    user_UD = np.array([[1, 0], [0, 1], [1, 0]], np.float32)
    factors = Factors(user_UD, item_ID, np.zeros(4, np.float32))
    return Recommender(Artifact(factors, data.users, data.items, data.history, {}))


def items_of(frame, user) -> list:
    return frame.filter(pl.col("user") == user)["item"].to_list()


def test_the_best_unknown_items_come_first(model):
    frame = model.recommend(["ann", "bob"], k=2)
    assert frame.columns == ["user", "rank", "item", "score", "short", "basis"]
    assert set(frame["basis"]) == {"model"}
    assert items_of(frame, "ann") == ["c", "d"]
    assert items_of(frame, "bob") == ["d", "c"]
    assert frame["rank"].to_list() == [1, 2, 1, 2]
    assert frame["score"].to_list() == [2, 1, 2, 1]
    assert not frame["short"].any()


def test_one_id_may_be_given_alone_and_none_means_everyone(model):
    assert items_of(model.recommend("ann", k=1), "ann") == ["c"]
    assert set(model.recommend(k=1)["user"]) == {"ann", "bob", "cid"}


def test_items_allow_and_exclude_forbids(model):
    frame = model.recommend("ann", k=4, items=["a", "b", "d"], exclude_seen=False)
    assert items_of(frame, "ann") == ["a", "b", "d"]
    assert items_of(model.recommend("ann", k=1, exclude=["c"]), "ann") == ["d"]


def test_a_short_list_is_flagged_and_an_empty_one_still_shows(model):
    frame = model.recommend(["ann", "cid"], k=3)
    assert items_of(frame, "ann") == ["c", "d"]
    assert frame.filter(pl.col("user") == "ann")["short"].to_list() == [True, True]
    nothing = frame.filter(pl.col("user") == "cid").row(0, named=True)
    empty = {"rank": None, "item": None, "score": None, "short": True, "basis": "model"}
    assert nothing == {"user": "cid", **empty}


def test_a_list_may_be_longer_than_the_catalogue(model):
    frame = model.recommend("ann", k=1000, exclude_seen=False)
    assert frame.height == 4
    assert frame["short"].all()


@pytest.mark.parametrize("k", [0, -1])
def test_a_list_without_places_is_refused(model, k):
    with pytest.raises(UsageError):
        model.recommend("ann", k=k)
    with pytest.raises(UsageError):
        model.similar_items("a", k=k)


def test_similar_items_are_those_in_the_same_direction_without_the_item_itself(model):
    frame = model.similar_items("a", k=3)
    assert frame["item"].to_list() == ["b", "c", "d"]
    np.testing.assert_allclose(frame["score"], [1, 2 / 5**0.5, 1 / 5**0.5], rtol=1e-6)


def test_most_popular_ranks_by_number_of_users_and_has_no_similar_items(data, model):
    for popular in (MostPopular().fit(data), most_popular(model)):
        frame = popular.recommend("bob", k=3)
        assert frame["item"].to_list() == ["b", "c", "d"]
        assert frame["score"].to_list() == [2, 1, 1]
        with pytest.raises(UsageError, match="no item vectors"):
            popular.similar_items("a")


def test_evaluation_leaves_out_the_training_rows_or_those_it_is_given(data, model):
    test = Interactions.from_arrays(["ann", "bob"], ["c", "b"])
    own = model.evaluate(test, ks=(1,)).means()
    assert own["ndcg@1"] == 0.5
    nothing_seen = Interactions.from_arrays(["cid"], ["a"])
    assert model.evaluate(test, ks=(1,), seen=nothing_seen).means()["ndcg@1"] == 0.0


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_a_frame_of_users_is_its_only_column(model, library):
    frames = pytest.importorskip(library)
    one = frames.DataFrame({"user": model.users.values[:2].tolist()})
    assert model.recommend_lists(one, k=1).queried["user"].tolist() == one["user"].to_list()
    two = frames.DataFrame({"user": [1], "city": ["x"]})
    with pytest.raises(UsageError, match=r"the frame has 2: user, city\. Pass one of them"):
        model.recommend(two)


@pytest.mark.filterwarnings("ignore::sdgar.errors.SdgarWarning")
def test_frames_and_plain_lists_say_the_same(model):
    for queried, rows, lists in (
        ("user", model.recommend, model.recommend_lists),
        ("like", model.similar_items, lambda ids, k: model.similar_lists("item", ids, k)),
    ):
        ids = ["ann", "eve", "bob"] if queried == "user" else ["a", "b"]
        found = lists(ids, 2).dicts()
        assert [one[queried] for one in found] == ids
        flat = [(one[queried], e["item"], e["score"]) for one in found for e in one["items"]]
        assert flat == rows(ids, 2).select(queried, "item", "score").rows()
