"""Metrics of accuracy agree with an oracle."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given

from sdgar.evaluation import DEFINITIONS, evaluate, per_user
from sdgar.ranking.topk import top_k

from .problems import Problem, Table, held_out, history, oracle_metrics, problems


@given(problem=problems())
def test_every_metric_is_what_its_definition_says(problem: Problem) -> None:
    test = held_out(problem.test)
    ks = sorted({1, (problem.k + 1) // 2, problem.k})
    best = top_k(Table(problem.scores_UI), test.users_T, problem.k, seen=history(problem.seen))
    values = per_user(best.items_TK, test, ks)
    assert list(values) == [f"{name}@{k}" for name in DEFINITIONS for k in ks]
    for t, user in enumerate(test.users_T.tolist()):
        listed = [item for item in best.items_TK[t].tolist() if item >= 0]
        for k in ks:
            for name, expected in oracle_metrics(listed, problem.test[user], k).items():
                assert values[name].dtype == np.float64
                assert values[name][t] == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_a_constant_scorer_is_no_better_than_chance() -> None:
    rng = np.random.default_rng(11)
    n_users, n_items, per = 2000, 500, 5
    test = held_out(
        {u: set(rng.choice(n_items, per, replace=False).tolist()) for u in range(n_users)}
    )
    nothing_seen = history([set()] * n_users)
    report = evaluate(Table(torch.zeros(n_users, n_items)), test, seen=nothing_seen, ks=(50,))
    # Chance recall is k / n_items; five standard errors of the mean of 10,000 draws.
    chance = 50 / n_items
    tolerance = 5 * np.sqrt(chance * (1 - chance) / (n_users * per))
    assert abs(report.means()["recall@50"] - chance) < tolerance
