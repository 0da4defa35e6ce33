"""Transitions learns what comes next, and answers as every other model does."""

from __future__ import annotations

import numpy as np
import pytest

import sdgar
from sdgar.errors import DataError, UsageError
from sdgar.maths.transitions import Decay

N_ITEMS = 40


def walks(n_users=120, length=8, seed=0, hop=7):
    """Everyone walks along one circle of items, with some noise: i is followed by i + hop."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(n_users), length)
    steps = np.tile(np.arange(length), n_users)
    items = (np.repeat(rng.integers(0, N_ITEMS, n_users), length) + hop * steps) % N_ITEMS
    odd = rng.random(len(items)) < 0.15
    items[odd] = rng.integers(0, N_ITEMS, odd.sum())
    return users, items, steps


@pytest.fixture(scope="module")
def rows():
    users, items, steps = walks()
    return sdgar.Interactions.from_arrays(users, items, time=steps)


@pytest.fixture(scope="module")
def fitted(rows):
    return sdgar.Transitions().fit(rows, verbose=False)


def listed(model, history, k=3, **options):
    return model.recommend(history=history, k=k, **options)["item"].to_list()


def test_the_next_item_of_a_history_comes_first_and_the_order_matters(fitted):
    found = [listed(fitted, [i, (i + 7) % N_ITEMS])[0] for i in range(N_ITEMS)]
    assert np.mean([f == (i + 14) % N_ITEMS for i, f in enumerate(found)]) > 0.9
    # The one that came last decides.
    assert listed(fitted, [3, 20])[0] == 27
    assert listed(fitted, [20, 3])[0] == 10


def test_it_beats_what_knows_no_order(rows, fitted):
    train, test = sdgar.split(rows, "leave-last-out")
    ours, unordered = sdgar.Transitions(), sdgar.LocalEASE()
    scores = [one.fit(train, verbose=False).evaluate(test, ks=(1,)) for one in (ours, unordered)]
    directed, undirected = (one.means()["hit@1"] for one in scores)
    assert directed > undirected + 0.1


def test_a_saved_model_gives_the_same_lists(fitted, tmp_path):
    path = fitted.save(tmp_path / "model")
    again = sdgar.load(path)
    for user in (0, 7, 119):
        assert again.recommend([user], k=5).equals(fitted.recommend([user], k=5))
    assert listed(again, [3, 10, 17]) == listed(fitted, [3, 10, 17])


def test_reasons_are_the_exact_shares_of_the_score(fitted):
    lists = fitted.recommend(history=[3, 10, 17], k=2)
    shares = fitted.explain(history=[3, 10, 17], k=2)
    for item, score in zip(lists["item"], lists["score"], strict=True):
        own = shares.filter(shares["item"] == item)["share"].sum()
        assert own == pytest.approx(score, rel=1e-4)


def test_new_events_come_after_those_the_model_has(rows, fitted):
    last = sdgar.Interactions.from_arrays([0], [rows.items.values[5]], time=[100])
    updated = fitted.update(last)
    own = rows.items_E[rows.users_E == 0][np.argsort(rows.time_E[rows.users_E == 0])]
    history = [i for i in rows.items.values[own].tolist() if i != 5] + [5]
    assert updated.recommend([0], k=5)["item"].to_list() == listed(fitted, history, k=5)
    # Users without new events keep the order of theirs.
    assert updated.recommend([1], k=5).equals(fitted.recommend([1], k=5))


def test_validation_rows_choose_the_settings(rows):
    train, valid = sdgar.split(rows, "leave-last-out")
    model = sdgar.Transitions(l2=3.0).fit(train, valid, verbose=False)
    chosen = model.recommender_.about["chosen"]
    assert chosen["l2"] == 3.0
    assert 0 < chosen["alpha"] <= 1
    assert chosen["tau"] < 25  # order matters here
    fixed = sdgar.Transitions(**chosen).fit(train, verbose=False)
    assert fixed.recommend([0], k=5).equals(model.recommend([0], k=5))


def test_rows_without_times_are_refused():
    users, items, _ = walks()
    unordered = sdgar.Interactions.from_arrays(users, items, duplicates="last")
    with pytest.raises(DataError, match="--time-column"):
        sdgar.Transitions().fit(unordered, verbose=False)


def test_half_of_a_decay_is_refused(rows):
    with pytest.raises(UsageError, match="go together"):
        sdgar.Transitions(tau=2.0).fit(rows, verbose=False)


def test_users_with_few_events_still_get_a_model():
    rows = sdgar.Interactions.from_arrays([1, 1, 2], ["a", "b", "a"], time=[1, 2, 3])
    model = sdgar.Transitions().fit(rows, verbose=False)
    assert model.recommend([2], k=1)["item"].to_list() == ["b"]
    assert Decay(1.0, 0.0).step == 1
