"""The rules of a split on the command line: several folds, dates, and users who are new."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from .test_cli import refuses, result_of, sdgar

SYSTEMS = ("--systems", "popular,item-knn")


@pytest.fixture(scope="module")
def events(tmp_path_factory) -> Path:
    """Thirty users over thirty days, and a third of them come late."""
    rng = np.random.default_rng(0)
    user = rng.integers(0, 30, 600)
    day = np.where(user < 20, rng.integers(0, 30, 600), rng.integers(20, 30, 600))
    first = datetime.datetime(2024, 3, 1)
    frame = pl.DataFrame(
        {
            "user": [f"u{u}" for u in user],
            "item": rng.integers(0, 25, 600),
            "time": [first + datetime.timedelta(days=int(d)) for d in day],
        }
    ).unique(["user", "item"], keep="first", maintain_order=True)
    path = tmp_path_factory.mktemp("events") / "events.parquet"
    frame.write_parquet(path)
    return path


def test_compare_takes_windows_and_says_how_many_folds_there_are(events):
    done = sdgar("compare", events, *SYSTEMS, "--split", "windows:5d:3")
    assert done.returncode == 0, done.stderr
    for said in (
        "window 3 of 3, from 2024-03-25", "popular fold 2", "3 folds, all values are means",
    ):  # fmt: skip
        assert said in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("next")]
    assert "--split" not in line


def test_compare_reports_who_is_new_and_what_to_do_about_it(events):
    words = ("compare", events, *SYSTEMS, "--split", "date:2024-03-21")
    reported = result_of(sdgar(*words, "--json"))
    counts = reported["counts"]
    assert counts["unknown_users"] == 10
    assert counts["unknown_user_rows"] > counts["rows"] > 0
    assert reported["folds"] == [
        {"how": "by date, from 2024-03-21 00:00:00 on", "counts": counts}
    ]  # fmt: skip
    shown = " ".join(sdgar(*words).stdout.split())
    said = f"{counts['unknown_user_rows']:,} test rows of 10 users that training never saw"
    assert f"{said} are left out, of {counts['unknown_user_rows'] + counts['rows']:,} rows" in shown
    assert "users:0.1 measures new users" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("train", "--out", "run"), "sdgar train measures on one"),
        (("tune", "--trials", 2), "sdgar tune searches with one"),
        (("data", "split", "--out", "out"), "sdgar data split writes one"),
    ],
)
@pytest.mark.parametrize("rule", ["folds:3", "windows:5d:2"])
def test_other_commands_refuse_several_folds_and_name_compare(events, words, said, rule, tmp_path):
    option = "--rule" if words[0] == "data" else "--split"
    said = f"{said}. Measure on all of them with sdgar compare --split {rule}"
    refuses(said, *words, events, option, rule, cwd=tmp_path)
    assert not list(tmp_path.iterdir())


def test_train_measures_new_users_and_refuses_a_system_that_cannot(events, tmp_path):
    out = tmp_path / "run"
    words = ("train", events, "--split", "users:0.2", "--out", out)
    refuses("cannot be folded into models of bpr", *words, "--system", "bpr")
    reported = result_of(sdgar(*words, "--system", "ease", "--keep", "measured", "--json"))
    assert reported["test_counts"]["folded_in"] == reported["test_counts"]["users"] == 6
    assert reported["data"]["users"] == 24
    compared = result_of(
        sdgar("compare", events, "--systems", "ease", "--split", "users:0.2", "--json")
    )
    assert compared["systems"][0]["runs"][0]["metrics"] == reported["test"]
    refuses("models of bpr, sdgar.", "compare", events, "--split", "users:0.2")


def test_a_split_of_users_is_written_and_measured_from_files(events, tmp_path):
    split = sdgar("data", "split", events, "--rule", "users:0.2", "--out", tmp_path, "--json")
    sizes = result_of(split)
    train, test, histories = (
        tmp_path / f"{name}.parquet" for name in ("train", "test", "histories")
    )
    rows = [pl.read_parquet(file).height for file in (train, test, histories)]
    assert rows == [sizes["train"], sizes["test"], sizes["histories"]]
    assert sum(rows) == pl.read_parquet(events).height
    out = tmp_path / "run"
    words = ("--system", "ease", "--out", out)
    assert sdgar("train", train, "--split", "none", *words).returncode == 0
    reported = result_of(sdgar("evaluate", out, "--test", test, "--histories", histories, "--json"))
    assert reported["counts"]["folded_in"] == reported["users"] == 6
    again = ("data", "split", events, "--rule", "paper", "--out", tmp_path)
    assert "histories" not in result_of(sdgar(*again, "--overwrite", "--json"))
    assert not histories.exists()
