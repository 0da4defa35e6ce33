"""Proposals near the best item of a context, by search."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from sdgar.data.interactions import Interactions
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.errors import ResourceError, UsageError
from sdgar.samplers.nearest_items import INDEXES, NearestItems
from sdgar.samplers.static import PairLookup

from ..positives import positives_of

CPU = torch.device("cpu")


def problem(users: int = 40, items: int = 600) -> tuple[Interactions, MatrixFactorization]:
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, (users, items), (users * 8, 2))
    everyone = np.stack((np.arange(users), rng.integers(0, items, users)), axis=1)
    everything = np.stack((np.arange(items) % users, np.arange(items)), axis=1)
    data = Interactions.from_arrays(*np.concatenate((pairs, everyone, everything)).T)
    model = MatrixFactorization(data.n_users, data.n_items, 8, seed=0, init_scale=3.0)
    with torch.no_grad():
        model.bias_I += 0.3 * torch.sin(torch.arange(data.n_items))
    return data, model


def made(data: Interactions, model: MatrixFactorization, **settings) -> NearestItems:
    sampler = NearestItems(model, data.history, **({"index": "exact", "near": 10} | settings))
    sampler.refit(model.score, seed=0, epoch=1)
    return sampler


def expected(data: Interactions, model: MatrixFactorization, user: int, m: int) -> list[int]:
    """The m best unknown items by sorting all scores in Python."""
    scores = model.score_all(torch.tensor([user]))[0].tolist()
    known = set(data.history.of(user).tolist())
    return sorted((i for i in range(len(scores)) if i not in known), key=lambda i: -scores[i])[:m]


def test_the_exact_search_finds_the_best_unknown_items_in_order():
    data, model = problem()
    sampler = made(data, model)
    for user in range(data.n_users):
        assert sampler.best_UM[user].tolist() == expected(data, model, user, 10)


@pytest.mark.parametrize(("index", "least"), [("hnsw", 0.95), ("pq", 0.3)])
def test_an_index_finds_most_of_them_and_says_how_many(index, least):
    pytest.importorskip("faiss")
    data, model = problem()
    sampler = NearestItems(model, data.history, index=index, near=10)
    recall = sampler.refit(model.score, seed=0, epoch=1).numbers["recall"]
    found = sampler.best_UM.tolist()
    hits = sum(len({*found[u]} & {*expected(data, model, u, 10)}) for u in range(data.n_users))
    assert recall == pytest.approx(hits / (10 * data.n_users))
    assert recall >= least
    known = PairLookup(data.history, data.n_items, CPU)
    users_UM = torch.arange(data.n_users)[:, None].expand(-1, 10)
    assert not known.contains(users_UM, sampler.best_UM.long()).any()


def test_draws_follow_q_by_enumeration():
    data, model = problem()
    sampler = made(data, model, explore=0.25)
    n = 60_000
    item_1 = torch.tensor([int(data.history.of(3)[0])])
    drawn = sampler.sample(positives_of(data, torch.tensor([3]), item_1, score=model.score), n)
    best = expected(data, model, 3, 10)
    unknown = data.n_items - len(data.history.of(3))
    counts = np.bincount(drawn.items_BN[0], minlength=data.n_items)
    near = 0.75 / 10 + 0.25 / unknown
    # Binomial, five standard deviations.
    for item in best:
        assert abs(counts[item] - n * near) < 5 * (n * near) ** 0.5
    assert counts[data.history.of(3)].sum() == 0
    assert abs(counts.sum() - counts[best].sum() - n * 0.25 * (unknown - 10) / unknown) < 5 * n**0.5
    q_N = drawn.log_q_BN[0].exp()
    is_best_N = torch.isin(drawn.items_BN[0], torch.tensor(best))
    torch.testing.assert_close(q_N, torch.where(is_best_N, near, 0.25 / unknown), rtol=1e-5, atol=0)


def test_without_exploring_there_is_no_log_q_and_before_a_search_draws_are_uniform():
    data, model = problem()
    positives = positives_of(data, torch.tensor([0, 1]), score=model.score)
    drawn = made(data, model, explore=0.0).sample(positives, 50)
    assert drawn.log_q_BN is None
    for user in (0, 1):
        assert {*drawn.items_BN[user].tolist()} <= {*expected(data, model, user, 10)}
    fresh = NearestItems(model, data.history, index="exact", near=10, explore=0.5)
    drawn = fresh.sample(positives, 50)
    for user in (0, 1):
        q = 1 / (data.n_items - len(data.history.of(user)))
        assert drawn.log_q_BN[user].exp().tolist() == pytest.approx([q] * 50)


def test_a_context_with_too_few_unknown_items_gets_all_of_them():
    data = Interactions.from_arrays([0, 0, 0, 1], [0, 1, 2, 3])
    model = MatrixFactorization(2, 4, 2, seed=0)
    sampler = made(data, model, near=3)
    assert sampler.best_UM[0].tolist() == [3, -1, -1]
    assert sorted(sampler.best_UM[1].tolist()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"index": "hash"}, "hash"), ({"near": 0}, "near"), ({"explore": 1.5}, r"1\.5")],
)
def test_bad_settings_are_named(settings, message):
    data, model = problem()
    with pytest.raises(UsageError, match=message):
        NearestItems(model, data.history, **settings)


def test_without_faiss_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ResourceError, match=r"sdgar\[ann\]"):
        INDEXES["hnsw"](np.zeros((4, 2), np.float32))
