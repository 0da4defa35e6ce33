"""A comparison trains every system alike, tests over users, and loses nothing when it is broken."""

from __future__ import annotations

import json
from dataclasses import replace
from signal import SIGTERM

import numpy as np
import polars as pl
import pytest
from scipy.stats import ttest_rel

import sdgar
from sdgar.errors import ArtifactError, DataError, ResourceError, StoppedError, UsageError
from sdgar.lab.compare import compare, pieces
from sdgar.lab.conditions import Candidate, Conditions
from sdgar.lab.files import comparison_figure, save
from sdgar.lab.tune import tune
from sdgar.storage.sealed import DamagedError
from sdgar.systems.bpr import BPR
from sdgar.systems.defaults import Choice
from sdgar.systems.recipe import SystemSpec, recipe_of
from sdgar.systems.sdgar import SA
from sdgar.systems.solver import MostPopular
from sdgar.training.fitting import Fit

from .conftest import QUICK, Listening

METRIC = "ndcg@20"


@pytest.fixture(scope="module")
def conditions(parts) -> Conditions:
    return Conditions(folds=(parts,), ks=(5, 20), seeds=(0, 1))


def candidates() -> list[Candidate]:
    return [Candidate(MostPopular()), Candidate(BPR(**QUICK)), Candidate(SA(**QUICK))]


@pytest.fixture(scope="module")
def unbroken(conditions):
    return compare(candidates(), conditions)


def timeless(value):
    """Without seconds, which no two runs share."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k != "seconds"}
    return [timeless(v) for v in value] if isinstance(value, list) else value


def by_name(comparison):
    return {standing.system: standing for standing in comparison.standings}


def test_each_run_is_what_the_estimator_gives_by_itself(unbroken, conditions):
    rows = by_name(unbroken)
    assert [len(rows[name].runs) for name in ("popular", "bpr", "sa")] == [1, 2, 2]
    for seed in (0, 1):
        alone = (
            BPR(**QUICK, seed=seed)
            .fit(conditions.folds[0].train)
            .evaluate(conditions.folds[0].held_out, ks=(5, 20))
        )
        assert rows["bpr"].runs[seed].metrics == alone.means()
        assert rows["bpr"].runs[seed].per_user == alone.per_user[METRIC].tolist()
    values = [run.metrics[METRIC] for run in rows["bpr"].runs]
    assert rows["bpr"].means[METRIC] == pytest.approx(np.mean(values), rel=1e-12)
    assert rows["bpr"].sds[METRIC] == pytest.approx(np.std(values, ddof=1), rel=1e-12)
    assert rows["popular"].sds is None


def test_the_table_is_sorted_and_the_test_pairs_users_over_the_mean_of_the_seeds(unbroken):
    means = [standing.means[METRIC] for standing in unbroken.standings]
    assert means == sorted(means, reverse=True)
    best, *others = unbroken.standings
    assert (unbroken.against, best.versus) == (best.system, None)
    for row in others:
        a, b = (np.mean([run.per_user for run in s.runs], axis=0) for s in (row, best))
        assert row.versus.difference == pytest.approx((a - b).mean(), rel=1e-12)
        assert row.versus.t_p == pytest.approx(ttest_rel(a, b).pvalue, rel=1e-9)
        assert row.low <= row.means[METRIC] <= row.high


def test_others_can_be_held_against_a_named_system(unbroken, conditions):
    found = compare(candidates()[:2], conditions, against="popular")
    row = by_name(found)["bpr"]
    assert by_name(found)["popular"].versus is None
    assert row.versus.difference == pytest.approx(
        row.means[METRIC] - by_name(found)["popular"].means[METRIC], rel=1e-12
    )
    with pytest.raises(UsageError, match="Did you mean 'popular'"):
        compare(candidates(), conditions, against="populr")


@pytest.mark.parametrize("finished", [1, 2, 4])
def test_an_interrupted_comparison_goes_on_to_the_same_table(
    finished, unbroken, conditions, tmp_path
):
    with pytest.raises(KeyboardInterrupt):
        compare(candidates(), conditions, out=tmp_path, watch=Listening(crash_after=finished))
    results = tmp_path / "results.jsonl"
    results.write_bytes(results.read_bytes() + b'{"format": "sdgar-re')  # killed while writing
    watch = Listening()
    found = compare(candidates(), conditions, out=tmp_path, watch=watch)
    assert len(watch.begun) == 5 - finished
    assert watch.ended == ["before"] * finished + ["run"] * (5 - finished)
    assert timeless(found.as_dict()) == timeless(unbroken.as_dict())
    assert len(results.read_text().splitlines()) == 5
    more = Listening()
    compare(candidates(), replace(conditions, seeds=(0, 1, 2)), out=tmp_path, watch=more)
    assert more.begun == ["bpr seed 2", "sa seed 2"]


def test_what_was_made_with_other_data_or_settings_is_refused_by_name(conditions, tmp_path):
    bpr = [Candidate(BPR(**QUICK))]
    compare(bpr, conditions, out=tmp_path)
    before = (tmp_path / "results.jsonl").read_bytes()
    other = [Candidate(SA(**QUICK)), Candidate(BPR(**QUICK | {"dim": 5}))]
    watch = Listening()
    with pytest.raises(ArtifactError, match=r"dim was 4, is now 5.*--overwrite"):
        compare(other, conditions, out=tmp_path, watch=watch)
    fold = conditions.folds[0]
    with pytest.raises(ArtifactError, match="test data was"):
        compare(
            bpr,
            replace(conditions, folds=(replace(fold, held_out=fold.train),)),
            out=tmp_path,
            watch=watch,
        )
    assert (watch.begun, (tmp_path / "results.jsonl").read_bytes()) == ([], before)
    compare(other, conditions, out=tmp_path, watch=watch, overwrite=True)
    assert len(watch.begun) == 4
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 4


@pytest.mark.parametrize("line", ["{}", '{"format": "sdgar-result 9"}', "[]", "no"])
def test_results_that_are_damaged_or_foreign_are_left_alone(line, conditions, tmp_path):
    results = tmp_path / "results.jsonl"
    results.write_text(line + "\n")
    with pytest.raises((DamagedError, UsageError)):
        compare(candidates()[:1], conditions, out=tmp_path)
    assert results.read_text() == line + "\n"


def test_a_folder_of_other_things_is_not_used(conditions, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="not a comparison"):
        compare(candidates()[:1], conditions, out=tmp_path, overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def greedy(error: BaseException) -> MostPopular:
    class Greedy(MostPopular):
        _spec = SystemSpec(name="ease")

        def _fit(self, how):
            raise error

    return Greedy()


@pytest.mark.parametrize(
    ("error", "code", "exit_code", "said"),
    [
        (ResourceError("it needs 9 GiB.", code="too_large"), "too_large", 5, "9 GiB"),
        (DataError("all users have all items.", code="no_negatives"), "no_negatives", 3, "all"),
        (MemoryError(), "out_of_memory", 5, "not enough memory"),
    ],
)
def test_a_system_that_fails_is_a_row_and_the_others_are_there(
    error, code, exit_code, said, conditions, tmp_path, search_only
):
    search_only(sdgar.EASE)
    taking_part = [Candidate(greedy(error)), *candidates()[:2]]
    found = compare(taking_part, conditions, out=tmp_path)
    assert set(by_name(found)) == {"popular", "bpr"}
    (failure,) = found.failures
    assert (failure.system, failure.code, failure.exit_code) == ("ease", code, exit_code)
    assert said in failure.message
    save(found, tmp_path)
    assert said in (tmp_path / "compare.md").read_text()
    watch = Listening()
    compare(taking_part, conditions, out=tmp_path, watch=watch)
    assert watch.begun == ["ease"]  # tried again: there may be more memory now


def test_a_bug_is_not_hidden_in_the_table(conditions, search_only):
    search_only(sdgar.EASE)
    with pytest.raises(ZeroDivisionError):
        compare([Candidate(greedy(ZeroDivisionError()))], conditions)


def test_if_all_fail_there_is_no_best(conditions, tmp_path, search_only):
    search_only(sdgar.EASE)
    found = compare([Candidate(greedy(MemoryError()))], conditions, out=tmp_path)
    assert (found.standings, found.against) == ((), None)
    assert "no system finished" in save(found, tmp_path)


def test_settings_are_searched_on_validation_rows_with_the_first_seed(
    conditions, tmp_path, search_only
):
    rates = Choice((1e-6, 2e-6, 3e-6, 0.1))
    search_only(BPR, learning_rate=rates)
    taking_part = [Candidate(BPR(**QUICK, learning_rate=1e-6)), Candidate(MostPopular())]
    conditions = replace(conditions, seeds=(3, 1))
    tuned = replace(conditions, trials=5)
    assert pieces(taking_part, tuned) == 5 + 2 + 1
    with pytest.raises(KeyboardInterrupt):  # after four trials, which are all there are, and a run
        compare(taking_part, tuned, out=tmp_path, watch=Listening(crash_after=5))
    watch = Listening()
    found = compare(taking_part, tuned, out=tmp_path, watch=watch)
    assert watch.begun == ["bpr seed 1", "popular"]
    row = by_name(found)["bpr"]
    alone = tune(
        BPR(**QUICK, learning_rate=1e-6, seed=3), conditions.folds[0].train, trials=5, seed=3
    )
    assert [(t.settings, t.value) for t in row.tuned.trials] == [
        (t.settings, t.value) for t in alone.trials
    ]
    assert {run.settings["learning_rate"] for run in row.runs} == {0.1}
    own = {k: v for k, v in QUICK.items() if k != "engine"}
    assert row.chosen == own | {"learning_rate": 0.1}
    model = BPR(**QUICK, learning_rate=0.1, seed=1).fit(conditions.folds[0].train)
    assert row.runs[1].metrics == model.evaluate(conditions.folds[0].held_out, ks=(5, 20)).means()
    with pytest.raises(ArtifactError, match=r"learning_rate was 0\.1, is now 1e-06"):
        compare(taking_part, conditions, out=tmp_path)


def test_runs_with_settings_that_a_longer_search_has_changed_are_refused(
    conditions, tmp_path, search_only
):
    search_only(BPR, learning_rate=Choice((1e-6, 0.1)))
    taking_part = [Candidate(BPR(**QUICK, learning_rate=1e-6))]
    compare(taking_part, replace(conditions, trials=1), out=tmp_path)
    with pytest.raises(ArtifactError, match=r"learning_rate was 1e-06, is now 0\.1"):
        compare(taking_part, replace(conditions, trials=2), out=tmp_path)


def test_a_signal_ends_the_comparison_and_keeps_what_is_finished(conditions, tmp_path):
    watch = Listening()
    with pytest.raises(StoppedError, match="the same command resumes") as stopped:
        compare(
            candidates(), conditions, out=tmp_path, watch=watch,
            stop=lambda: SIGTERM if "bpr seed 1" in watch.begun else None,
        )  # fmt: skip
    assert stopped.value.exit_code == 143
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2


def test_everything_is_written_whole_and_says_the_same(unbroken, tmp_path):
    assert save(unbroken, tmp_path) is None
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["compare.csv", "compare.json", "compare.md", "compare.png"]
    reported = json.loads((tmp_path / "compare.json").read_text())
    assert reported == json.loads(json.dumps(unbroken.as_dict()))
    frame = pl.read_csv(tmp_path / "compare.csv")
    assert frame["system"].to_list() == [row["system"] for row in reported["systems"]]
    assert frame[METRIC].to_list() == [row[METRIC] for row in reported["systems"]]
    table = (tmp_path / "compare.md").read_text().splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in table[2:5]] == frame["system"].to_list()
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")


def test_the_picture_shows_every_system_and_every_seed(unbroken):
    axes, differences = comparison_figure(unbroken).axes
    assert len(differences.get_lines()) >= len(unbroken.standings) - 1
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        standing.system for standing in unbroken.standings
    ]
    lines = axes.get_lines()
    for place, standing in enumerate(unbroken.standings):
        interval, mean, seeds = lines[3 * place : 3 * place + 3]
        assert list(interval.get_xdata()) == [standing.low, standing.high]
        assert list(mean.get_xdata()) == [standing.means[METRIC]]
        assert list(seeds.get_xdata()) == [run.metrics[METRIC] for run in standing.runs]
        for line in (interval, mean, seeds):
            assert axes.get_xlim()[0] <= min(line.get_xdata())
            assert max(line.get_xdata()) <= axes.get_xlim()[1]


def test_missing_matplotlib_costs_the_picture_only(unbroken, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    assert "sdgar[plot]" in save(unbroken, tmp_path)
    assert not list(tmp_path.glob("*.png"))
    assert (tmp_path / "compare.json").exists()


def test_there_must_be_seeds_and_a_known_protocol(conditions):
    with pytest.raises(UsageError, match="at least 1 seed"):
        replace(conditions, seeds=())
    with pytest.raises(UsageError, match="unknown protocol"):
        replace(conditions, protocol="best")


def test_the_papers_protocol_chooses_its_epoch_on_test_rows(conditions, monkeypatch):
    monkeypatch.setattr("sdgar.training.fitting.PAPER_EPOCHS", 5)
    found = compare(candidates()[:2], replace(conditions, protocol="paper", seeds=(0,)))
    model = recipe_of(BPR(**QUICK)).fit(
        Fit(rows=conditions.folds[0].train, test=conditions.folds[0].held_out, protocol="paper")
    )
    means = model.evaluate(conditions.folds[0].held_out, ks=(5, 20)).means()
    assert by_name(found)["bpr"].runs[0].metrics == means
    assert found.as_dict()["protocol"] == "paper"
