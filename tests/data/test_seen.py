"""Seen is not liked: rows below a threshold are not learned from, and not recommended again."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sdgar
from sdgar.data import splits
from sdgar.data.history import History
from sdgar.data.interactions import Interactions
from sdgar.data.merge import merge
from sdgar.data.readers import ReadOptions, read_frame
from sdgar.errors import UsageError
from sdgar.storage.sealed import DamagedError

from ..cli.test_cli import sdgar as command
from ..recommend.test_artifact import change_tensors

RATED = {
    "user": ["a", "a", "a", "b", "b", "c", "c", "d"],
    "item": ["1", "2", "3", "1", "2", "3", "1", "4"],
    "rating": [5, 2, 4, 4, 5, 5, 1, 1],
}


@pytest.fixture
def data() -> Interactions:
    return read_frame(RATED, ReadOptions(min_rating=4)).interactions


def pairs(data: Interactions) -> set[tuple[str, str]]:
    seen = data.seen
    if seen is None:
        return set()
    return set(zip(data.users.at(seen.users_E), data.items.at(seen.items_E), strict=True))


def test_rows_below_the_threshold_are_seen_where_user_and_item_are_known(data):
    assert pairs(data) == {("a", "2"), ("c", "1")}
    assert len(data) == 5
    assert data.account.filtered == {"rating_below_4": 3}


def test_who_likes_nothing_is_known_and_gets_what_is_popular_without_what_they_saw():
    data = read_frame({**RATED, "rating": [5, 2, 4, 4, 5, 5, 5, 1], "item": [*"12312311"]})
    model = sdgar.EASE().fit(data.interactions)
    lists = model.recommend(["d", "a"], k=2)
    assert "d" in model.recommender_.users.values.tolist()
    assert lists.filter(user="d")["basis"].to_list() == ["popular", "popular"]
    assert set(lists.filter(user="d")["item"]) == {"2", "3"}
    assert set(lists.filter(user="a")["basis"]) == {"model"}


def test_it_is_said(data):
    said = read_frame(RATED, ReadOptions(min_rating=4)).facts["seen"]
    assert said == "2 pairs rated below 4 are not learned from, and not recommended again"


@pytest.mark.parametrize(
    ("ratings", "least"),
    [
        ([1, 2, 3, 4, 5], 4),
        ([0.5, 3.0, 3.5, 4.0, 5.0], 3.5),
        ([0, 6, 7, 8, 10], 7),
        ([True, False, True, True, False], 1),
        ([-1, 1, 1, -1, 1], 1),
        ([3, 3, 3, 3, 3], 3),
        ([20, 65, 70, 99, 100], 70),
    ],
)
def test_without_a_threshold_ratings_near_the_highest_are_positive(ratings, least):
    rows = {"user": [1, 1, 1, 2, 2], "item": [1, 2, 3, 1, 2], "rating": ratings}
    loaded = read_frame(rows)
    kept = [rating for rating in ratings if rating >= least]
    assert loaded.min_rating == least
    assert len(loaded.interactions) == len(kept)
    assert loaded.facts["seen"].startswith(
        f"ratings of {least:g} and above count as positive (70% of the highest one; "
        "--min-rating says otherwise)"
    )


@pytest.mark.parametrize("ratings", [[-1, -2], [0, 0], [1000, *[5] * 98, 4]])
def test_ratings_that_are_no_scale_are_not_guessed(ratings):
    rows = {"user": list(range(len(ratings))), "item": [1] * len(ratings), "rating": ratings}
    with pytest.raises(UsageError, match="does not show which are positive") as caught:
        read_frame(rows)
    assert caught.value.code == "threshold_required"


def test_test_rows_are_read_with_the_threshold_of_the_training_rows(tmp_path):
    rows = [(u, i, 1 + (u + i) % 5) for u in range(12) for i in range(10)]
    for name, some in (("train.csv", rows[::2]), ("test.csv", [r for r in rows[1::2] if r[2] < 5])):
        lines = ["user,item,stars", *(",".join(map(str, row)) for row in some)]
        (tmp_path / name).write_text("\n".join(lines))
    words = ("--test", tmp_path / "test.csv", "--system", "popular", "--out", tmp_path / "run")
    done = command("train", tmp_path / "train.csv", *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("pairs rated below 4 are not") == 2


@pytest.mark.parametrize("file", ["x.csv", "x.parquet"])
def test_ids_of_files_are_matched_as_they_are_held(tmp_path, file):
    frame = pl.DataFrame({"user": [1, 1, 2, 2], "item": [10, 11, 10, 11], "rating": [5, 1, 5, 5]})
    frame.write_csv(tmp_path / file) if file.endswith("csv") else frame.write_parquet(
        tmp_path / file
    )
    read = sdgar.read(tmp_path / file, min_rating=4)
    assert pairs(read) == {(1, 11)}


def test_a_pair_that_is_liked_in_another_row_is_liked():
    rows = {"user": [1, 1, 2], "item": [1, 1, 2], "rating": [1, 5, 5]}
    assert read_frame(rows, ReadOptions(min_rating=4)).interactions.seen is None


def test_what_is_seen_follows_its_rows_through_splits_and_back(data):
    keep = data.users_E < 2
    part, rest = data.subset(keep, "x"), data.subset(~keep, "y")
    assert pairs(part) == {("a", "2")}
    assert pairs(merge(part, rest)) <= pairs(data)
    assert (
        data.fingerprint()
        != Interactions.from_arrays(
            data.users.at(data.users_E), data.items.at(data.items_E)
        ).fingerprint()
    )


def test_nothing_seen_is_recommended_also_after_saving(data, tmp_path):
    model = sdgar.EASE(device="cpu").fit(data)
    for fitted in (model, sdgar.load(model.save(tmp_path / "model"))):
        lists = fitted.recommend(k=4).drop_nulls()
        found = set(zip(lists["user"], lists["item"], strict=True))
        assert not found & pairs(data)
        assert ("b", "3") in found
        everything = fitted.recommend(k=4, exclude_seen=False)
        assert ("a", "2") in set(zip(everything["user"], everything["item"], strict=True))


def test_what_was_seen_can_still_be_a_test_row(data):
    train, test = splits.split(data, "paper", seed=0)
    sdgar.EASE(device="cpu").fit(train).evaluate(test)


def test_damage_to_what_was_seen_is_noticed(data, tmp_path):
    folder = sdgar.EASE(device="cpu").fit(data).save(tmp_path / "model")
    beyond = np.array([1, 99], np.int32)
    change_tensors(folder, "history.safetensors", lambda t: t.update(seen_items_E=beyond))
    with pytest.raises(DamagedError, match="outside the catalogue"):
        sdgar.load(folder)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7))), st.integers(0, 9))
def test_a_union_of_histories_has_the_pairs_of_both_in_order(found, cut):
    def history(some):
        users, items = (np.array([p[i] for p in some], np.int64) for i in (0, 1))
        return History.of_pairs(users, items, 6)

    both = history(found[:cut]).union(history(found[cut:]))
    together = list(zip(both.users_E.tolist(), both.items_E.tolist(), strict=True))
    assert together == sorted(set(found))
    assert both.n_users == 6
