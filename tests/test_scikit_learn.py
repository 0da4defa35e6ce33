"""Models fit scikit-learn: rows can be chosen, models scored, settings searched."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.utils.validation import check_is_fitted

import sdgar
from sdgar.data.interactions import Interactions
from sdgar.errors import UsageError

QUICK = {"dim": 2, "sampler__states": 2, "epochs": 1, "early_stopping": False, "engine": "eager"}


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


@pytest.mark.parametrize("rows", [[0, 3], np.array([3, 0]), [0, -1], slice(0, 4, 3), None])
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
        ([4], r"there are no such rows as \[4\].*by numbers below 4"),
        ([1, 1], "each row may be chosen only once"),
        ([True, False], "by a boolean mask"),
        ("a", "no such rows as 'a'"),
        (0, "got 0"),
        ([0.5], "by numbers"),
        ([[0, 1]], "give a one-dimensional array"),
    ],
)
def test_rows_that_are_not_there_are_named(rows, says):
    data = Interactions.from_arrays(["a", "a", "b", "b"], [1, 2, 2, 3])
    with pytest.raises(UsageError, match=says):
        data[rows]


def test_a_loop_over_rows_is_refused_at_once():
    with pytest.raises(UsageError, match=r"each row may be chosen only once; .* got 0"):
        list(Interactions.from_arrays(["a", "b"], [1, 2]))
