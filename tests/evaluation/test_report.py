"""Means, intervals and comparisons say what they claim, and say it twice alike."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from scipy import stats

from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.errors import UsageError
from sdgar.evaluation import Counts, Report, compare, evaluate

from .problems import Table


def report(n_users: int, **per_user: np.ndarray) -> Report:
    counts = Counts(100, n_users, 3 * n_users, 0, 0, 0, 0)
    named = {name.replace("_", "@"): values for name, values in per_user.items()}
    return Report(np.arange(n_users), named, counts)


def test_an_evaluation_counts_what_it_could_not_rank() -> None:
    train = Interactions.from_arrays(["a", "a", "b"], ["x", "y", "x"])
    test = Interactions.from_arrays(["a", "b", "b", "new"], ["cold", "y", "cold", "x"])
    split = HeldOut.of(test, train)
    found = evaluate(Table(torch.zeros(2, 2)), split, seen=train.history, ks=(1, 2))
    of_training = {"unknown_users": 1, "unknown_user_rows": 1, "cold_items": 1, "cold_item_rows": 2}
    assert found.counts == Counts(items=2, users=2, rows=3, **of_training)
    # User a has seen both items and can only miss; user b gets y, one of its two.
    assert_array_equal(found.per_user["recall@2"], [0.0, 0.5])
    assert found.means()["recall@2"] == 0.25
    assert "2 items" in found.definition
    assert "2 users" in found.definition


def test_a_report_survives_json() -> None:
    rng = np.random.default_rng(0)
    found = report(50, ndcg_10=rng.random(50), hit_10=rng.integers(0, 2, 50).astype(float))
    again = json.loads(json.dumps(found.as_dict()))
    assert again["counts"]["users"] == 50
    assert again["definition"] == found.definition
    assert set(again["metrics"]) == {"ndcg@10", "hit@10"}
    assert again["metrics"]["ndcg@10"]["low"] < again["metrics"]["ndcg@10"]["mean"]
    assert again["definitions"]["ndcg"]


def test_the_interval_of_a_normal_mean_is_the_textbook_one() -> None:
    values = np.random.default_rng(1).normal(0.3, 0.2, 5000)
    low, high = report(5000, ndcg_10=values).intervals(resamples=4000)["ndcg@10"]
    half = 1.96 * values.std(ddof=1) / np.sqrt(5000)
    # A 2.5 % quantile of 4,000 resamples is off by about 4 % of the half width; allow 12 %.
    assert low == pytest.approx(values.mean() - half, abs=0.12 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.12 * half)


def test_ninety_five_of_a_hundred_intervals_hold_the_truth() -> None:
    rng = np.random.default_rng(2)
    # 400 independent metrics of mean 1: the count that hold it has standard deviation 4.4.
    values = {f"m{i}_1": rng.exponential(1.0, 300) for i in range(400)}
    intervals = report(300, **values).intervals().values()
    held = sum(low <= 1.0 <= high for low, high in intervals)
    assert 355 <= held <= 397


def test_all_metrics_share_the_resamples_of_a_seed() -> None:
    values = np.random.default_rng(3).random(200)
    found, again = (report(200, a_1=values, b_1=2 * values, c_1=values) for _ in range(2))
    intervals = found.intervals()
    assert intervals == again.intervals() != found.intervals(seed=1)
    assert intervals["a@1"] == intervals["c@1"]
    assert intervals["b@1"] == pytest.approx(tuple(2 * edge for edge in intervals["a@1"]))
    narrow, wide = found.intervals(0.5)["a@1"], found.intervals(0.99)["a@1"]
    assert wide[0] < narrow[0] < found.means()["a@1"] < narrow[1] < wide[1]


@pytest.mark.parametrize(
    "options", [{"level": 0.0}, {"level": 1.0}, {"resamples": 0}, {"seed": -1}]
)
def test_an_interval_that_cannot_be_made_is_refused(options: dict) -> None:
    with pytest.raises(UsageError):
        report(3, ndcg_10=np.ones(3)).intervals(**options)


def test_a_comparison_agrees_with_scipy() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(0.32, 0.2, 400), rng.normal(0.30, 0.2, 400)
    paired = compare(report(400, ndcg_50=a), report(400, ndcg_50=b), "ndcg@50")
    assert paired.difference == pytest.approx((a - b).mean())
    assert paired.relative == pytest.approx((a - b).mean() / b.mean())
    assert paired.low < paired.difference < paired.high
    assert paired.t_p == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-10)
    # With 400 users the two tests agree; 9,999 flips know p = 0.2 to about 0.004.
    assert paired.sign_flip_p == pytest.approx(paired.t_p, abs=0.03)


def test_the_sign_flip_p_is_that_of_all_flips_where_all_can_be_listed() -> None:
    d = np.array([0.5, 0.25, -0.25, 1.0, 0.0, 0.75, 0.5, -0.5, 0.25])
    zero = np.zeros(9)
    signs = np.array(list(itertools.product([-1, 1], repeat=9)))
    exact = np.mean(np.abs(signs @ d) >= abs(d.sum()) - 1e-9)
    paired = compare(report(9, hit_1=d), report(9, hit_1=zero), "hit@1")
    # Four standard errors of a share estimated from 9,999 flips.
    assert paired.sign_flip_p == pytest.approx(exact, abs=4 * np.sqrt(exact / 9_999))
    assert paired.relative is None


def test_a_model_does_not_differ_from_itself() -> None:
    found = report(20, ndcg_50=np.random.default_rng(6).random(20))
    paired = compare(found, found, "ndcg@50")
    assert (paired.difference, paired.low, paired.high) == (0.0, 0.0, 0.0)
    assert paired.t_p == paired.sign_flip_p == 1.0
    assert json.dumps(paired.as_dict())


def test_a_constant_gain_is_as_certain_as_a_test_can_say() -> None:
    paired = compare(report(20, hit_1=np.ones(20)), report(20, hit_1=np.zeros(20)), "hit@1")
    assert paired.t_p == 0.0
    assert paired.sign_flip_p < 0.001


def test_reports_about_other_users_cannot_be_paired() -> None:
    a = report(3, hit_1=np.ones(3))
    more, fewer_rows = report(4, hit_1=np.ones(4)), replace(a.counts, rows=1)
    for b in (more, replace(a, users_T=a.users_T + 1), replace(a, counts=fewer_rows)):
        with pytest.raises(UsageError, match="not about the same held-out data"):
            compare(a, b, "hit@1")
    with pytest.raises(UsageError, match=r"Did you mean 'hit@1'\?"):
        compare(a, a, "hti@1")
