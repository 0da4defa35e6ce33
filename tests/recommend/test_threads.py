"""One recommender for many threads: each gets what it would get alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import sdgar
from sdgar.data.interactions import Interactions
from sdgar.ranking import blocks
from sdgar.ranking.topk import top_k
from sdgar.systems.names import SYSTEMS

THREADS = 8


@pytest.fixture(scope="module")
def data() -> Interactions:
    rng = np.random.default_rng(1)
    return Interactions.from_arrays(rng.integers(0, 400, 4000), rng.integers(0, 60, 4000))


QUESTIONS: list[Callable[[sdgar.Recommender], list[Any]]] = [
    lambda model: model.recommend_lists([5, 6, 7], k=5).dicts(),
    lambda model: model.recommend_lists(k=5).dicts(),
    lambda model: model.recommend_lists([5, 100_000], k=5, items=[1, 2, 3]).dicts(),
    lambda model: model.recommend_lists(history=[1, 2, 3], k=5).dicts(),
    lambda model: model.similar_lists("item", [1, 2], k=5).dicts(),
]


@pytest.mark.filterwarnings("ignore::sdgar.errors.SdgarWarning")
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("item-knn", {}),
        ("ials", {"dim": 8}),
        ("sdsoftmax", {"dim": 8, "sampler__states": 4, "epochs": 2, "early_stopping": False}),
    ],
)
def test_many_threads_get_the_answers_that_one_gets(data, name, settings, tmp_path):
    folder = SYSTEMS[name](**settings).fit(data, verbose=False).save(tmp_path / "model")
    alone = sdgar.load(folder)
    wanted = [ask(alone) for ask in QUESTIONS]
    shared, start = sdgar.load(folder), Barrier(THREADS)  # nothing is built yet

    def ask_all(first: int) -> list[list[Any]]:
        start.wait()
        order = [(first + n) % len(QUESTIONS) for n in range(3 * len(QUESTIONS))]
        return [[at, QUESTIONS[at](shared)] for at in order]

    with ThreadPoolExecutor(THREADS) as pool:
        answers = [answer for found in pool.map(ask_all, range(THREADS)) for answer in found]
    assert len(answers) == THREADS * 3 * len(QUESTIONS)
    for at, answer in answers:
        assert answer == wanted[at]


def test_threads_that_rank_are_started_once_and_not_handed_to_a_forked_process(data, monkeypatch):
    monkeypatch.setattr("sdgar.machine.cores.threads", lambda: 3)
    monkeypatch.setattr("sdgar.machine.cores.threads_now", lambda most: most)
    model = sdgar.IALS(dim=8).fit(data, verbose=False).recommender_.model
    users_T = np.arange(data.n_users)
    first = top_k(model, users_T, 5)
    pool = blocks.pool(2)
    assert np.array_equal(top_k(model, users_T, 5).items_TK, first.items_TK)
    assert blocks.pool(2) is pool
    assert len(pool._threads) == 2
    child = os.fork()
    if child == 0:
        same = blocks.pool(2) is not pool
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
