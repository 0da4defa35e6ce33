"""Runs and qrels of TREC, out and in, and lists of other systems measured by the same code."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sdgar
from sdgar.data.trec import read_qrels, read_run, write_qrels, write_run
from sdgar.errors import DataError, UsageError

from ..evaluation.peers import generate


def test_what_is_written_comes_back_in_its_order(tmp_path):
    lists = {"ann": ["c", "a", "b"], "bob": ["a"]}
    assert write_run(lists.items(), tmp_path / "new" / "run.txt") == 4
    assert read_run(tmp_path / "new" / "run.txt") == lists
    assert write_qrels([("ann", 1), ("ann", 2)], tmp_path / "qrels.txt") == 2
    assert read_qrels(tmp_path / "qrels.txt") == {"ann": {"1", "2"}}


def test_a_run_is_ordered_by_score_and_then_by_rank(tmp_path):
    (tmp_path / "r").write_text("u Q0 a 1 0.5 x\nu\tQ0  b 3 2e0 x\n\nu Q0 c 2 2.0 x\r\n")
    assert read_run(tmp_path / "r") == {"u": ["c", "b", "a"]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("u Q0 a 1 0.5\n", "line 1 of .*r has 5 columns, and 6 are needed"),
        ("u Q0 a 1 high x\n", "line 1 of .*r has 'high' as its score"),
        ("u Q0 a x 1 x\n", "'x' as its rank"),
        ("u Q0 a 1 nan x\n", "'nan' as its score"),
        ("u Q0 a 1 2 x\nu Q0 a 2 1 x\n", "item 'a' twice in the list of user 'u'"),
        ("\n", "r has no lines"),
    ],
)
def test_runs_that_cannot_be_read_are_refused(tmp_path, text, words):
    (tmp_path / "r").write_text(text)
    with pytest.raises(DataError, match=words):
        read_run(tmp_path / "r")


def test_qrels_without_a_relevant_item_are_refused(tmp_path):
    (tmp_path / "q").write_text("u 0 a 0\n")
    with pytest.raises(DataError, match="no relevant item"):
        read_qrels(tmp_path / "q")


@pytest.mark.parametrize("id", ["two words", "", "tab\t", "new\nline", "\u00a0"])
def test_ids_that_the_format_cannot_hold_are_refused_and_nothing_is_written(tmp_path, id):
    with pytest.raises(DataError, match="cannot stand in a file of TREC"):
        write_run([("ann", ["a"]), (id, ["b"])], tmp_path / "run.txt")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def model():
    train, test = sdgar.split(sdgar.synthetic("demo"))
    return sdgar.MostPopular().fit(train), train, test


def test_the_run_of_a_model_has_the_metrics_of_the_model(model, tmp_path):
    popular, train, test = model
    metrics = ["ndcg@10", "mrr@5", "recall@10", "coverage@10", "gini@10", "novelty@10", "tail@3"]
    report = popular.evaluate(test, metrics=metrics)
    users = report.frame()["user"].to_list()
    lists = popular.recommender_.recommend_lists(users, k=10).dicts()
    write_run(((one["user"], [e["item"] for e in one["items"]]) for one in lists), tmp_path / "r")
    rows = zip(test.users.at(test.users_E), test.items.at(test.items_E), strict=True)
    write_qrels(((u, i) for u, i in rows if u in set(users)), tmp_path / "q")
    found = sdgar.evaluate_run(tmp_path / "r", tmp_path / "q", metrics=metrics, train=train)
    assert found.means() == report.means()
    assert found.frame().rows() == report.frame().rows()
    assert (
        sdgar.evaluate_run(tmp_path / "r", tmp_path / "q").means()["ndcg@10"]
        == (report.means()["ndcg@10"])
    )


def test_a_foreign_run_has_the_values_of_ir_measures(tmp_path):
    agreed = json.loads(generate.AGREED.read_text())
    data, wanted = agreed["data"], agreed["values"]["ir_measures"]
    write_run(data["lists"].items(), tmp_path / "r")
    write_qrels(((u, i) for u, row in data["held_out"].items() for i in row), tmp_path / "q")
    found = sdgar.evaluate_run(tmp_path / "r", tmp_path / "q", metrics=list(wanted))
    order = [found.frame()["user"].to_list().index(user) for user in data["lists"]]
    for name, values in wanted.items():
        assert found.per_user[name][order] == pytest.approx(values, rel=1e-9, abs=1e-9)


def test_users_without_a_list_are_missed_and_others_left_out(tmp_path):
    (tmp_path / "r").write_text("u Q0 a 1 1 x\nother Q0 a 1 1 x\n")
    (tmp_path / "q").write_text("u 0 a 1\nv 0 a 1\nv 0 b 1\n")
    report = sdgar.evaluate_run(tmp_path / "r", tmp_path / "q", metrics=["recall@1", "coverage@1"])
    assert report.means() == {"recall@1": 0.5, "coverage@1": 0.5}
    assert "1 have no list and count as missed; 1 other lists are left out" in report.definition
    assert np.array_equal(report.per_user["recall@1"], [1.0, 0.0])


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        (["ndcg@2"], "ndcg@2 needs lists of 2 items, and the longest of the run has 1"),
        (["novelty@1"], "needs the histories of users"),
        (["diversity@1"], "there is no table of items"),
    ],
)
def test_metrics_that_a_run_cannot_have_are_refused(tmp_path, metrics, words):
    (tmp_path / "r").write_text("u Q0 a 1 1 x\n")
    (tmp_path / "q").write_text("u 0 a 1\n")
    with pytest.raises(UsageError, match=words):
        sdgar.evaluate_run(tmp_path / "r", tmp_path / "q", metrics=metrics)
