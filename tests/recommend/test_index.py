"""An index overlooks few items, and gives what it finds the scores of the whole model."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch.nn.functional import normalize

import sdgar
from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.errors import NumericalError
from sdgar.maths.rows import Rows
from sdgar.models.factor_tensors import FactorTensors
from sdgar.models.fold_in import NewContexts, OnSphere
from sdgar.models.item_weights import LocalItemWeights
from sdgar.models.sum import Sum
from sdgar.ranking import index as module
from sdgar.ranking.index import ItemIndex, can_be_indexed, recall
from sdgar.ranking.topk import best_items, top_k
from sdgar.recommend import recommender
from sdgar.recommend.artifact import Artifact

pytest.importorskip("faiss")
USERS, ITEMS, DIM = 80, 6000, 12


def made(seed: int = 0) -> tuple[Sum, History]:
    """Return clustered vectors with biases, and a memory of five weights an item."""
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    centre_CD = torch.randn(60, DIM, generator=generator)
    item_ID = centre_CD[torch.arange(ITEMS) % 60]
    item_ID = normalize(item_ID + 0.6 * torch.randn(ITEMS, DIM, generator=generator), dim=1)
    history = History.of_pairs(
        np.repeat(np.arange(USERS), 9), rng.integers(0, ITEMS, 9 * USERS), USERS
    )
    weight_II = Rows(
        np.arange(ITEMS + 1) * 5,
        np.sort(rng.integers(0, ITEMS, (ITEMS, 5)), axis=1).reshape(-1).astype(np.int32),
        torch.randn(5 * ITEMS, generator=generator).numpy(),
    )
    user_UD = normalize(torch.randn(USERS, DIM, generator=generator), dim=1) / 0.2
    rule = OnSphere.after(history, ITEMS, tau=0.2, rho=1.0)
    bias_I = 0.3 * torch.randn(ITEMS, generator=generator)
    factors = FactorTensors(user_UD, item_ID, bias_I).model().ruled_by(rule)
    return Sum(factors, LocalItemWeights(history, weight_II), 0.7), history


@pytest.fixture(scope="module")
def model() -> Sum:
    return made()[0]


@pytest.fixture(scope="module")
def known() -> History:
    return made()[1]


@pytest.fixture(scope="module")
def index(model, known) -> ItemIndex:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FEW", 100)
        return ItemIndex.of(model, known)


@pytest.fixture(autouse=True)
def few_are_a_hundred(monkeypatch):
    """In so small a catalogue, all items would be few."""
    monkeypatch.setattr(module, "_FEW", 100)


def both(index, *query, **options):
    """Return the exact lists, and those by the index."""
    return [rank(*query, **options) for rank in (top_k, index.top_k)]


def test_the_recall_that_is_kept_is_that_of_the_lists(index, model, known):
    settled_T, others_T = np.arange(0, USERS, 2), np.arange(1, USERS, 2)
    shares = []
    for some_T in (settled_T, others_T):
        exact, found = both(index, model, some_T, 50, seen=known)
        shares.append(recall(found.items_TK, exact.items_TK))
    assert shares[0] >= module.WANTED_RECALL
    assert index.recall == pytest.approx(shares[1])
    assert index.looked_into <= index.n_lists // 4


def test_what_is_found_has_the_score_and_the_order_of_the_model(index, model, known):
    found = index.top_k(model, np.arange(USERS), 20, seen=known)
    for user in range(USERS):
        items_K = found.items_TK[user].astype(np.int64)
        wanted_K = model.score_pairs(np.full_like(items_K, user), items_K)
        assert_allclose(found.scores_TK[user], wanted_K, rtol=1e-5, atol=1e-5)
        assert (np.diff(found.scores_TK[user]) <= 0).all()
        assert not set(found.items_TK[user].tolist()) & set(known.of(user).tolist())


def test_items_that_the_memory_names_are_found_wherever_their_vectors_lie(index, model, known):
    memory = model.second
    for user in range(10):
        best = top_k(model, np.array([user]), 10, seen=known).items_TK[0]
        rows = memory.weight_II.rows(known.of(user))
        named = set(best.tolist()) & set(rows.column_E.tolist())
        assert named <= set(index.top_k(model, np.array([user]), 10, seen=known).items_TK[0])


def test_looking_into_all_lists_gives_the_exact_lists(model, known):
    whole = ItemIndex.of(model, known)
    whole.looked_into = whole.n_lists
    exact, found = both(whole, model, np.arange(USERS), 10, seen=known)
    assert recall(found.items_TK, exact.items_TK) > 0.999
    same = found.items_TK == exact.items_TK
    assert_allclose(found.scores_TK[same], exact.scores_TK[same], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_blocked_items_are_not_found(index, model, known, share):
    blocked_I = np.random.default_rng(1).random(ITEMS) < share
    exact, found = both(index, model, np.arange(USERS), 10, seen=known, blocked_I=blocked_I)
    assert not blocked_I[found.items_TK].any()
    assert recall(found.items_TK, exact.items_TK) > 0.9


def test_where_few_items_are_allowed_lists_are_exact(index, model, known):
    blocked_I = np.ones(ITEMS, bool)
    blocked_I[np.random.default_rng(2).choice(ITEMS, 90, replace=False)] = False
    exact, found = both(index, model, np.arange(USERS), 95, seen=known, blocked_I=blocked_I)
    assert_allclose(found.scores_TK, exact.scores_TK, rtol=1e-5, atol=1e-5)
    assert (found.items_TK == exact.items_TK).mean() > 0.99


def test_long_lists_and_long_histories_are_exact(index, model, known, monkeypatch):
    monkeypatch.setattr(module, "_MOST_HITS", 30)
    exact, found = both(index, model, np.arange(6), 20, seen=known)
    assert_array_equal(found.items_TK, exact.items_TK)
    more = index.top_k(model, np.arange(2), ITEMS + 5)
    assert_array_equal(more.items_TK, top_k(model, np.arange(2), ITEMS + 5).items_TK)


def test_new_users_are_served_and_other_items_are_not(index, model, known):
    new = NewContexts(History(np.array([0, 3, 5]), np.array([5, 65, 125, 7, 67], np.int32)))
    folded = model.fold_in(new)
    assert index.serves(folded)
    exact, found = both(index, folded, np.arange(2), 10, seen=new.history)
    assert recall(found.items_TK, exact.items_TK) > 0.8
    other, _ = made(1)
    assert not index.serves(other)
    assert not index.serves(model.second)
    assert not can_be_indexed(model.second)
    for one, by in ((other, index), (model, None)):
        assert_array_equal(
            best_items(by, one, np.arange(3), 5, seen=known).items_TK,
            top_k(one, np.arange(3), 5, seen=known).items_TK,
        )


def test_threads_search_at_the_same_time(index, model, known):
    wanted = index.top_k(model, np.arange(USERS), 10, seen=known)

    def ask(user: int) -> bool:
        found = index.top_k(model, np.array([user % USERS]), 10, seen=known)
        return np.array_equal(found.items_TK[0], wanted.items_TK[user % USERS])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(4 * USERS)))


def test_numbers_that_are_not_finite_are_named(index, model, known):
    factors = model.first
    bias_I = factors.bias_I.copy()
    bias_I[17] = np.nan
    with pytest.raises(NumericalError, match="item index 17"):
        ItemIndex.of(replace(factors, bias_I=bias_I), known)
    user_UD = factors.user_UD.copy()
    user_UD[3] = np.nan
    with pytest.raises(NumericalError, match="user index 3"):
        index.top_k(replace(factors, user_UD=user_UD), np.array([2, 3]), 5)


def answering(model: Sum, known: History) -> sdgar.Recommender:
    ids = Ids(np.arange(USERS)), Ids(np.arange(ITEMS) + 1000)
    return sdgar.Recommender(Artifact(model, *ids, known, {"system": "sdsoftmax"}))


def test_a_recommender_is_exact_until_it_is_prepared_for_a_large_catalogue(model, known):
    prepared = answering(model, known)
    exact = prepared.recommend_lists([1, 2, 3], k=10)
    assert prepared.prepare() == {"kind": "exact"}
    assert prepared.index is None
    facts = prepared.prepare(index_from=ITEMS)
    assert facts["kind"] == "faiss"
    assert facts["recall"] > 0.95
    built = prepared.index
    assert prepared.prepare(index_from=ITEMS) == facts
    assert prepared.index is built
    found = prepared.recommend_lists([1, 2, 3], k=10)
    assert recall(found.items_TK, exact.items_TK) > 0.9
    for history in ([1005, 1065], [1007]):
        assert len(prepared.recommend_lists(history=history, k=10).dicts()[0]["items"]) == 10
    assert len(prepared.explain_reasons(1, k=4).items_B) == 4


def test_an_index_that_overlooks_too_much_is_not_used(model, known, monkeypatch):
    monkeypatch.setattr(recommender, "LEAST_RECALL", 1.1)
    prepared = answering(model, known)
    assert prepared.prepare(index_from=1) == {"kind": "exact"}
    assert prepared.index is None


@pytest.mark.filterwarnings("ignore::sdgar.errors.SdgarWarning")
def test_unknown_ids_are_answered_where_there_is_an_index(model, known):
    prepared = answering(model, known)
    prepared.prepare(index_from=1)
    lists = prepared.recommend_lists([1, 100_000], k=5).dicts()
    assert [one["basis"] for one in lists] == ["model", "popular"]
    assert prepared.recommend_lists(history=[1005, 99], k=5).dicts()[0]["basis"] == "model"
    assert prepared.recommend_lists([2], k=5, items=[1000, 99]).dicts()[0]["short"]


def test_every_kind_of_model_can_be_prepared():
    rng = np.random.default_rng(0)
    data = sdgar.Interactions.from_arrays(rng.integers(0, 30, 200), rng.integers(0, 20, 200))
    for system in (sdgar.MostPopular(), sdgar.EASE(), sdgar.ItemKNN(), sdgar.IALS(dim=4)):
        fitted = system.fit(data, verbose=False).recommender_
        assert fitted.prepare(index_from=None) == {"kind": "exact"}
