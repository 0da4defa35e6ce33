"""What speaks against an item: low ratings, low weights, and kinds of events."""

from __future__ import annotations

import pytest

import sdgar
from sdgar.errors import DataError, UsageError

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
    """Rows of likings, and after them those of ``extra``; a column is as long as the two."""
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
    with pytest.raises(UsageError, match="ratings below 5 cannot speak against"):
        read(extra, min_rating=4, dislike_below=5)


def test_what_is_neutral_stays_so_in_parts_and_sums_of_the_data():
    extra = {"user": ["a", "a"], "item": [3, 4], "rating": [3, 1]}
    data = read(extra, min_rating=4, dislike_below=3)
    part = data.subset(data.items_E != 0, "test")
    assert pairs(part, "disliked") == {("a", 4)}
    assert pairs(part.merge(data), "disliked") == {("a", 4)}
    assert pairs(part.merge(data), "seen") == {("a", 3), ("a", 4)}


def test_data_without_anything_that_speaks_against_has_nothing_to_draw():
    data = read({"user": ["a"], "item": [3], "rating": [3]}, min_rating=4, dislike_below=2)
    assert pairs(data, "seen") == {("a", 3)}
    assert data.disliked is None
    with pytest.raises(DataError, match="no dislikes to draw negatives from"):
        sdgar.BPR(dim=2, epochs=1, engine="eager", dislikes=0.1).fit(data)


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


def test_kinds_that_are_named_are_dislikes_beside_the_usual_ones():
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
    with pytest.raises(UsageError, match="--kind none for none"):
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
    small = [w for s in ("epochs=1", "dim=2", "states=2") for w in ("--set", s)]
    words = ("--system", system, "--split", "none", "--dislike-kinds", "pass", "--dislikes")
    small = small[: 4 if system == "bpr" else 6]
    told = result_of(
        command("train", tmp_path / "events.csv", *words, *small, "--engine", "eager",
                "--out", tmp_path / "run", "--json")
    )  # fmt: skip
    assert told["engine"] == "eager"
    model = sdgar.load(tmp_path / "run")
    assert model.about["hyper_parameters"]["dislikes"] == 0.1
    lists = model.recommend(k=7).drop_nulls("item")
    assert not {(f"u{u}", f"i{(u + 5) % 7}") for u in range(8)} & set(
        zip(lists["user"], lists["item"], strict=True)
    )
