"""Python reports what it does, on the right channel and only where it should."""

from __future__ import annotations

import logging
import multiprocessing
import pickle
from types import SimpleNamespace

import pytest

import sdgar
from sdgar.errors import UsageError
from sdgar.show import progress
from sdgar.systems.recipe import recipe_of
from sdgar.training.records import EpochRecord

from .cli.test_cli import sdgar as command

QUICK = {"dim": 2, "epochs": 2, "early_stopping": False, "engine": "eager"}
ROWS = {"user": ["ann", "ann", "bob", "bob", "cid"], "item": ["x", "y", "y", "z", "x"]}


@pytest.fixture
def data() -> sdgar.Interactions:
    return sdgar.read(ROWS, verbose=False)


@pytest.fixture
def as_users_have_it(monkeypatch):
    monkeypatch.delenv("SDGAR_VERBOSE")


def test_reading_reports_the_columns_and_the_account_of_the_rows(as_users_have_it, capsys):
    sdgar.read(ROWS)
    out, err = capsys.readouterr()
    assert out == ""
    columns, rows = err.splitlines()
    assert columns.startswith("sdgar: columns: user=user item=item")
    assert "guessed: user, item" in columns
    assert rows == "sdgar: rows: 5 rows read = 5 kept; 3 users × 3 items, 5 rows"


@pytest.mark.parametrize("model", [sdgar.BPR(**QUICK), sdgar.IALS(dim=2), sdgar.MostPopular()])
def test_fitting_reports_that_it_is_done(model, data, as_users_have_it, capsys):
    model.fit(data)
    err = capsys.readouterr().err
    assert err.splitlines()[-1].startswith(f"sdgar: {recipe_of(model).name} is ready after ")


def test_an_argument_a_call_or_the_environment_turns_it_off(data, monkeypatch, capsys):
    model = sdgar.BPR(**QUICK)
    model.fit(data)  # SDGAR_VERBOSE=0, as in all tests
    monkeypatch.delenv("SDGAR_VERBOSE")
    model.fit(data, verbose=False)
    sdgar.read(ROWS, verbose=False)
    monkeypatch.setattr(progress, "_on", None)
    sdgar.set_verbose(False)
    model.fit(data)
    assert capsys.readouterr().err == ""
    model.fit(data, verbose=True)
    assert "training bpr on 3 users × 3 items, 5 rows" in capsys.readouterr().err


def test_a_wrong_word_in_the_environment_or_in_a_call_is_named(monkeypatch):
    monkeypatch.setenv("SDGAR_VERBOSE", "loud")
    with pytest.raises(UsageError, match=r"SDGAR_VERBOSE must be 0 or 1, got 'loud'"):
        sdgar.read(ROWS)
    with pytest.raises(UsageError, match="must be True or False, got 'no'"):
        sdgar.set_verbose("no")


def test_who_has_set_logging_up_reads_it_there_and_not_twice(as_users_have_it, caplog, capsys):
    with caplog.at_level(logging.INFO, logger="sdgar"):
        sdgar.read(ROWS)
    assert next(r.message for r in caplog.records if r.name == "sdgar").startswith("columns:")
    assert capsys.readouterr().err == ""


def test_the_command_line_has_a_screen_of_its_own(as_users_have_it, tmp_path):
    events = tmp_path / "events.csv"
    rows = [f"u{u},i{(u * k) % 7}" for u in range(12) for k in (1, 2, 3)]
    events.write_text("\n".join(["user,item", *rows]))
    words = ("--out", tmp_path / "run", "--system", "item-knn", "--split", "none", "--json")
    done = command("train", events, *words)
    assert done.returncode == 0, done.stderr
    assert "sdgar: " not in done.stderr
    assert progress.is_verbose(None)  # and afterwards Python speaks again


def test_child_processes_are_silent(as_users_have_it, monkeypatch):
    assert progress.is_verbose(None)
    monkeypatch.setattr(multiprocessing.current_process(), "_name", "LokyProcess-1")
    assert not progress.is_verbose(None)
    assert progress.is_verbose(True)


def test_a_log_file_gets_a_line_every_few_seconds(monkeypatch, capsys):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock.now)
    with progress.training("bpr", "9 rows", 40, metric="ndcg@20", verbose=True) as hears:
        for number in range(1, 13):
            clock.now += 1.0
            looked = {"metric": 0.25, "best": True} if number == 4 else {}
            hears("choose", EpochRecord(number, 0.5, 1.0, **looked))
        clock.now += 5.0
        hears("final", EpochRecord(2, 0.25, 1.0))
    assert capsys.readouterr().err.splitlines() == [
        "sdgar: training bpr on 9 rows",
        "sdgar: bpr: epoch 5 of at most 40, loss 0.5000, best ndcg@20 0.2500 in epoch 4",
        "sdgar: bpr: epoch 10 of at most 40, loss 0.5000, best ndcg@20 0.2500 in epoch 4",
        "sdgar: bpr on all rows: epoch 2 of 4, loss 0.2500",
    ]


def test_what_is_wrong_with_a_generator_is_reported_once(capsys):
    ill = EpochRecord(1, 0.5, 1.0, complaint="the generator has collapsed: x is one-hot.")
    with progress.training("sdgar", "9 rows", 40, metric="ndcg@50", verbose=True) as hears:
        hears("choose", ill)
        hears("choose", ill)
    assert capsys.readouterr().err.count("the generator has collapsed: x is one-hot.") == 1


def test_a_terminal_gets_a_bar_that_goes_away(monkeypatch, capsys):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with progress.training("bpr", "9 rows", 2, metric="ndcg@50", verbose=True) as hears:
        hears("final", EpochRecord(2, 0.5, 1.0))
    err = capsys.readouterr().err
    assert "epoch 2 of at most 2, loss 0.5000" in err
    assert "━" in err
    assert err.endswith("\x1b[2K")  # the line of the bar is erased


def test_an_own_listener_hears_every_epoch_next_to_the_bar(data):
    heard = []
    sdgar.BPR(**QUICK).fit(data, on_epoch=lambda phase, epoch: heard.append((phase, epoch.epoch)))
    assert heard == [("final", 1), ("final", 2)]


def test_a_fitted_model_can_be_copied(data):
    model = sdgar.BPR(**QUICK).fit(data)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert again.recommend(["cid"], k=1).equals(model.recommend(["cid"], k=1))


def test_work_in_steps_reports_how_far_it_is(monkeypatch, as_users_have_it, capsys):
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    with progress.working("weights between items", verbose=None) as reported:
        reported("rows", 1, 3)
        reported("neighbours", 0, 0)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "sdgar: weights between items: rows, 33%",
        "sdgar: weights between items: neighbours, 0%",
    ]
    with progress.working("weights between items", verbose=False) as reported:
        reported("rows", 1, 3)
    assert capsys.readouterr().err == ""
