"""Today's and yesterday's model: measured on the same rows, replaced or refused."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from signal import SIGTERM

import numpy as np
import polars as pl
import pytest

from sdgar.data.interactions import Interactions
from sdgar.errors import ArtifactError, DataError, StoppedError, UsageError
from sdgar.recommend.recommender import Recommender, load
from sdgar.runs import succession
from sdgar.runs.run import RunData, run
from sdgar.runs.succession import Succession, compared, informed, newest
from sdgar.runs.workspace import Workspace
from sdgar.systems.bpr import BPR
from sdgar.systems.make import estimator_like
from sdgar.systems.quick import Quick

from ..cli.test_cli import result_of, sdgar

SHORT = {"epochs": 3, "early_stopping": False, "engine": "eager", "dim": 4, "warm_start__epochs": 2}


@pytest.fixture(scope="module")
def data(events) -> Interactions:
    return events


@pytest.fixture(scope="module")
def known_E(data) -> np.ndarray:
    return data.time_E < np.quantile(data.time_E, 0.8)


@pytest.fixture(scope="module")
def monday(data, known_E, tmp_path_factory) -> Path:
    """The folder of a model of the first four fifths of the rows."""
    return BPR(**SHORT).fit(data[known_E]).save(tmp_path_factory.mktemp("runs") / "monday")


@pytest.fixture(scope="module")
def files(data, known_E, tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("events")
    frame = pl.DataFrame(
        {
            "user": data.users.at(data.users_E),
            "item": data.items.at(data.items_E),
            "time": data.time_E,
        }
    )
    for name, rows in (("all", frame), ("new", frame.filter(~known_E))):
        rows.write_csv(folder / f"{name}.csv")
    return {name: folder / f"{name}.csv" for name in ("all", "new")}


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def test_the_newest_half_of_what_the_model_has_not_seen_is_held_out(data, known_E, monday):
    parts = newest(data, load(monday))
    times = np.sort(data.time_E[~known_E])
    assert sorted(parts.held_out.time_E) == times[times >= times[-(-len(times) // 2)]].tolist()
    assert len(parts.train) + len(parts.held_out) == len(data)
    fewer = newest(data, load(monday), "new:0.1")
    assert abs(len(fewer.held_out) - 0.1 * len(times)) <= 2
    untimed = newest(replace(data, time_E=None), load(monday), seed=3)
    drawn = np.isin(data.users_E * 1000 + data.items_E, pairs(untimed.held_out, data))
    assert not (drawn & known_E).any()
    assert drawn.sum() == len(untimed.held_out) == len(times) // 2


def pairs(rows: Interactions, data: Interactions) -> np.ndarray:
    user_U = data.users.index_of(rows.users.values)
    item_I = data.items.index_of(rows.items.values)
    return user_U[rows.users_E] * 1000 + item_I[rows.items_E]


def test_rows_that_the_model_knows_are_nothing_to_measure_on(data, known_E, monday):
    with pytest.raises(DataError, match="nothing new to be measured on"):
        newest(data[known_E], load(monday))
    for rule in ("time", "paper", "date:2024-01-01"):
        with pytest.raises(UsageError, match="rows that the earlier model was trained on"):
            succession.require_rule(rule)
    for rule in ("new:1.5", "new:half"):
        with pytest.raises(UsageError, match="must lie between 0 and 1"):
            succession.require_rule(rule)


@pytest.mark.parametrize("kind", [BPR, Quick])
def test_both_models_are_measured_for_the_same_users_each_as_if_alone(kind, data, known_E):
    """Users 0, 5, … are new to the earlier model, and so are some items."""
    settings = SHORT if kind is BPR else {"dim": 4}
    old_E = known_E & (data.users_E % 5 != 0) & (data.items_E > 6)
    earlier = kind(**settings).fit(data[old_E]).recommender_
    model = kind(**settings).fit(data[known_E]).recommender_
    test = data[~known_E]
    found = compared(model, earlier, data[known_E], test, ks=(10,), metric="recall@10")
    updated = informed(earlier, data[known_E])
    both = [
        user for user in test.users.values.tolist()
        if model.users.index_of([user])[0] >= 0 and updated.users.index_of([user])[0] >= 0
    ]  # fmt: skip
    assert len(both) == found.paired.users
    assert found.left_out == test.n_users - len(both)
    known_U = model.users.index_of(test.users.values) >= 0
    assert (len(both) < known_U.sum()) == (kind is BPR)  # whose models fold nobody in
    for report, one in ((found.new, model), (found.earlier, updated)):
        for place, user in enumerate(both[:10]):
            own = set(test.items.at(test.history.of(int(test.users.index_of([user])[0]))).tolist())
            listed = one.recommend([user], k=10)["item"].to_list()
            wanted = len(own & set(listed)) / len(own)
            assert report.per_user["recall@10"][place] == pytest.approx(wanted)


def test_conditions_look_at_the_interval_of_the_difference(data, known_E):
    """A model that is compared with itself does not differ, and is not shown to be better."""
    model = Quick(dim=4).fit(data[known_E]).recommender_
    same = compared(model, model, data[known_E], data[~known_E], ks=(10,), metric="ndcg@10")
    assert same.paired.difference == same.paired.low == same.paired.high == 0
    assert same.new.per_user["ndcg@10"].any()

    def refused(low: float, high: float) -> list[str]:
        found: Succession = replace(same, paired=replace(same.paired, low=low, high=high))
        return [rule for rule in succession.REPLACE_IF if found.refusal(rule) is not None]

    assert refused(0.01, 0.02) == []
    assert refused(0, 0) == ["better"]
    assert refused(-0.01, 0.02) == ["better"]
    assert refused(-0.02, -0.01) == ["not-worse", "better"]


def test_a_saved_model_is_made_again_with_its_settings_but_for_those_given(monday):
    about = load(monday).about
    again = estimator_like(about, {"warm_start__rate": "0.7"}, common={"seed": 3})
    assert again.get_params() == BPR(**SHORT, warm_start__rate=0.7, seed=3).get_params()
    with pytest.raises(UsageError, match="does not say which system"):
        estimator_like({"system": "bpr"}, {}, common={})


def test_a_command_goes_on_from_a_run_and_takes_its_place(files, monday, tmp_path, data):
    out = sdgar("train", files["all"], "--from", monday, "--out", tmp_path / "tuesday", "--json")
    reported = result_of(out)
    assert reported["epochs"] == SHORT["warm_start__epochs"]
    assert reported["kept"]["interactions"] == len(data)
    assert set(reported["succession"]["paired"]) >= {"difference", "low", "high"}
    saved = load(tmp_path / "tuesday")
    assert saved.about["system"] == "bpr"
    assert saved.about["hyper_parameters"] == load(monday).about["hyper_parameters"]
    assert saved.about["further"] == {"from": load(monday).version, "times": 1}
    info = result_of(sdgar("info", tmp_path / "tuesday", "--json"))
    assert info["further"] == saved.about["further"]
    # New rows alone give the same model, as what the run has is kept; without --out it is replaced.
    here = load(monday).save(tmp_path / "here")
    assert sdgar("train", files["new"], "--from", here).returncode == 0
    again = load(here)
    assert again.history.items_E.tolist() == saved.history.items_E.tolist()
    assert again.factors.user_UD.tobytes() == saved.factors.user_UD.tobytes()


def test_a_model_that_is_not_better_is_refused_and_all_stays_as_it_was(files, monday, tmp_path):
    here = load(monday).save(tmp_path / "here")
    before = contents(here)
    words = ("train", files["all"], "--from", here, "--set", "warm_start__rate=1e-9")
    done = sdgar(*words, "--replace-if", "better")
    assert done.returncode == 7
    assert "the new model is not shown to be better: ndcg@50" in done.stderr
    assert "is as it was (--replace-if better)" in done.stderr
    assert "compared" in done.stdout
    assert contents(here) == before
    assert [file.name for file in tmp_path.iterdir()] == ["here"]


def test_options_that_contradict_each_other_are_refused(files, monday, tmp_path):
    words = ("train", files["all"], "--out", tmp_path / "run")
    for more, said in {
        ("--vanished", "drop"): "--vanished has a meaning only with --from",
        ("--replace-if", "better"): "--replace-if has a meaning only with --from",
        ("--from", monday, "--system", "ease"): "which is bpr, and --system is ease",
        ("--from", monday, "--fast"): "leave --fast out",
        ("--from", monday, "--protocol", "paper"): "leave --protocol out",
        ("--from", monday, "--split", "time"): "rows that the earlier model was trained on",
        ("--from", monday, "--split", "none", "--replace-if", "better"): "holds none out",
        ("--from", monday, "--replace-if", "perhaps"): "unknown --replace-if 'perhaps'",
        ("--from", monday, "--vanished", "perhaps"): "unknown --vanished 'perhaps'",
        ("--from", tmp_path / "no"): "is not a saved model",
    }.items():
        done = sdgar(*words, *more)
        assert done.returncode == (4 if "saved model" in said else 2), done
        assert said in done.stderr
    assert not list(tmp_path.iterdir())


def test_an_interrupted_night_goes_on_to_the_same_model_but_not_from_another(
    data, known_E, monday, tmp_path
):
    parts = newest(data, load(monday))

    def night(out: Path, before: Recommender, *, resume: bool = False, epochs: int = 0) -> None:
        rows = RunData(train=parts.train, test=parts.held_out, everything=data, before=before)
        epoch = itertools.count(1)
        run(
            BPR(**SHORT),
            rows,
            out,
            resume=resume,
            checkpoint_every=0.0,
            stop=lambda: SIGTERM if next(epoch) == epochs else None,
        )

    night(tmp_path / "whole", load(monday))
    whole = (tmp_path / "whole" / "model.safetensors").read_bytes()
    other = BPR(**SHORT, seed=5).fit(data[known_E]).save(tmp_path / "other")
    for epochs in (1, 2, 3):
        out = tmp_path / f"after-{epochs}"
        with pytest.raises(StoppedError):
            night(out, load(monday), epochs=epochs)
        with pytest.raises(ArtifactError, match="earlier model was"):
            night(out, load(other), resume=True)
        night(out, load(monday), resume=True)
        assert (out / "model.safetensors").read_bytes() == whole
    with pytest.raises(UsageError, match="continues from a model in a folder"):
        night(tmp_path / "unsaved", BPR(**SHORT).fit(data[known_E]).recommender_)


def test_an_interrupted_command_goes_on_from_the_run_that_it_began_with(files, monday, tmp_path):
    words = ("train", files["new"], "--from", monday, "--checkpoint-every", 0, "--out")
    assert sdgar(*words, tmp_path / "whole").returncode == 0
    out = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workspace, "commit", None)
        assert sdgar(*words, out).returncode == 1
    assert not out.exists()
    assert sdgar("train", "--resume", out).returncode == 0
    model = "model.safetensors"
    assert (out / model).read_bytes() == (tmp_path / "whole" / model).read_bytes()
    assert load(out).about["further"] == {"from": load(monday).version, "times": 1}


def test_the_rows_that_counted_yesterday_count_today(files, tmp_path):
    """Ratings below the threshold of yesterday are nothing to learn from."""
    frame = pl.read_csv(files["all"]).with_row_index("rating")
    frame = frame.with_columns(pl.col("rating") % 5 + 1)
    events, run = tmp_path / "rated.csv", tmp_path / "run"
    frame.write_csv(events)
    settings = [word for name, value in SHORT.items() for word in ("--set", f"{name}={value}")
                if name not in ("engine",)]  # fmt: skip
    words = ("train", events, "--system", "bpr", "--min-rating", "3", "--split", "none", *settings)
    assert sdgar(*words, "--out", run).returncode == 0
    assert load(run).about["counted"] == {"min_rating": 3.0}
    night = sdgar("train", events, "--from", run, "--split", "none")
    assert night.returncode == 0
    assert "rows count as for the earlier model (--min-rating)" in night.stdout + night.stderr
    model = load(run)
    assert model.about["counted"] == {"min_rating": 3.0}
    assert len(model.history.items_E) == len(frame.filter(pl.col("rating") >= 3))
    other = sdgar("train", events, "--from", run, "--split", "none", "--min-rating", "none")
    assert other.returncode == 0
    assert load(run).about["counted"] == {"min_rating": None}
