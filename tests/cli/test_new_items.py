"""New items on the command line: trained with features, added by events, measured and marked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sdgar.recommend.recommender import load

from .test_cli import refuses, result_of, sdgar


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """Users who like one of three genres, films with a genre, and five films without events."""
    folder = tmp_path_factory.mktemp("films")
    rng = np.random.default_rng(0)
    pairs = [(u, i) for u in range(60) for i in range(60) if u % 3 == i % 3 and rng.random() < 0.5]
    users, items = zip(*pairs, strict=True)
    pl.DataFrame({"user": users, "item": items}).write_csv(folder / "events.csv")
    ids = [*range(60), *range(900, 905)]
    genres = [["war", "noir", "love"][i % 3] for i in ids]
    films = {"item": ids, "genre": genres, "title": [f"A film of {g}" for g in genres]}
    pl.DataFrame(films).write_csv(folder / "films.csv")
    return folder


@pytest.fixture(scope="module")
def run(world) -> Path:
    out = world / "run"
    words = ("train", world / "events.csv", "--system", "ials", "--set", "dim=8", "--out", out)
    result_of(sdgar(*words, "--json"))
    return out


def test_training_with_features_measures_cold_items_and_marks_them(world):
    out = world / "cold"
    done = sdgar(
        "train", world / "events.csv", "--system", "ials", "--set", "dim=8", "--split", "items:0.2",
        "--item-features", world / "films.csv", "--feature-kinds", "title=text", "--keep",
        "measured", "--k", 20, "--out", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "12 whole items, seed 0; of each user's other rows 20% at random" in done.stdout
    assert "for 60 of 60 items, and for 5 without events" in done.stdout
    assert "among 17 cold items alone: ndcg@20" in done.stdout
    model = load(out)
    warm = int(np.setdiff1d(model.items.values, model.cold_items)[0])
    words = ("recommend", out, "--user", 0, "--allow", 900, "--allow", warm, "--include-seen")
    items = result_of(sdgar(*words, "--json"))["recommendations"][0]["items"]
    assert {one["item"]: one["cold"] for one in items} == {900: True, warm: False}
    assert "by features" in sdgar(*words).stdout
    test = world / "test.csv"
    pl.DataFrame({"user": [0, 1], "item": [900, 904]}).write_csv(test)
    reported = result_of(sdgar("evaluate", out, "--test", test, "--k", 10, "--json"))
    assert reported["among_cold"]["items"] == 17
    assert reported["among_cold"]["rows"] == 2
    # Fewer than ten of them are of the genre of a user, and these come first.
    assert reported["among_cold"]["test"]["hit@10"] == 1
    words = ("evaluate", out, "--test", test, "--metrics")
    reported = result_of(sdgar(*words, "hit@10,coverage@10", "--by", "activity", "--json"))
    assert reported["among_cold"]["test"] == {"hit@10": 1}
    assert set(reported["test"]) == {"hit@10", "coverage@10"}
    assert sum(one["users"] for one in reported["by"]["activity"].values()) == 2
    assert "cold items alone: hit@10 1.0000" in sdgar(*words, "hit@10,coverage@10").stdout
    assert "among_cold" not in result_of(sdgar(*words, "coverage@10", "--json"))


def test_a_comparison_has_a_column_of_cold_items(world):
    words = (
        "compare", world / "events.csv", "--systems", "popular,ials,ease", "--split", "items:0.2",
        "--item-features", world / "films.csv", "--feature-kinds", "title=text", "--k", 10,
    )  # fmt: skip
    reported = sdgar(*words, "--json")
    assert reported.returncode == 2  # as EASE makes nothing of features
    found = json.loads(reported.stdout.splitlines()[-1])
    cold = {one["system"]: one["metrics"]["ndcg@10 among cold"]["mean"] for one in found["systems"]}
    assert cold["ials"] > cold["popular"] + 0.2
    assert [one["code"] for one in found["failed"]] == ["unused_features"]
    latex = world / "table.tex"
    named = sdgar(*words, "--metrics", "ndcg@10,coverage@10", "--latex", latex)
    assert "ndcg@10 among cold" in named.stdout
    head, ials, popular, failed = (
        [cell.strip() for cell in line.removesuffix(r" \\").split(" & ")]
        for line in latex.read_text().splitlines()
        if " & " in line
    )
    assert head[-2:] == ["ndcg@10 among cold", "coverage@10"]
    assert ials[-2].startswith(rf"\textbf{{{cold['ials']:.4f}}}")
    assert popular[-2] == f"{cold['popular']:.4f}"
    assert failed == ["ease", "failed", *[""] * 5]


def test_items_are_added_by_events_by_features_and_by_both(world, run):
    events = world / "new.csv"
    pl.DataFrame({"user": [0, 3, 6, 1], "item": [900, 900, 900, 77]}).write_csv(events)
    out = world / "added"
    words = ("add-items", run, "--out", out, "--json")
    by_events = result_of(sdgar(*words, "--events", events))
    assert (by_events["added"], by_events["cold"]) == (2, 0)
    both = sdgar(*words, "--events", events, "--item-features", world / "films.csv", "--overwrite")
    reported = result_of(both)
    assert (reported["added"], reported["with_events"], reported["cold"]) == (6, 2, 4)
    assert reported["about"]["by_events"] == 2
    again = ("add-items", out, "--events", events, "--out", world / "again")
    refuses("2 items are in the model already", *again)
    assert not (world / "again").exists()
    refuses("--overwrite", "add-items", run, "--events", events, "--out", out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say --events FILE, --item-features TABLE, or both"),
        (("--feature-kinds", "title=text"), "say --events FILE"),
        (("--item-features", "films.csv", "--feature-kinds", "title"), "COLUMN=KIND"),
        (("--item-features", "films.csv", "--feature-kinds", "tittle=text"), "mean 'title'"),
    ],
)
def test_a_call_that_adds_nothing_says_why(world, run, words, said):
    refuses(said, "add-items", run, "--out", world / "nothing", *words, cwd=world)
    assert not (world / "nothing").exists()


def test_systems_without_vectors_refuse_features_before_data_is_read(world):
    words = ("--system", "ease", "--item-features", world / "films.csv", "--out", world / "none")
    refuses("system ease looks at no features", "train", world / "absent.csv", *words)
