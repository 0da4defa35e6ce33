"""Items without events are found by their features, and others lose nothing by them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

import sdgar
from sdgar.data.held_out import HeldOut
from sdgar.errors import DataError, SdgarError, UsageError
from sdgar.evaluation.metrics import per_user
from sdgar.recommend import cold as module
from sdgar.recommend.cold import offset_of, ridges


@pytest.fixture(scope="module")
def films():
    """Users who like two of six genres; the last thirty of three hundred films have no events."""
    rng = np.random.default_rng(0)
    genre = rng.integers(0, 6, 300)
    tastes = rng.integers(0, 6, (150, 2))
    pairs = [
        (user, item)
        for user, liked in enumerate(tastes)
        for item in rng.choice(np.flatnonzero(np.isin(genre, liked)), 12, replace=False)
    ]
    events = sdgar.Interactions.from_arrays(*zip(*pairs, strict=True))
    features = sdgar.Features.from_columns(list(range(300)), {"genre": genre.tolist()})
    cold_E = events.items.values[events.items_E] >= 270
    return events[~cold_E], events[cold_E], features


@pytest.fixture(scope="module")
def model(films):
    return sdgar.IALS(dim=8, sweeps=6).fit(films[0]).recommender_


@pytest.fixture(scope="module")
def grown(films, model):
    return model.add_items(features=films[2])


def test_cold_items_differ_by_their_features(films, grown):
    _, test, _ = films
    assert grown.cold_items.tolist() == list(range(270, 300))
    by_features = grown.evaluate(test, ks=(20,), among=grown.cold_items)
    assert by_features.counts.items == 30
    popular = sdgar.MostPopular().fit(films[0]).add_items(features=films[2])
    by_chance = popular.evaluate(test, ks=(20,), among=grown.cold_items)
    assert by_features.means()["ndcg@20"] > by_chance.means()["ndcg@20"] + 0.15


def test_lists_of_some_items_cover_these_items_and_no_others(films, grown):
    _, test, _ = films
    facts = {item: {"genre": [item % 2]} for item in range(300)}
    metrics = ["coverage@5", "gini@5", "hit@5", "cold_hit@5", "diversity:genre@5", "recall@5"]
    report = grown.evaluate(test, among=grown.cold_items, metrics=metrics, facts=facts)
    assert list(report.means()) == [*metrics[2:], *metrics[:2]]
    users = np.unique(test.users_E)
    assert report.frame()["user"].to_list() == test.users.values[users].tolist()
    listed = grown.recommend(test.users.values[users], 5, items=grown.cold_items)["item"].to_list()
    shown = sorted(listed.count(item) for item in grown.cold_items.tolist())
    weights = [2 * place - 31 for place in range(1, 31)]
    wanted = sum(w * x for w, x in zip(weights, shown, strict=True)) / (30 * sum(shown))
    assert report.means()["coverage@5"] == sum(x > 0 for x in shown) / 30
    assert report.means()["gini@5"] == pytest.approx(wanted)
    assert report.means()["cold_hit@5"] == report.means()["hit@5"]
    new = grown.evaluate(test, histories=films[0], among=grown.cold_items, metrics=["coverage@5"])
    assert new.counts.items == 30
    assert new.counts.folded_in == len(users)
    assert 0 < new.means()["coverage@5"] <= 1


def test_a_ridge_is_least_squares_with_rows_that_hold_it_down():
    rng = np.random.default_rng(0)
    x_RF = rng.normal(size=(30, 5)) * (rng.random((30, 5)) < 0.6)
    y_RT, root_R1 = rng.normal(size=(30, 3)), rng.uniform(0.3, 1.4, (30, 1))
    found = ridges(csr_array(x_RF), y_RT, root_R1[:, 0] ** 2, (0.1, 7.0))
    for l2, one in zip((0.1, 7.0), found, strict=True):
        # The level is a column of ones, which no further row holds down.
        held_FF = np.hstack((np.zeros((5, 1)), np.sqrt(l2) * np.eye(5)))
        left = np.vstack((root_R1 * np.hstack((np.ones((30, 1)), x_RF)), held_FF))
        wanted = np.linalg.lstsq(left, np.vstack((root_R1 * y_RT, np.zeros((5, 3)))))[0]
        assert_allclose(one(x_RF), wanted[0] + x_RF @ wanted[1:], rtol=1e-9)


def test_predictions_are_a_ridge_with_the_strengths_of_the_model(films, model, grown):
    chosen = grown.about["new_items"]
    trained = np.isin(np.arange(300), model.items.values)
    x_IF = films[2].matrix(np.arange(300))
    y_RT = np.column_stack((model.factors.item_ID, model.factors.bias_I)).astype(np.float64)
    n_R = np.bincount(model.history.items_E)
    found = ridges(x_IF[trained], y_RT, n_R / (n_R + 10), chosen["l2"])
    at_N = grown.items.index_of(np.arange(270, 300))
    wanted_ND = found[0](x_IF[270:])[:, :-1]
    assert_allclose(grown.factors.item_ID[at_N], wanted_ND, rtol=1e-4, atol=1e-5)
    wanted_N = found[1](x_IF[270:])[:, -1] - chosen["offset"]
    assert_allclose(grown.factors.bias_I[at_N], wanted_N, rtol=1e-4, atol=1e-5)
    kept = grown.items.index_of(model.items.values)
    assert np.array_equal(grown.factors.item_ID[kept], model.factors.item_ID)


def test_events_of_a_cold_item_count_more_the_more_there_are(films, model, grown):
    kappa = grown.about["new_items"]["kappa"]
    at = grown.items.find(280)
    for n in (1, 9):
        users = np.unique(films[1].users.values)[:n].tolist()
        later = grown.add_items({280: users})
        own = model.add_items({280: users})
        share = n / (n + kappa)
        wanted = share * own.factors.item_ID[own.items.find(280)]
        wanted = wanted + (1 - share) * grown.factors.item_ID[at]
        assert_allclose(later.factors.item_ID[at], wanted, rtol=1e-4, atol=1e-5)
        at_once = model.add_items({280: users}, features=films[2])
        assert_allclose(at_once.factors.item_ID[at], wanted, rtol=1e-4, atol=1e-5)
        assert len(later.cold_items) == 29
        with pytest.raises(UsageError, match="in the model already"):
            later.add_items({280: [0]})


def test_lists_mark_cold_items_and_so_does_a_saved_model(model, grown, tmp_path):
    frame = grown.recommend([0], k=2, items=[280, 3])
    assert dict(zip(frame["item"], frame["cold"], strict=True)) == {280: True, 3: False}
    assert "cold" not in model.recommend([0], k=1).columns
    assert "cold" not in model.recommend_lists([0], k=1).dicts()[0]["items"][0]
    listed = grown.recommend_lists([0], k=2, items=[280, 3]).dicts()[0]["items"]
    assert {one["item"]: one["cold"] for one in listed} == {280: True, 3: False}
    grown.save(tmp_path / "grown")
    again = sdgar.load(tmp_path / "grown")
    assert again.cold_items.tolist() == grown.cold_items.tolist()
    assert again.recommend(k=3).equals(grown.recommend(k=3))
    assert again.fold_in({"new": [0, 1]}).recommend(k=30, items=[280])["cold"].to_list() == [True]


def test_training_with_features_of_items_gives_the_same_model(films, grown):
    events, _, features = films
    fitted = sdgar.IALS(dim=8, sweeps=6).fit(events.with_features(None, features))
    assert fitted.recommend(k=3).equals(grown.recommend(k=3))


def test_features_that_nothing_can_be_learned_from_are_refused(films, model):
    make = sdgar.Features.from_columns
    stranger = make([900], {"genre": ["x"]})
    folded, near = model.fold_in({"new": [0, 1]}), sdgar.LocalEASE().fit(films[0])
    for own, features, said in (
        (model, stranger, "0 items of the model have features"),
        (model, make([*range(5), 900], {"genre": ["x"] * 6}), "at least 20 are needed"),
        (model, make([*range(30), 900], {"title": [*map(str, range(31))]}), "no two trained items"),
        (folded, films[2], "Add the items to the model that was saved after training"),
        (model, {"genre": ["x"]}, "features must be"),
        (near, films[2], "no vectors"),
    ):
        with pytest.raises(SdgarError, match=said):
            own.add_items(features=features)
    with pytest.raises(DataError, match="0 items of the model have features") as refused:
        sdgar.IALS().fit(films[0].with_features(None, stranger))
    assert refused.value.code == "no_common_ids"


def test_features_without_a_new_item_leave_the_model_as_it_is(films, model):
    known = sdgar.Features.from_columns(model.items.values, {"genre": [1] * len(model.items)})
    assert model.add_items(features=known).recommend(k=2).equals(model.recommend(k=2))


def test_cold_items_that_promise_too_much_are_lowered(films, model):
    trained_I = np.ones(len(model.items), bool)
    at_H = np.arange(0, len(model.items), 5)
    y_HT = np.column_stack((model.factors.item_ID[at_H], model.factors.bias_I[at_H])).astype(float)
    low = offset_of(model.model, model.history, trained_I, at_H, y_HT)
    y_HT[:, -1] += 3.0
    high = offset_of(model.model, model.history, trained_I, at_H, y_HT)
    assert low < 1 < high
    assert offset_of(model.model, model.history, trained_I, at_H[:0], y_HT[:0]) == 0


def test_the_ndcg_of_ranks_is_that_of_lists():
    rng = np.random.default_rng(0)
    scores_TI = rng.random((4, 50))
    items = [np.sort(rng.choice(50, n, replace=False)) for n in (1, 3, 25, 2)]
    row_E = np.repeat(np.arange(4), [len(own) for own in items])
    own_E = scores_TI[row_E, np.concatenate(items)]
    found = module._ndcg(row_E, module._ahead(scores_TI, row_E, own_E), 4)
    indptr_T1 = np.cumsum([0, *map(len, items)])
    held_out = HeldOut(np.arange(4), indptr_T1, np.concatenate(items), 0, 0, 0, 0)
    lists_TK = np.argsort(-scores_TI, axis=1).astype(np.int32)
    assert found == pytest.approx(per_user(lists_TK, held_out, (20,))["ndcg@20"].mean())
