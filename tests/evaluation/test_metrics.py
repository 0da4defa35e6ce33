"""Metrics of accuracy agree with an oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from sdgar.evaluation import DEFINITIONS, per_user
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
