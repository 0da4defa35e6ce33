"""Metrics agree with an oracle, and with a reference tool wherever that tool has the metric."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from numpy.testing import assert_allclose

from sdgar.errors import UsageError
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


REFERENCE = """
import json, sys, warnings
import ir_measures as ir
import pandas as pd

warnings.simplefilter("ignore")
requested = json.load(sys.stdin)

def frame(rows, value):
    # ranx takes text only as object, which pandas 3 no longer makes by itself.
    texts = {"query_id": object, "doc_id": object}
    return pd.DataFrame(rows, columns=["query_id", "doc_id", value]).astype(texts)

found = ir.iter_calc(
    [ir.parse_measure(name) for name in requested["measures"]],
    frame(requested["qrels"], "relevance"), frame(requested["run"], "score"),
)
json.dump([(str(one.measure), one.query_id, one.value) for one in found], sys.stdout)
"""


def test_all_metrics_agree_with_ir_measures() -> None:
    pytest.importorskip("ir_measures", reason="ir_measures is the reference tool")
    pytest.importorskip("ranx", reason="ranx is what ir_measures computes with on this platform")
    pytest.importorskip("pandas", reason="ir_measures takes its input as frames")
    rng = np.random.default_rng(5)
    n_users, n_items, k_max = 60, 200, 50
    # Few distinct scores, so that most ranks are decided by the rule for ties.
    table = Table(torch.tensor(rng.integers(0, 6, (n_users, n_items)), dtype=torch.float32))
    seen = [set(rng.choice(n_items, 30, replace=False).tolist()) for _ in range(n_users)]
    # Items from 200 on are cold; some users have more positives than any k, some have one.
    positives = {
        user: set(rng.choice(n_items + 20, int(rng.integers(1, 90)), replace=False).tolist())
        for user in range(n_users)
    }
    test, ks = held_out(positives), (1, 5, 10, 50)
    items_TK = top_k(table, test.users_T, k_max, seen=history(seen)).items_TK
    assert (items_TK >= 0).all()
    values = per_user(items_TK, test, ks)
    named = {
        f"{ours}@{k}": f"{theirs}@{k}"
        for k in ks
        for ours, theirs in (
            ("precision", "P"), ("recall", "R"), ("ndcg", "nDCG"), ("map", "AP"), ("hit", "Success")
        )
    } | {f"mrr@{k_max}": "RR"}  # the list ends at k_max, so no cut-off is needed  # fmt: skip
    requested = {
        "measures": list(named.values()),
        "qrels": [(f"u{user}", f"i{item}", 1) for user in positives for item in positives[user]],
        # Such tools break ties by name, so they are given our ranks as strictly falling scores.
        "run": [
            (f"u{user}", f"i{items_TK[t, rank]}", float(k_max - rank))
            for t, user in enumerate(test.users_T.tolist())
            for rank in range(k_max)
        ],
    }
    # ranx would compile each measure for many seconds; as plain Python it needs three for all.
    done = subprocess.run(
        [sys.executable, "-c", REFERENCE],
        input=json.dumps(requested), capture_output=True, text=True, check=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    reference = {(measure, user): value for measure, user, value in json.loads(done.stdout)}
    for name, measure in named.items():
        expected = [reference[measure, f"u{user}"] for user in test.users_T.tolist()]
        assert_allclose(values[name], expected, rtol=1e-12, atol=1e-12, err_msg=name)


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


@pytest.mark.parametrize(
    ("items", "ks", "words"),
    [
        (np.zeros((1, 3), np.int32), [], "at least one list length"),
        (np.zeros((1, 3), np.int32), [0, 2], "at least 1, got 0"),
        (np.zeros((1, 3), np.int32), [4], "k = 4 need lists of that length, got 3"),
        (np.zeros((2, 3), np.int32), [2], "2 lists were given for 1 held-out users"),
    ],
)
def test_lists_that_do_not_fit_are_refused(items: np.ndarray, ks: list[int], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        per_user(items, held_out({0: {1}}), ks)


def test_a_user_without_positives_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="user index 3 has no held-out item"):
        per_user(np.zeros((2, 1), np.int32), held_out({1: {1}, 3: set()}), [1])
