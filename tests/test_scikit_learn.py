"""Models fit scikit-learn: rows can be chosen, models scored, settings searched."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.utils.validation import check_is_fitted

import sdgar
from sdgar.data.interactions import Interactions
from sdgar.errors import SdgarWarning, UsageError
from sdgar.settings import of_today
from sdgar.systems.make import make
from sdgar.training.identity import require_same

from .cli.test_cli import result_of
from .cli.test_cli import sdgar as command

QUICK = {"dim": 2, "states": 2, "epochs": 1, "early_stopping": False, "engine": "eager"}


def test_a_grid_of_settings_is_searched_over_folds_of_rows(checkerboard):
    folds = KFold(3, shuffle=True, random_state=0)
    grid = {"neighbours": [1, 30], "shrink": [0.0, 10.0]}
    found = GridSearchCV(sdgar.ItemKNN(), grid, cv=folds).fit(checkerboard)
    assert found.best_params_["neighbours"] == 30
    assert found.best_score_ > 0.5
    assert found.best_estimator_.recommend([3], k=1)["item"].to_list() == [3]


def test_the_score_of_a_fold_is_what_evaluate_says(checkerboard):
    folds = KFold(2, shuffle=True, random_state=1)
    scores = cross_val_score(sdgar.MostPopular(), checkerboard, cv=folds)
    for score, (train, test) in zip(scores, folds.split(checkerboard), strict=True):
        model = sdgar.MostPopular().fit(checkerboard[train])
        assert score == model.evaluate(checkerboard[test]).means()["ndcg@50"]
        assert score == model.score(checkerboard[test])


def test_scikit_learn_knows_whether_a_model_is_fitted(checkerboard):
    model = sdgar.MostPopular()
    with pytest.raises(ValueError, match="not fitted"):
        check_is_fitted(model)
    check_is_fitted(model.fit(checkerboard))


@pytest.mark.parametrize("rows", [[0, 3], np.array([3, 0]), slice(0, 4, 3), None])
def test_rows_are_chosen_by_number_slice_or_truth(rows):
    data = Interactions.from_arrays(
        ["a", "a", "b", "b"], [1, 2, 2, 3], weight=[1, 2, 3, 4], time=[9, 8, 7, 6]
    )
    rows = np.array([True, False, False, True]) if rows is None else rows
    some = data[rows]
    assert some.users.at(some.users_E).tolist() == ["a", "b"]
    assert some.items.at(some.items_E).tolist() == [1, 3]
    assert some.weight_E.tolist() == [1, 4]
    assert some.time_E.tolist() == [9, 6]
    assert some.account.sentence() == "4 rows read = 2 kept + 2 filtered (not chosen)"
    assert data.shape == (4,)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([4], "there is no row 4: rows are numbered from 0 to 3"),
        ([-1], "there is no row -1"),
        ([1, 1], "hold one twice"),
        ([True, False], "one True or False for each of 4 rows"),
        ("a", "got 'a'"),
        (0, "got 0"),
        ([0.5], "by numbers"),
    ],
)
def test_rows_that_are_not_there_are_named(rows, says):
    data = Interactions.from_arrays(["a", "a", "b", "b"], [1, 2, 2, 3])
    with pytest.raises(UsageError, match=says):
        data[rows]


def test_a_loop_over_rows_is_refused_at_once():
    with pytest.raises(UsageError, match="rows are chosen by a slice"):
        list(Interactions.from_arrays(["a", "b"], [1, 2]))


def test_the_old_name_of_similarity_is_taken_with_a_warning():
    with pytest.warns(SdgarWarning, match="score of sdsoftmax is called similarity now") as said:
        model = sdgar.SDSoftmax(score="dot")
    assert said[0].filename == __file__
    assert model.similarity == clone(model).similarity == "dot"
    assert "score" not in model.get_params()
    assert callable(model.score)
    with pytest.warns(SdgarWarning, match="called similarity now"):
        assert model.set_params(score="cosine").similarity == "cosine"
    with pytest.warns(SdgarWarning, match="called similarity now"):
        assert make("sdsoftmax", {"score": "dot"}).similarity == "dot"
    with pytest.raises(UsageError, match="both are given"):
        sdgar.SDSoftmax(score="dot", similarity="dot")
    with pytest.raises(UsageError, match="unknown parameter"):
        sdgar.BPR().set_params(score="dot")


@pytest.mark.parametrize(
    ("verb", "key"), [("train", "score"), ("compare", "score"), ("compare", "sdsoftmax.score")]
)
def test_the_old_name_is_taken_by_commands(verb, key, tmp_path, checkerboard):
    events = tmp_path / "events.csv"
    pairs = zip(checkerboard.users_E, checkerboard.items_E, strict=True)
    events.write_text("\n".join(["user,item", *(f"u{u},i{i}" for u, i in pairs)]))
    quick = [word for name in ("epochs", "dim", "states") for word in ("--set", f"{name}=2")]
    words = (events, *quick, "--set", f"{key}=dot", "--engine", "eager", "--json")
    if verb == "train":
        done = command("train", *words, "--out", tmp_path / "run")
        assert result_of(done)["system"] == "sdsoftmax"
        settings = sdgar.load(tmp_path / "run").about["hyper_parameters"]
        assert settings["similarity"] == "dot"
    else:
        done = command("compare", *words, "--systems", "popular,sdsoftmax", "--seeds", 1)
        result_of(done)
    assert "is called similarity now" in done.stderr


def test_a_model_saved_under_the_old_name_folds_users_in(checkerboard, tmp_path):
    model = sdgar.SDSoftmax(**QUICK).fit(checkerboard)
    want = model.recommend(history=[2, 4], k=3)
    about = model.recommender_.about
    about["hyper_parameters"]["score"] = about["hyper_parameters"].pop("similarity")
    old = sdgar.load(model.save(tmp_path / "old"))
    assert (
        "score"
        in json.loads((tmp_path / "old" / "manifest.json").read_text())["about"]["hyper_parameters"]
    )
    assert old.recommend(history=[2, 4], k=3).equals(want)


def test_a_run_that_began_under_the_old_name_goes_on(tmp_path):
    now = {"system": "sdsoftmax", "similarity": "cosine", "seed": 0}
    require_same({"system": "sdsoftmax", "score": "cosine", "seed": 0}, now, tmp_path)
    assert of_today("bpr", {"score": 1}) == {"score": 1}
