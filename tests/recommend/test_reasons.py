"""Reasons for scores: shares add up, and without its first reason an item loses most."""

from __future__ import annotations

import numpy as np
import pytest

import sdgar
from sdgar.errors import SdgarWarning, UsageError
from sdgar.models.contributions import by_vectors
from sdgar.models.sum import Sum

QUICK = {"dim": 8, "sampler__states": 4, "sampler__pretrain": 2, "n_negatives": 8, "epochs": 3}
QUICK |= {"engine": "eager", "batch_size": 8192, "early_stopping": False}
MODELS = {
    "item-knn": sdgar.ItemKNN(),
    "ease": sdgar.EASE(l2=50.0),
    "local-ease": sdgar.LocalEASE(),
    "ials": sdgar.IALS(dim=8),
    "sdsoftmax": sdgar.SDSoftmax(item_memory=4.0, **QUICK),
    "bpr": sdgar.BPR(dim=8, epochs=2, early_stopping=False, engine="eager"),
}
EXACT = ("item-knn", "ease", "local-ease")


@pytest.fixture(scope="module")
def data():
    return sdgar.synthetic("demo")


@pytest.fixture(scope="module", params=MODELS)
def fitted(request, data):
    return request.param, MODELS[request.param].fit(data, verbose=False).recommender_


def test_shares_add_up_to_the_score(fitted):
    name, model = fitted
    users = model.users.values[[0, 7, 100]].tolist()
    for user in users:
        found = model.explain_reasons(user, k=4, reasons=1000)
        history = set(model.history.of(int(model.users.index_of([user])[0])).tolist())
        scores = model.score_pairs(user, model.items.at(found.items_B).tolist())["score"].to_list()
        np.testing.assert_allclose(found.score_B, scores, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found.share_BR.sum(axis=1) + found.rest_B, found.score_B)
        for because in found.because_BR.tolist():
            assert set(because) == history  # all of it, each item once
        assert (np.diff(found.share_BR, axis=1) <= 1e-12).all()
        if name in EXACT:
            np.testing.assert_allclose(found.rest_B, 0, atol=1e-5)
            assert not found.vectors_BR.any()
        if isinstance(model.model, Sum):
            assert found.weights_BR.any()
            assert found.vectors_BR.any()


def losses(model, history, item):
    """How much the score of an item falls without each item of the history."""

    def score(items):
        return model.fold_in({"x": items}).score_pairs("x", [item])["score"][0]

    whole = score(history)
    return [whole - score([one for one in history if one != out]) for out in history]


@pytest.mark.parametrize("fitted", EXACT, indirect=True)
def test_without_its_first_reason_an_item_loses_most(fitted):
    _, model = fitted
    history = model.items.at(model.history.of(3)[:6]).tolist()
    for one in model.explain_reasons(history=history, k=3, reasons=6).dicts():
        lost = dict(zip(history, losses(model, history, one["item"]), strict=True))
        for reason in one["because"]:  # the share is the loss, exactly
            assert lost[reason["item"]] == pytest.approx(reason["share"], abs=1e-4)
        assert max(lost, key=lost.get) == one["because"][0]["item"]


@pytest.mark.parametrize("fitted", ["sdsoftmax"], indirect=True)
def test_first_reasons_of_vectors_and_memory_count_more_than_last_ones(fitted):
    _, model = fitted
    first, last = [], []
    for user in range(0, 60, 6):
        history = model.items.at(model.history.of(user)[:6]).tolist()
        for one in model.explain_reasons(history=history, k=3, reasons=6).dicts():
            lost = dict(zip(history, losses(model, history, one["item"]), strict=True))
            first.append(lost[one["because"][0]["item"]])
            last.append(lost[one["because"][-1]["item"]])
    assert np.mean(np.array(first) > np.array(last)) > 0.8


def test_a_vector_that_is_one_item_s_is_explained_by_that_item():
    vectors_HD = np.eye(4)[:3]
    shares = by_vectors(2 * vectors_HD[1], vectors_HD[1:2], np.array([0.5]), vectors_HD)
    assert shares.vectors_BH.argmax() == 1
    assert np.abs(shares.vectors_BH[0, [0, 2]]).max() < 1e-12
    assert float(shares.total_BH.sum() + shares.rest_B[0]) == pytest.approx(2.5)
    nothing = by_vectors(np.ones(4), np.eye(4)[:2], np.zeros(2), np.zeros((0, 4)))
    assert nothing.total_BH.shape == (2, 0)
    assert nothing.rest_B.tolist() == [1, 1]


@pytest.mark.parametrize("fitted", ["local-ease"], indirect=True)
def test_a_list_can_say_why(fitted):
    _, model = fitted
    user = model.users.values[5]
    frame = model.recommend(user, k=3, why=True)
    for item, because in frame.select("item", "because").iter_rows():
        assert because == model.explain(user, item, reasons=1)["because"][0]
    (one,) = model.recommend_lists(user, k=3, why=True).dicts()
    assert [entry["because"] for entry in one["items"]] == frame["because"].to_list()
    assert "because" not in model.recommend(user, k=3).columns
    with pytest.warns(SdgarWarning, match="unknown to the model"):
        new = model.recommend(["nobody"], k=2, why=True)
    assert new["because"].to_list() == [None, None]


@pytest.mark.parametrize("ids", [[1, 2, 3], ["1", "2", "3"], [1, 2, 2**63 + 5]])
def test_ids_keep_their_type(ids):
    a, b, c = ids
    data = sdgar.Interactions.from_arrays([a, a, b, b, c], [c, b, b, a, c])
    model = sdgar.LocalEASE(l2=1.0).fit(data, verbose=False)
    frame = model.explain(c, b, reasons=1)
    assert frame["user"].to_list() == [c, c]
    assert frame["item"].to_list() == [b, b]
    assert frame["because"].to_list() == [c, None]


@pytest.mark.parametrize("fitted", ["local-ease"], indirect=True)
def test_wrong_questions_are_refused(fitted):
    _, model = fitted
    user = model.users.values[5]
    for ask, code in (
        (lambda: model.explain(), "which_users"),
        (lambda: model.explain(user, history=["x"]), "which_users"),
        (lambda: model.explain([user, user]), "which_users"),
        (lambda: model.explain(user, "no such item"), "unknown_item"),
        (lambda: model.explain("nobody"), "unknown_user"),
        (lambda: model.explain(user, reasons=0), "bad_k"),
    ):
        with pytest.raises(UsageError) as error:
            ask()
        assert error.value.code == code
