"""Metrics, groups, values of users, files of TREC and tables of papers, on the command line."""

from __future__ import annotations

import polars as pl
import pytest

import sdgar as library
from sdgar.data.tables import events
from sdgar.lab.files import escaped

from .test_cli import refuses, result_of, sdgar


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("metrics")
    rows = [(f"u{u}", i, 60 * i) for u in range(20) for i in range(15) if (u + i) % 5]
    users, items, times = zip(*rows, strict=True)
    data = library.Interactions.from_arrays(
        users, items, time=[(1_600_000_000 + t) * 1_000_000 for t in times]
    )
    parts = library.split(data, "paper")
    for name, part in (("train", parts.train), ("test", parts.held_out)):
        events(part).write_parquet(home / f"{name}.parquet")
    library.IALS(dim=2).fit(parts.train).save(home / "run")
    genres = ["a|b", "b", "c"]
    pl.DataFrame({"item": range(15), "genres": [genres[i % 3] for i in range(15)]}).write_csv(
        home / "items.csv"
    )
    pl.DataFrame({"user": [f"u{u}" for u in range(20)], "team": ["x", "y"] * 10}).write_csv(
        home / "users.csv"
    )
    return home


def reported(*words: object) -> dict:
    return result_of(sdgar(*words, "--json"))


def test_evaluate_measures_what_is_named_and_groups_and_writes_it(folder):
    saved = ("evaluate", folder / "run", "--test", folder / "test.parquet")
    found = reported(
        *saved, "--train", folder / "train.parquet", "--k", "2,3",
        "--metrics", "ndcg,coverage@2,diversity@3", "--metrics", "calibration:genres@3,new_hit@3",
        "--item-facts", folder / "items.csv", "--user-facts", folder / "users.csv",
        "--by", "team,genres", "--by", "activity", "--per-user", folder / "users.parquet",
        "--write-run", folder / "run.txt", "--write-qrels", folder / "qrels.txt",
    )  # fmt: skip
    assert set(found["test"]) == set(found["most_popular"]) == {
        "ndcg@2", "ndcg@3", "coverage@2", "diversity@3", "calibration:genres@3", "new_hit@3"
    }  # fmt: skip
    assert "coverage@2" not in found["intervals"]
    assert list(found["by"]) == ["team", "genres", "activity"]
    assert sum(group["users"] for group in found["by"]["team"].values()) == found["users"]
    assert list(found["by"]["genres"]) == ["a", "b", "c"]
    model = library.load(folder / "run")
    train, test = (library.read(folder / f"{name}.parquet") for name in ("train", "test"))
    facts = library.read_facts(folder / "items.csv")
    wanted = model.evaluate(test, seen=train, metrics=list(found["test"]), facts=facts)
    assert found["test"] == wanted.means()
    frame = pl.read_parquet(folder / "users.parquet")
    assert frame.rows() == wanted.frame().rows()
    again = reported(
        "evaluate", "--run", folder / "run.txt", "--qrels", folder / "qrels.txt", "--metrics",
        "ndcg@3,coverage@2", "--train", folder / "train.parquet", "--by", "popularity",
    )  # fmt: skip
    assert again["test"] == {name: found["test"][name] for name in ("ndcg@3", "coverage@2")}
    assert "popularity" in again["by"]
    refuses("users.parquet exists", *saved, "--per-user", folder / "users.parquet")


def test_evaluate_says_in_words_what_each_metric_means(folder):
    done = sdgar(
        "evaluate", folder / "run", "--test", folder / "test.parquet", "--metrics",
        "gini@3,hit@3", "--by", "activity", "--explain-metrics",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "gini@k: how unevenly lists show items" in words
    assert "hit@k: 1 if any held-out item" in words
    assert "ndcg@k" not in words
    assert "hit@3" in words


def test_recommend_writes_a_run(folder):
    done = sdgar("recommend", folder / "run", "--all", "-k", "2", "--trec", folder / "lists.txt")
    assert done.returncode == 0, done.stderr
    lines = (folder / "lists.txt").read_text().splitlines()
    first = library.load(folder / "run").recommend(["u0"], k=2)["item"].to_list()
    assert lines[:2] == [f"u0 Q0 {item} {rank} -{rank} sdgar" for rank, item in enumerate(first, 1)]
    assert len(lines) == 40


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "--test", "test.parquet", "--metrics", "ndgc@5"), "Did you mean 'ndcg'?"),
        (("run", "--test", "test.parquet", "--user-facts", "users.csv"), "goes with --by COLUMN"),
        (("run", "--test", "test.parquet", "--by", "shoe"), "no column 'shoe' to group by"),
        (("run", "--test", "test.parquet", "--metrics", "new_hit@2"), "which items are new"),
        (("run", "--test", "test.parquet", "--metrics", "calibration@2"), "no table of items"),
        (("run",), "sdgar evaluate RUN --test FILE"),
        (("--test", "test.parquet"), "sdgar evaluate RUN --test FILE"),
        (("--run", "run.txt"), "--run and --qrels go together"),
        (("run", "--run", "r", "--qrels", "q"), "RUN is about a model"),
        (("--run", "r", "--qrels", "q", "--write-run", "x"), "--write-run is about a model"),
    ],
)
def test_options_that_cannot_work_are_refused(folder, words, said):
    refuses(said, "evaluate", *words, cwd=folder)


def test_compare_shows_the_named_metrics_and_writes_tables(folder):
    words = (
        "compare", folder / "train.parquet", "--test", folder / "test.parquet", "--systems",
        "popular,ease", "--seeds", "1",
    )  # fmt: skip
    found = reported(
        *words, "--metrics", "coverage@2,ndcg@3,gini@3,diversity@3,popularity@3", "--item-facts",
        folder / "items.csv", "--latex", folder / "tables" / "t.tex", "--csv", folder / "t.csv",
    )  # fmt: skip
    assert found["metric"] == "ndcg@3"
    names = ["ndcg@3", "coverage@2", "gini@3", "diversity:category@3", "popularity@3"]
    assert [set(row["metrics"]) for row in found["systems"]] == [set(names)] * 2
    table = pl.read_csv(folder / "t.csv")
    values = {row["system"]: row["metrics"] for row in found["systems"]}
    for row in table.rows(named=True):
        assert {name: row[name] for name in names} == {
            name: pytest.approx(values[row["system"]][name]["mean"]) for name in names
        }
    lines = (folder / "tables" / "t.tex").read_text().splitlines()
    rows = [line.removesuffix(" \\\\").split(" & ") for line in lines if line.endswith("\\\\")]
    assert rows[0] == ["system", "ndcg@3", "95\\,\\% interval", f"vs {found['against']}",
                       "$p$ of these runs", *names[1:]]  # fmt: skip
    assert [len(row) for row in rows] == [len(rows[0])] * 3
    for place, (name, better) in enumerate(
        [("coverage@2", max), ("gini@3", min), ("diversity:category@3", max)], 5
    ):
        best = better(one[name]["mean"] for one in values.values())
        for row in rows[1:]:
            mean = values[row[0]][name]["mean"]
            assert row[place] == (f"\\textbf{{{mean:.4f}}}" if mean == best else f"{mean:.4f}")
    assert not any("textbf" in row[-1] for row in rows)  # popular is neither good nor bad
    low, high = found["systems"][0]["interval"]
    assert rows[1][2] == f"[{low:.4f}, {high:.4f}]"
    refuses("could not be compared", *words, "--metrics", "diversity@3")
    refuses("--item-facts goes with a metric", *words, "--item-facts", folder / "items.csv")


def test_a_comparison_goes_on_only_with_the_same_metrics(folder, tmp_path):
    words = (
        "compare", folder / "train.parquet", "--test", folder / "test.parquet", "--systems",
        "popular", "--seeds", "1", "--out", tmp_path / "out",
    )  # fmt: skip
    assert set(reported(*words, "--metrics", "hit@3")["systems"][0]["metrics"]) == {"hit@3"}
    done = sdgar(*words, "--metrics", "hit@2")
    assert done.returncode != 0
    assert "metrics" in done.stderr


def test_latex_gets_texts_that_it_can_set():
    assert escaped("a_b & 50 % ± 1 < {x}") == r"a\_b \& 50 \% $\pm$ 1 $<$ \{x\}"
