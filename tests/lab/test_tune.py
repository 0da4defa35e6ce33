"""A search chooses on validation rows, resumes after an interruption, and repeats nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from signal import SIGTERM
from typing import get_args

import pytest

from sdgar.data import splits
from sdgar.data.interactions import Interactions
from sdgar.errors import (
    ArtifactError,
    NumericalError,
    StoppedError,
    UsageError,
)
from sdgar.lab.study import Tried, opened
from sdgar.lab.tune import grid, rounded, searched_of, tune
from sdgar.maths.optimizers import OPTIMIZERS
from sdgar.settings import METRIC, types_of
from sdgar.storage.sealed import DamagedError
from sdgar.systems.bpr import BPR
from sdgar.systems.defaults import RATES, Choice, Range
from sdgar.systems.learner import Learner
from sdgar.systems.names import SYSTEMS
from sdgar.systems.recipe import recipe_of, spec_of
from sdgar.systems.sdgar import SA
from sdgar.systems.solver import MostPopular

from .conftest import QUICK as COMMON
from .conftest import Listening

QUICK = COMMON | {"early_stopping__every": 1}


@pytest.fixture(scope="module")
def data(parts) -> Interactions:
    return parts.train


def timeless(trials: tuple[Tried, ...]) -> list[Tried]:
    return [replace(tried, seconds=0.0) for tried in trials]


def test_every_system_has_a_space_and_every_space_names_fields_that_can_take_its_values(data):
    for system, kind in SYSTEMS.items():
        types, defaults = (
            types_of(kind),
            recipe_of(kind()).settings | recipe_of(kind()).decided(data),
        )
        for name, values in searched_of(kind(), ()).items():
            assert name in types, (system, name)
            assert values.nearest(defaults[name]) == defaults[name], (system, name)
            ends = (values.low, values.high) if isinstance(values, Range) else values.values
            allowed = get_args(types[name]) or (types[name],)
            assert all(type(value) in allowed for value in ends), (system, name)
            assert [*rounded(dict(enumerate(ends))).values()] == [*ends], (system, name)
            if isinstance(values, Choice):
                assert defaults[name] in values.values, (system, name)


def test_every_optimizer_has_a_range_of_rates_and_fixing_one_chooses_it():
    assert set(RATES) == set(OPTIMIZERS)
    space = searched_of(BPR(optimizer="adam"), {"optimizer", "l2"})
    assert space == {"learning_rate": RATES["adam"]}


def test_the_papers_grids_are_what_is_searched():
    sdgar = spec_of(SYSTEMS["sdgar"]).searched
    for name in ("temperature", "sampler__lambda_x", "sampler__lambda_y"):
        assert sdgar[name] == Choice((0.1, 0.5, 1.0))
    assert sdgar["l2"].low <= 0.01 < 0.05 <= sdgar["l2"].high
    assert spec_of(SYSTEMS["cml"]).searched["margin"] == Choice((0.5, 1.0, 1.5, 2.0))


def test_the_better_of_two_settings_is_found_and_a_small_grid_is_tried_once(data, search_only):
    search_only(BPR, learning_rate=Choice((1e-6, 0.1)))
    base = BPR(**QUICK, learning_rate=1e-6)
    found = tune(base, data, trials=5)
    assert [t.settings["learning_rate"] for t in found.trials] == [1e-6, 0.1]
    assert found.best.settings == {"learning_rate": 0.1}
    assert found.best.value > found.trials[0].value
    part = splits.validation(data, seed=0)
    model = BPR(**QUICK, learning_rate=0.1).fit(part.train, part.held_out)
    assert found.best.value == model.evaluate(part.held_out, ks=(50,)).means()[METRIC]
    assert found.best.best_epoch == recipe_of(model).trained.best_epoch


def test_a_search_goes_on_to_the_trials_of_an_unbroken_one(data, tmp_path, monkeypatch):
    base, path = BPR(**QUICK), tmp_path / "study.jsonl"
    unbroken = tune(base, data, trials=9)
    by_rule = recipe_of(base).decided(splits.validation(data, seed=0).train)
    assert unbroken.trials[0].settings == {"learning_rate": base.learning_rate, **by_rule}
    assert len({str(t.settings) for t in unbroken.trials}) == 9
    watch = Listening(crash_in=7)
    with pytest.raises(KeyboardInterrupt):
        tune(base, data, trials=8, study=path, watch=watch)
    # What a process leaves that is killed while Optuna writes.
    path.write_bytes(path.read_bytes() + b'{"op_code":8,"tri')
    Path(f"{path}.lock").symlink_to(path)
    monkeypatch.setattr("time.sleep", pytest.fail)  # nobody waits for the dead
    for trials, trained in ((8, 2), (8, 0), (9, 1)):
        watch = Listening()
        found = tune(base, data, trials=trials, study=path, watch=watch)
        assert len(watch.begun) == trained
        assert timeless(found.trials) == timeless(unbroken.trials[:trials])
    assert not Path(f"{path}.lock").is_symlink()


def test_another_seed_tries_other_settings(data):
    first, second = (tune(BPR(**QUICK), data, trials=2, seed=s).trials for s in (0, 1))
    assert first[0].settings == second[0].settings
    assert first[1].settings != second[1].settings


def test_what_a_trial_must_beat_is_the_median_of_those_before_it():
    with opened({}, warmup=10) as study:
        for value in (0.1, 0.2, 0.3, 0.4, 0.5):
            trial = study.ask()
            for epoch in (5, 10, 15):
                trial.report(value, epoch)
            study.tell(trial, value)
        for epoch, value, pruned in ((5, 0.0, False), (10, 0.31, False), (10, 0.29, True)):
            trial = study.ask()
            trial.report(value, epoch)
            assert bool(trial.should_prune()) is pruned


def test_a_trial_that_falls_behind_is_given_up(data, search_only):
    rates = (0.1, 0.11, 0.12, 0.13, 0.14, 0.15, 1e-6)
    search_only(BPR, learning_rate=Choice(rates))
    # The bad one has to come when there are five to compare it with.
    seed = next(s for s in range(50) if last_rate(rates, s) == 1e-6)
    watch = Listening()
    found = tune(BPR(**QUICK), data, trials=7, seed=seed, watch=watch)
    assert [t.state for t in found.trials] == ["complete"] * 5 + [found.trials[5].state, "pruned"]
    assert found.trials[-1].settings == {"learning_rate": 1e-6}
    assert found.trials[-1].value is None
    assert watch.epochs[-1] == 3 < QUICK["epochs"]
    assert found.best.settings["learning_rate"] > 1e-6


def last_rate(rates: tuple[float, ...], seed: int) -> float:
    order = grid({"learning_rate": Choice(rates)}, {"learning_rate": 0.1}, seed)
    assert sorted(s["learning_rate"] for s in order) == sorted(rates)
    return order[-1]["learning_rate"]


def test_settings_that_were_tried_before_are_not_trained_again(data, search_only):
    search_only(SA, temperature=Choice((0.1, 0.5, 1.0)), l2=Choice((0.01, 0.02, 0.03)))
    watch = Listening()
    found = tune(SA(**QUICK), data, trials=8, watch=watch)  # fewer than 9: not walked as a grid
    distinct = {str(t.settings): t for t in found.trials}
    assert len(watch.begun) == len(distinct) < 8
    for tried in found.trials:
        assert tried.value == distinct[str(tried.settings)].value


def test_a_setting_that_diverges_is_a_failed_trial_and_the_search_goes_on(data, search_only):
    search_only(BPR, learning_rate=Choice((0.1, 1e38)))
    found = tune(BPR(**QUICK), data, trials=2)
    assert [t.state for t in found.trials] == ["complete", "failed"]
    assert "Lower the learning rate" in found.trials[1].reason
    assert found.best.number == 1
    search_only(BPR, learning_rate=Choice((1e37, 1e38)))
    with pytest.raises(NumericalError, match="none of 2 trials"):
        tune(BPR(**QUICK, learning_rate=1e38), data, trials=2)


def test_a_study_of_other_data_or_settings_is_refused_by_name(data, tmp_path):
    path = tmp_path / "study.jsonl"
    tune(BPR(**QUICK), data, trials=1, study=path)
    with pytest.raises(ArtifactError, match="dim was 4, is now 5"):
        tune(BPR(**QUICK | {"dim": 5}), data, trials=1, study=path)
    with pytest.raises(ArtifactError, match="training data was"):
        tune(BPR(**QUICK), data.subset(data.users_E > 0, "dropped"), trials=1, study=path)
    with pytest.raises(ArtifactError, match="system was 'bpr', is now 'sa'"):
        tune(SA(**QUICK), data, trials=1, study=path)
    watch = Listening()
    tune(BPR(**QUICK | {"dim": 5}), data, trials=1, study=path, overwrite=True, watch=watch)
    assert len(watch.begun) == 1


@pytest.mark.parametrize("text", ["a,b\n1,2\n3,4", '{"some": "json"}\n', "no line feed"])
def test_a_file_that_is_no_study_is_left_as_it_is(text, data, tmp_path):
    path = tmp_path / "study.jsonl"
    path.write_text(text)
    for overwrite in (False, True):
        with pytest.raises(UsageError, match="is not a study"):
            tune(BPR(**QUICK), data, trials=1, study=path, overwrite=overwrite)
    assert path.read_text() == text


def test_a_study_of_someone_elses_is_left_as_it_is(data, tmp_path):
    from optuna import create_study, logging
    from optuna.storages.journal import JournalFileBackend, JournalStorage

    path, before = tmp_path / "study.jsonl", logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    create_study(study_name="theirs", storage=JournalStorage(JournalFileBackend(str(path))))
    logging.set_verbosity(before)
    text = path.read_text()
    with pytest.raises(UsageError, match="is not a study of sdgar"):
        tune(BPR(**QUICK), data, trials=1, study=path)
    assert path.read_text() == text


def test_a_study_that_is_damaged_in_the_middle_is_said_to_be(data, tmp_path):
    path = tmp_path / "study.jsonl"
    tune(BPR(**QUICK), data, trials=1, study=path)
    first, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first, "{torn\n", *rest]))
    with pytest.raises(DamagedError, match="not a journal"):
        tune(BPR(**QUICK), data, trials=1, study=path)


def test_a_signal_ends_the_search_after_the_epoch_and_keeps_the_trials(data, tmp_path):
    path = tmp_path / "study.jsonl"
    tune(BPR(**QUICK), data, trials=1, study=path)
    watch = Listening()
    with pytest.raises(StoppedError, match="kept in") as stopped:
        tune(
            BPR(**QUICK), data, trials=3, study=path, watch=watch,
            stop=lambda: SIGTERM if watch.begun else None,
        )  # fmt: skip
    assert stopped.value.exit_code == 143
    assert watch.epochs == [1]
    assert len(tune(BPR(**QUICK), data, trials=1, study=path).trials) == 1


def test_given_validation_rows_are_used_and_fixed_epochs_too(data):
    part = splits.validation(data, seed=3)
    fixed = BPR(**QUICK, early_stopping=False)
    found = tune(fixed, part.train, part.held_out, trials=1)
    model = BPR(**QUICK, early_stopping=False).fit(part.train)
    assert found.best.value == model.evaluate(part.held_out, ks=(50,)).means()[METRIC]


@pytest.mark.parametrize(
    ("base", "fixed"), [(MostPopular(), ()), (BPR(**QUICK), ("l2", "learning_rate"))]
)
def test_what_leaves_nothing_to_search_is_refused(base, fixed, data):
    with pytest.raises(UsageError, match="no settings to search"):
        tune(base, data, fixed=fixed)


@pytest.mark.parametrize(
    "system", sorted(name for name, kind in SYSTEMS.items() if spec_of(kind).searched)
)
def test_every_system_can_be_tuned(system, data):
    kind = SYSTEMS[system]
    known = types_of(kind)
    quick = QUICK | {
        "epochs": 1,
        "sampler__states": 4,
        "sampler__samples": 8,
        "similarity__sweeps": 1,
    }
    base = kind(**{name: value for name, value in quick.items() if name in known})
    found = tune(base, data, trials=2)
    assert [t.state for t in found.trials] == ["complete", "complete"]
    assert 0 < found.best.value <= 1
    assert (found.best.best_epoch == 1) is issubclass(kind, Learner)
