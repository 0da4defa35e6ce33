"""A comparison over several folds: means over them, one test over all their users."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_rel

import sdgar
from sdgar.data.interactions import Interactions
from sdgar.data.splits import Split
from sdgar.errors import UsageError
from sdgar.lab.compare import compare, pieces
from sdgar.lab.conditions import Candidate, Conditions
from sdgar.lab.files import save, table
from sdgar.runs.run import RunData, run
from sdgar.systems.bpr import BPR
from sdgar.systems.ease import EASE
from sdgar.systems.ials import IALS
from sdgar.systems.neighbours import ItemKNN
from sdgar.systems.recipe import recipe_of
from sdgar.systems.sdsoftmax import SDSoftmax
from sdgar.systems.solver import MostPopular

METRIC = "ndcg@20"
QUICK = {"epochs": 2, "dim": 4, "early_stopping": False, "batch_size": 512, "engine": "eager"}
DAY = 86_400_000_000


@pytest.fixture(scope="module")
def data(events) -> Interactions:
    time = 1_700_000_000_000_000 + np.random.default_rng(0).integers(0, 30, len(events)) * DAY
    return replace(events, time_E=time)


def conditions_of(data: Interactions, rule: str, **more) -> Conditions:
    return Conditions(folds=tuple(sdgar.folds(data, rule)), ks=(5, 20), **more)


@pytest.fixture(scope="module")
def windows(data) -> Conditions:
    return conditions_of(data, "windows:3d:3", seeds=(0, 1))


@pytest.fixture(scope="module")
def found(windows):
    return compare([Candidate(BPR(**QUICK)), Candidate(ItemKNN())], windows)


def values_of(fold, model) -> dict:
    """The main metric of every test user, by id."""
    report = model.fit(fold.train).evaluate(fold.held_out, ks=(5, 20))
    ids = model.recommender_.users.at(report.users_T).tolist()
    return dict(zip(ids, report.per_user[METRIC], strict=True))


def test_the_table_has_the_mean_over_folds_and_the_spread_over_seeds(found, windows):
    rows = {row.system: row for row in found.standings}
    alone = [
        [np.mean(list(values_of(fold, BPR(**QUICK, seed=s)).values())) for fold in windows.folds]
        for s in (0, 1)
    ]
    assert rows["bpr"].means[METRIC] == pytest.approx(np.mean(alone), rel=1e-12)
    assert rows["bpr"].sds[METRIC] == pytest.approx(np.std(np.mean(alone, axis=1), ddof=1))
    assert len(rows["bpr"].runs) == 6
    assert (len(rows["item-knn"].runs), rows["item-knn"].sds) == (3, None)
    assert pieces([Candidate(BPR(**QUICK)), Candidate(ItemKNN())], windows) == 9


def test_the_test_pairs_users_over_all_folds_each_of_them_once(found, windows):
    best, other = found.standings
    by_fold = {
        "item-knn": [[values_of(fold, ItemKNN())] for fold in windows.folds],
        "bpr": [[values_of(f, BPR(**QUICK, seed=s)) for s in (0, 1)] for f in windows.folds],
    }
    everyone = sorted({u for (values, *_) in by_fold["bpr"] for u in values})
    folds = len(windows.folds)

    def value(system: str, user) -> float:
        return sum(
            np.mean([v[user] for v in seeds]) * len(everyone) / (folds * len(seeds[0]))
            for seeds in by_fold[system]
            if user in seeds[0]
        )

    a, b = ([value(row.system, u) for u in everyone] for row in (other, best))
    assert other.versus.users == len(everyone) < sum(len(v[0]) for v in by_fold["bpr"])
    assert other.versus.difference == pytest.approx(other.means[METRIC] - best.means[METRIC])
    assert other.versus.t_p == pytest.approx(ttest_rel(a, b).pvalue, rel=1e-6)


def test_the_folds_and_who_is_new_in_them_are_reported(found, windows, tmp_path):
    reported = found.as_dict()
    assert [fold["how"] for fold in reported["folds"]] == [fold.how for fold in windows.folds]
    for name in ("users", "rows", "unknown_users", "unknown_user_rows"):
        each = [fold["counts"][name] for fold in reported["folds"]]
        assert reported["counts"][name] == sum(each)
    assert "3 folds" in reported["test"]
    assert [(r["seed"], r["fold"]) for r in reported["systems"][0]["runs"]][:2] in (
        [(0, 0), (1, 0)],
        [(None, 0), (None, 1)],
    )
    save(found, tmp_path)
    assert "3 folds" in (tmp_path / "compare.md").read_text()


def test_cold_items_of_one_fold_alone_have_no_mean_over_folds(data):
    features = sdgar.Features.from_columns(
        data.items.values.tolist(), {"genre": (np.arange(data.n_items) % 3).tolist()}
    )
    rare_E = data.items_E == 0
    early_E = np.arange(len(data)) % 5 > 0
    folds = tuple(
        Split(data[~test_E].with_features(None, features), data[test_E], "given")
        for test_E in (rare_E, rare_E | ~early_E, ~early_E)
    )
    for some, has in ((folds[:2], True), (folds[1:], False), (folds[:0:-1], False)):
        found = compare([Candidate(IALS(dim=4, sweeps=1))], Conditions(folds=some, ks=(20,)))
        assert (f"{METRIC} among cold" in found.standings[0].means) == has
        assert (f"{METRIC} among cold" in table(found)[0]) == has


def test_finished_folds_are_not_trained_again(found, windows, tmp_path):
    first = replace(windows, folds=windows.folds[:2])
    compare([Candidate(ItemKNN())], first, out=tmp_path)
    again = compare([Candidate(BPR(**QUICK)), Candidate(ItemKNN())], windows, out=tmp_path)
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 9
    for one, two in zip(found.standings, again.standings, strict=True):
        assert (one.means, one.versus) == (two.means, two.versus)


def test_a_search_must_not_see_test_rows_of_other_folds(data):
    with pytest.raises(UsageError, match="among which are test rows of the others"):
        conditions_of(data, "folds:3", trials=2)
    conditions_of(data, "windows:3d:3", trials=2)


def test_users_that_are_held_out_whole_are_folded_in(data, tmp_path):
    conditions = conditions_of(data, "users:0.3", seeds=(0,))
    (fold,) = conditions.folds
    found = compare([Candidate(EASE()), Candidate(MostPopular())], conditions)
    metrics = {row.system: row.runs[0].metrics for row in found.standings}
    for model in (EASE(), MostPopular()):
        folded = model.fit(fold.train).fold_in(fold.histories).evaluate(fold.held_out, ks=(5, 20))
        assert metrics[recipe_of(model).name] == folded.means()
    assert found.counts.folded_in == found.counts.users == fold.held_out.n_users
    assert "folded in" in found.definition
    rows = RunData(train=fold.train, test=fold.held_out, histories=fold.histories)
    reported = run(EASE(), rows, tmp_path / "run", ks=(5, 20))
    assert reported.test.means() == metrics["ease"]
    assert reported.popular.means() == metrics["popular"]


def test_what_cannot_fold_in_is_refused_before_it_is_trained(data, tmp_path):
    conditions = conditions_of(data, "users:0.3")
    with pytest.raises(UsageError, match="cannot be folded into models of bpr"):
        compare([Candidate(EASE()), Candidate(BPR(**QUICK))], conditions)
    with pytest.raises(UsageError, match="Use --protocol validated"):
        compare([Candidate(SDSoftmax(**QUICK))], replace(conditions, protocol="paper"))
    (fold,) = conditions.folds
    rows = RunData(train=fold.train, test=fold.held_out, histories=fold.histories)
    with pytest.raises(UsageError, match="cannot be folded into models of bpr"):
        run(BPR(**QUICK), rows, tmp_path / "run")
    assert not (tmp_path / "run").exists()
