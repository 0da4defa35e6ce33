"""What is saved is what one would deploy: a model of all rows, with its measurement."""

from __future__ import annotations

from pathlib import Path
from signal import SIGTERM

import polars as pl
import pytest

from sdgar.errors import StoppedError, UsageError
from sdgar.recommend.recommender import load
from sdgar.runs.run import RunData, run
from sdgar.systems.bpr import BPR
from sdgar.systems.ease import EASE

from ..cli.test_cli import result_of, sdgar
from .conftest import QUICK


def trained(estimator, parts, out, everything=None, **more):
    rows = RunData(train=parts.train, test=parts.held_out, everything=everything)
    return run(estimator, rows, out, **more)


@pytest.mark.parametrize("estimator", [BPR(**QUICK), EASE()], ids=["bpr", "ease"])
def test_the_saved_model_has_learned_all_rows_and_says_what_was_measured(
    events, parts, tmp_path, estimator
):
    measured = trained(estimator, parts, tmp_path / "measured")
    result = trained(estimator, parts, tmp_path / "all", everything=events)
    assert result.summary["test"] == measured.summary["test"]
    assert result.summary["data"] == measured.summary["data"]
    assert result.summary["kept"] == {
        "rows": "all", "users": events.n_users, "items": events.n_items,
        "interactions": len(events),
    }  # fmt: skip
    saved = load(tmp_path / "all")
    assert saved.users.values.tolist() == events.users.values.tolist()
    assert saved.items.values.tolist() == events.items.values.tolist()
    assert saved.history.items_E.tolist() == events.items_E.tolist()
    assert saved.about["data"]["fingerprint"] == events.fingerprint()
    assert saved.about["report"]["test"] == result.summary["test"]


def test_it_is_the_model_of_all_rows_for_the_chosen_number_of_epochs(events, parts, tmp_path):
    result = trained(BPR(**QUICK), parts, tmp_path / "all", everything=events)
    alone = BPR(**QUICK | {"epochs": result.summary["best_epoch"]}, early_stopping=False)
    alone.fit(events)
    assert (alone.recommend(k=5)["item"] == result.model.recommend(k=5)["item"]).all()


def test_a_run_that_is_stopped_in_its_last_pass_goes_on_to_the_same_bytes(events, parts, tmp_path):
    often = {"everything": events, "checkpoint_every": 0.0}
    trained(BPR(**QUICK), parts, tmp_path / "whole", **often)
    passes = []

    def stop():
        return SIGTERM if passes and passes[-1] == "all" else None

    with pytest.raises(StoppedError):
        trained(
            BPR(**QUICK), parts, tmp_path / "broken", stop=stop, **often,
            on_epoch=lambda phase, epoch: passes.append(phase),
        )  # fmt: skip
    assert passes.count("all") == 1
    trained(BPR(**QUICK), parts, tmp_path / "broken", resume=True, **often)
    one, two = ((tmp_path / n / "model.safetensors").read_bytes() for n in ("whole", "broken"))
    assert one == two


def test_the_papers_protocol_keeps_what_it_measured(events, parts, tmp_path):
    with pytest.raises(UsageError, match="Keep the measured model"):
        trained(BPR(**QUICK), parts, tmp_path / "run", protocol="paper", everything=events)


@pytest.fixture(scope="module")
def file(events, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("events") / "events.csv"
    frame = pl.DataFrame(
        {"user": events.users.at(events.users_E), "item": events.items.at(events.items_E)}
    )
    lonely = pl.DataFrame({"user": ["only one row"], "item": ["nobody else's"]})
    frame.cast(pl.String).vstack(lonely).write_csv(path)
    return path


def test_a_file_alone_gives_a_model_that_knows_everyone_and_recommends_nothing_they_have(
    file, tmp_path
):
    words = ("--system", "bpr", "--set", "epochs=3", "--engine", "eager")
    done = sdgar("train", file, "--out", tmp_path / "run", *words)
    assert done.returncode == 0, done.stderr
    assert "after it was measured; --keep measured saves the measured one" in done.stdout
    frame = pl.read_csv(file, infer_schema=False)
    model = load(tmp_path / "run")
    assert set(model.users.values) == set(frame["user"])
    assert set(model.items.values) == set(frame["item"])
    lists = model.recommend(k=10).select("user", "item").drop_nulls()
    assert len(lists.join(frame, on=["user", "item"])) == 0
    assert len(lists.filter(pl.col("user") == "only one row")) == 10


def test_the_measured_model_is_kept_if_requested_or_if_the_test_rows_have_a_file(file, tmp_path):
    words = ("--system", "bpr", "--set", "epochs=3", "--engine", "eager", "--json")
    kept = result_of(sdgar("train", file, "--out", tmp_path / "a", *words, "--keep", "measured"))
    assert kept["kept"]["rows"] == "measured"
    assert kept["kept"]["interactions"] == kept["data"]["interactions"]
    kept = result_of(sdgar("train", file, "--test", file, "--out", tmp_path / "b", *words))
    assert kept["kept"]["rows"] == "measured"
    kept = result_of(sdgar("train", file, "--split", "none", "--out", tmp_path / "c", *words))
    assert kept["kept"]["rows"] == "all"
    for more, said in (
        (("--keep", "measure"), "Did you mean 'measured'"),
        (("--keep", "all", "--split", "none"), "--split none holds none out"),
    ):
        done = sdgar("train", file, "--out", tmp_path / "d", *words, *more)
        assert done.returncode == 2
        assert said in done.stderr
