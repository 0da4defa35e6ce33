"""What counts against an item: low ratings, low weights, and kinds of events."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sdgar
from sdgar.data.merge import merge
from sdgar.errors import DataError, UsageError
from sdgar.storage.sealed import DamagedError

from ..cli.test_cli import result_of
from ..cli.test_cli import sdgar as command


def pairs(data: sdgar.Interactions, which: str) -> set[tuple]:
    history = getattr(data, which)
    if history is None:
        return set()
    users, items = data.users.at(history.users_E), data.items.at(history.items_E)
    return set(zip(users.tolist(), items.tolist(), strict=True))


LIKED = {"user": [*"aabb"], "item": [1, 2, 3, 4]}


def read(extra: dict, **options) -> sdgar.Interactions:
    """Return positive interactions, followed by the rows of ``extra``."""
    n = len(extra["user"])
    columns = {name: LIKED[name] + extra[name] for name in ("user", "item")}
    for name in extra.keys() - columns.keys():
        columns[name] = [{"rating": 5, "kind": "view", "weight": 1.0}[name]] * 4 + extra[name]
        assert len(columns[name]) == 4 + n
    return sdgar.read(columns, verbose=False, **options)


def test_ratings_between_two_thresholds_are_known_and_speak_neither_for_nor_against():
    extra = {"user": ["a", "a", "b"], "item": [3, 4, 1], "rating": [3, 1, 2]}
    both = read(extra, min_rating=4, dislike_below=3)
    assert pairs(both, "seen") == {("a", 3), ("a", 4), ("b", 1)}
    assert pairs(both, "disliked") == {("a", 4), ("b", 1)}
    assert both.account.filtered == {"rating_below_3": 2, "rating_below_4": 1}
    one = read(extra, min_rating=4)
    assert pairs(one, "disliked") == pairs(one, "seen") == pairs(both, "seen")
    assert one.fingerprint() != both.fingerprint()
    with pytest.raises(UsageError, match="ratings below 5 cannot count against"):
        read(extra, min_rating=4, dislike_below=5)


def test_what_is_neutral_stays_so_in_parts_and_sums_of_the_data():
    extra = {"user": ["a", "a"], "item": [3, 4], "rating": [3, 1]}
    data = read(extra, min_rating=4, dislike_below=3)
    part = data.subset(data.items_E != 0, "test")
    assert pairs(part, "disliked") == {("a", 4)}
    assert pairs(merge(part, data), "disliked") == {("a", 4)}
    assert pairs(merge(part, data), "seen") == {("a", 3), ("a", 4)}


def test_data_without_anything_that_speaks_against_has_nothing_to_draw():
    data = read({"user": ["a"], "item": [3], "rating": [3]}, min_rating=4, dislike_below=2)
    assert pairs(data, "seen") == {("a", 3)}
    assert data.disliked is None
    with pytest.raises(DataError, match="no dislikes to draw negatives from"):
        sdgar.BPR(dim=2, epochs=1, engine="eager", sampler__dislikes=0.1).fit(data)


def test_weights_below_a_threshold_are_dislikes_and_may_be_negative():
    extra = {"user": ["a", "b", "b"], "item": [3, 1, 2], "weight": [0.05, -1.0, 0.1]}
    data = read(extra, weight="weight", dislike_below=0.1)
    assert pairs(data, "seen") == pairs(data, "disliked") == {("a", 3), ("b", 1)}
    assert ("b", 2) in pairs(data, "history")
    assert data.account.filtered == {"weight_below_0.1": 2}
    with pytest.raises(DataError, match="a negative weight"):
        read(extra, weight="weight")
    # What is learned from is not negative.
    with pytest.raises(DataError, match="a negative weight"):
        read(extra, weight="weight", dislike_below=-2)


def test_named_kinds_are_dislikes_as_the_usual_ones_are():
    extra = {"user": ["a", "a", "b"], "item": [3, 4, 1], "kind": ["pass", "skip", "view"]}
    data = read(extra, dislike_kinds=("pass",))
    assert pairs(data, "disliked") == {("a", 3), ("a", 4)}
    assert pairs(read(extra), "disliked") == {("a", 4)}
    kept = read(extra, kinds=("view", "skip"), dislike_kinds=("pass",))
    assert pairs(kept, "disliked") == {("a", 3)}
    with pytest.raises(UsageError, match="'skip' cannot be learned from"):
        read(extra, kinds=("skip",), dislike_kinds=("skip",))
    with pytest.raises(UsageError, match="names no kind"):
        read(extra, dislike_kinds=("",))
    with pytest.raises(UsageError, match="--dislike-kinds pass needs a column of kinds"):
        read(extra, dislike_kinds=("pass",), kind="none")
    with pytest.warns(UserWarning, match="no row has the kind 'pas'"):
        read(extra, dislike_kinds=("pas",))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dislike_kinds": ("pass",)}, "needs a column of kinds"),
        ({"dislike_below": 2}, "needs a column of ratings or of weights"),
        ({"dislike_below": "low"}, "must be a number"),
    ],
)
def test_options_without_their_column_are_refused(options, said):
    with pytest.raises(UsageError, match=said):
        read({"user": [], "item": []}, **options)


@pytest.mark.parametrize(
    "system",
    ["bpr", *(pytest.param(s, marks=pytest.mark.exhaustive) for s in ("sdgar", "sdsoftmax"))],
)
def test_commands_learn_from_kinds_and_leave_them_out(system, tmp_path):
    rows = [f"u{u},i{(u * k) % 7},view" for u in range(8) for k in (1, 2, 3)]
    rows += [f"u{u},i{(u + 5) % 7},pass" for u in range(8)]
    (tmp_path / "events.csv").write_text("\n".join(["user,item,kind", *dict.fromkeys(rows)]) + "\n")
    small = [w for s in ("epochs=1", "dim=2", "sampler__states=2") for w in ("--set", s)]
    words = ("--system", system, "--split", "none", "--dislike-kinds", "pass", "--dislikes")
    small = small[: 4 if system == "bpr" else 6]
    result = result_of(
        command("train", tmp_path / "events.csv", *words, *small, "--engine", "eager",
                "--out", tmp_path / "run", "--json")
    )  # fmt: skip
    assert result["engine"] == "eager"
    model = sdgar.load(tmp_path / "run")
    assert model.about["hyper_parameters"]["sampler__dislikes"] == 0.1
    lists = model.recommend(k=7).drop_nulls("item")
    assert not {(f"u{u}", f"i{(u + 5) % 7}") for u in range(8)} & set(
        zip(lists["user"], lists["item"], strict=True)
    )


def marks(model: sdgar.Recommender) -> dict[tuple, bool]:
    """Whether each pair that is known and not liked is neutral, as the model has it."""
    saved = model.saved
    if saved.seen is None:
        return {}
    users, items = model.users.at(saved.seen.users_E), model.items.at(saved.seen.items_E)
    neutral = saved.seen_neutral_E
    neutral = [False] * len(users) if neutral is None else neutral.tolist()
    return dict(zip(zip(users.tolist(), items.tolist(), strict=True), neutral, strict=True))


PASSABLE = {"user": [*"aabcc"], "item": [3, 4, 1, 1, 4], "rating": [3, 1, 3, 5, 5]}


@pytest.fixture(scope="module")
def rated() -> sdgar.Recommender:
    """A model of users for which 3 is neutral and 1 counts against a film."""
    return sdgar.LocalEASE().fit(read(PASSABLE, min_rating=4, dislike_below=2)).recommender_


def test_a_saved_model_keeps_what_is_neutral(rated, tmp_path):
    wanted = {("a", 3): True, ("a", 4): False, ("b", 1): True}
    assert marks(rated) == marks(sdgar.load(rated.save(tmp_path / "model"))) == wanted
    lists = rated.recommend(k=4)
    assert not wanted.keys() & set(zip(lists["user"], lists["item"], strict=True))


def test_a_model_without_marks_is_read_as_before(rated, tmp_path):
    """What users know and dislike then counts against it, as it did when it was saved."""
    bare = sdgar.Recommender(replace(rated.saved, seen_neutral_E=None))
    again = sdgar.load(bare.save(tmp_path / "model"))
    assert marks(again) == dict.fromkeys(marks(rated), False)
    assert again.recommend(k=4).equals(rated.recommend(k=4))


def test_marks_that_do_not_fit_are_damage(rated, tmp_path):
    wrong = replace(rated.saved, seen_neutral_E=np.zeros(2, bool))
    with pytest.raises(DamagedError, match="seen_neutral_E is bool"):
        sdgar.load(sdgar.Recommender(wrong).save(tmp_path / "model"))


def today(**extra) -> sdgar.Interactions:
    """Rows of another day: a and b find other things good, and say something of these pairs."""
    columns = {name: [*LIKED[name][1:3], *extra[name]] for name in ("user", "item")}
    columns["rating"] = [5, 5, *extra["rating"]]
    return sdgar.read(columns, verbose=False, min_rating=4, dislike_below=2)


@pytest.mark.parametrize("way", ["update", "rows_with"])
def test_what_is_neutral_stays_so_until_newer_events_say_otherwise(rated, way):
    result = today(user=["a", "b", "b"], item=[3, 2, 1], rating=[1, 3, 5])
    if way == "update":
        found = marks(rated.update(result))
    else:
        rows = rated.rows_with(result)
        found = marks(sdgar.LocalEASE().fit(rows).recommender_)
    assert found == {("a", 3): False, ("a", 4): False, ("b", 2): True}
    nothing = today(user=[], item=[], rating=[])
    if way == "update":
        assert marks(rated.update(nothing)) == marks(rated)
    else:
        assert pairs(rated.rows_with(nothing), "disliked") == {("a", 4)}


def test_new_items_between_the_others_leave_the_marks_where_they_are(rated):
    assert marks(rated.add_items({0: ["a"], 2_000: ["b"]})) == marks(rated)


def test_what_new_users_rated_low_is_not_recommended_to_them(rated):
    """Of the items of a history, one may have no positive row, and the model contains it."""
    rows = {"user": ["n", "n", "n", "o"], "item": [1, 2, 3, 2], "rating": [5, 1, 3, 5]}
    history = sdgar.read(rows, verbose=False, min_rating=4, dislike_below=2)
    assert history.items.values.tolist() == [1, 2]
    folded = rated.fold_in(history)
    assert marks(folded) == {("n", 2): False, ("n", 3): True}
    for lists in (folded.recommend(["n"], k=4), rated.recommend(histories=history, k=4)):
        assert set(lists.filter(user="n")["item"].drop_nulls()) == {4}
    some = folded.recommend(["o"], k=4)
    assert set(some["item"].drop_nulls()) == {1, 3, 4}


@pytest.mark.parametrize("way", ["update", "rows_with"])
def test_a_dislike_counts_though_nobody_likes_the_item_on_that_day(rated, way):
    result = today(user=["b", "a"], item=[4, 1], rating=[1, 3])
    assert result.items.values.tolist() == [2, 3]
    if way == "update":
        after = rated.update(result)
    else:
        after = sdgar.LocalEASE().fit(rated.rows_with(result)).recommender_
    assert after.items.at(after.history.of(0)).tolist() == [2]
    assert after.items.at(after.history.of(1)).tolist() == [3]
    assert marks(after) == marks(rated) | {("b", 4): False, ("a", 1): True}
