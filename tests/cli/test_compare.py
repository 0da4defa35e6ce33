"""``sdgar compare`` and ``sdgar tune`` as a user meets them."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import polars as pl
import pytest

from sdgar.data import splits
from sdgar.data.synthetic import Shape, generate
from sdgar.data.tables import events as table_of
from sdgar.systems.names import SYSTEMS

from .test_cli import refuses, result_of, sdgar

SETTINGS = {"epochs": 4, "early_stopping__every": 2, "batch_size": 512, "dim": 4}
QUICK = ("--engine", "eager", *(w for k, v in SETTINGS.items() for w in ("--set", f"{k}={v}")))


@pytest.fixture(scope="module")
def events(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    data = generate(Shape(users=60, items=40, interactions=900, concentration=0.1), seed=0)
    for name, rows in zip(("train", "test"), splits.split(data, "paper", seed=0), strict=True):
        table_of(rows).write_parquet(folder / f"{name}.parquet")
    return folder


def given(events: Path) -> tuple[object, ...]:
    return (events / "train.parquet", "--test", events / "test.parquet")


def test_compare_says_everything_a_machine_needs_and_people_a_table(events, tmp_path):
    out = tmp_path / "out"
    words = ("compare", *given(events), "--systems", "popular,bpr", "--seeds", 2, *QUICK)
    done = sdgar(*words, "--out", out, "--json")
    got = result_of(done)
    assert (got["metric"], got["protocol"], got["seeds"]) == ("ndcg@50", "validated", [0, 1])
    assert (got["trials"], got["failed"], got["out"]) == (None, [], str(out))
    kinds = ("precision", "recall", "ndcg", "mrr", "map", "hit")
    for row in got["systems"]:
        assert set(row["metrics"]) == {f"{kind}@{k}" for kind in kinds for k in (10, 20, 50)}
        assert row["ndcg@50"] == row["metrics"]["ndcg@50"]["mean"]
        assert row["interval"][0] <= row["ndcg@50"] <= row["interval"][1]
        assert row["seconds"] >= 0
    bpr, popular = sorted(got["systems"], key=lambda row: row["system"])
    assert (bpr["chosen"], bpr["engine"]) == (SETTINGS, "eager")
    assert [run["seed"] for run in bpr["runs"]] == [0, 1]
    assert [run["seed"] for run in popular["runs"]] == [None]
    versus = [row["versus"] for row in got["systems"]]
    assert versus[0] is None
    assert 0 < versus[1]["sign_flip_p"] <= 1
    assert got["counts"]["users"] == versus[1]["users"]
    assert json.loads((out / "compare.json").read_text()) | {"out": str(out)} == got
    assert (out / "compare.png").exists()
    again = sdgar(*words, "--out", out)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("before") == 3
    for said in ("ndcg@50", "± ", f"vs {got['against']}", "epochs=4", "sdgar train", "seeds"):
        assert said in again.stdout


def test_a_seed_of_a_comparison_is_the_run_that_train_makes(events, tmp_path):
    got = result_of(
        sdgar("compare", *given(events), "--systems", "bpr", "--seeds", 1, "--seed", 5, *QUICK,
              "--json")
    )  # fmt: skip
    words = ("--system", "bpr", "--seed", 5, *QUICK, "--out", tmp_path / "o", "--json")
    alone = result_of(sdgar("train", *given(events), *words))
    (run,) = got["systems"][0]["runs"]
    assert (run["seed"], run["metrics"]) == (5, alone["test"])
    assert run["best_epoch"] == alone["best_epoch"]


def test_a_setting_is_for_one_system_or_for_all_that_have_it(events):
    done = sdgar(
        "compare", *given(events), "--systems", "bpr,sa,popular", "--seeds", 1, *QUICK, "--set",
        "l2=0.03", "--set", "sa.l2=0.05", "--set", "sa.temperature=1", "--json",
    )  # fmt: skip
    chosen = {row["system"]: row["chosen"] for row in result_of(done)["systems"]}
    assert chosen == {
        "popular": {},
        "bpr": SETTINGS | {"l2": 0.03},
        "sa": SETTINGS | {"l2": 0.05, "temperature": 1.0},
    }


def test_compare_can_tune_every_system_first(events):
    done = sdgar(
        "compare", *given(events), "--systems", "popular,bpr", "--seeds", 1, *QUICK, "--tune", 2,
        "--set", "l2=0.02", "--json",
    )  # fmt: skip
    got = result_of(done)
    rows = {row["system"]: row for row in got["systems"]}
    assert got["trials"] == 2
    assert rows["popular"]["tuned"] is None
    tuned = rows["bpr"]["tuned"]
    assert [set(t["settings"]) for t in tuned["trials"]] == [{"learning_rate"}] * 2
    rate = tuned["best"]["settings"]["learning_rate"]
    assert rows["bpr"]["settings"]["learning_rate"] == rate


def test_tune_ends_with_a_line_that_trains_the_best(events, tmp_path):
    study = tmp_path / "study.jsonl"
    words = ("tune", events / "train.parquet", "--split", "paper", *QUICK, "--study", study)
    found = result_of(sdgar(*words, "--trials", 2, "--json"))
    assert len(found["trials"]) == 2
    assert found["defaults"]["settings"] == {"learning_rate": 0.15, "tau": 0.42, "l2": 0.1}
    assert found["best"]["value"] == max(t["value"] for t in found["trials"])
    more = sdgar(*words, "--trials", 3)
    assert more.returncode == 0, more.stderr
    assert more.stdout.count("before") == 2
    for said in ("learning_rate", "default", "best", "valid ndcg@50", "sdgar train"):
        assert said in more.stdout
    line = shlex.split(found["command"])
    assert line[:2] == ["sdgar", "train"]
    out = tmp_path / "run"
    trained = result_of(sdgar(*line[1:-1], out, "--json"))
    manifest = json.loads((out / "manifest.json").read_text())
    used = manifest["about"]["hyper_parameters"]
    assert used | SETTINGS | found["best"]["settings"] == used
    assert trained["best_epoch"] >= 1


def test_tuning_never_sees_the_rows_that_train_will_test_on(events, monkeypatch):
    seen = []

    def spy(base, train, valid=None, **more):
        seen.append(len(train))
        raise KeyboardInterrupt

    monkeypatch.setattr("sdgar.lab.tune.tune", spy)
    file = events / "train.parquet"
    total = pl.read_parquet(file).height
    test = events / "test.parquet"
    for words in (("--split", "none"), ("--test", test), ("--split", "paper")):
        assert sdgar("tune", file, *words).returncode == 130
    assert seen[:2] == [total, total]
    assert 0.75 * total < seen[2] < 0.85 * total


def of_bpr(*words: str) -> tuple[str, ...]:
    """Return the words of a comparison of BPR."""
    return "compare", "{train}", "--systems", "bpr", *words


BAD = {
    "no_file": (("compare", "nowhere.csv", "--systems", "bpr"), "nowhere.csv"),
    "unknown_system": (("compare", "{train}", "--systems", "bpr,sdgr"), "Did you mean 'sdgar'"),
    "no_system": (("compare", "{train}", "--systems", ","), "needs systems"),
    "twice": (("compare", "{train}", "--systems", "bpr,bpr"), "named twice"),
    "unknown_setting": (of_bpr("--set", "dimm=1"), "Did you mean 'dim'"),
    "of_another_system": (of_bpr("--set", "sdgar.l2=1"), "unknown compared system 'sdgar'"),
    "unknown_setting_of_a_system": (of_bpr("--set", "bpr.dimm=1"), "Did you mean 'dim'"),
    "seed_by_set": (of_bpr("--set", "bpr.seed=1"), "use --seed"),
    "no_seeds": (("compare", "{train}", "--seeds", "0"), "at least 1, got 0"),
    "no_test": (("compare", "{train}", "--split", "none"), "needs test rows"),
    "unknown_against": (of_bpr("--against", "pbr"), "Did you mean 'bpr'"),
    "foreign_out": (("compare", "{train}", "--out", "{folder}"), "not a comparison"),
    "nothing_to_tune": (("tune", "{train}", "--system", "popular"), "no settings to search"),
    "no_trials": (("tune", "{train}", "--trials", "0"), "at least 1, got 0"),
    "foreign_study": (("tune", "{train}", "--study", "{train}"), "is not a study"),
    "tune_unknown": (("tune", "{train}", "--system", "brp"), "Did you mean 'bpr'"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_gets_one_clear_message_and_leaves_nothing(case, events, tmp_path):
    words, message = BAD[case]
    train = events / "train.parquet"
    before = train.read_bytes()
    refuses(message, *(w.format(train=train, folder=events) for w in words), cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert train.read_bytes() == before


@pytest.mark.parametrize("words", [("tune",), ("compare", "--tune", "3")])
def test_missing_optuna_is_said_with_its_cure_before_anything_is_trained(
    words, events, monkeypatch
):
    monkeypatch.setitem(sys.modules, "optuna", None)
    said = 'pip install "sdgar[tune]"'
    refuses(said, words[0], events / "train.parquet", *words[1:], code=5)


OWN_SYSTEM = '''
from sdgar.extend import OBJECTIVES, SAMPLERS, STEPS, Choice, Factorized, register_system

@register_system("own-bpr", searched={"learning_rate": Choice((0.05, 0.2))})
class OwnBPR(Factorized):
    """BPR whose negatives are drawn by popularity."""

    def _make_objective(self, given):
        return OBJECTIVES["bpr"](given)

    def _make_sampler(self, given):
        return SAMPLERS["popularity"](given)
'''


def test_an_own_system_is_listed_compared_tuned_and_trained_by_its_name(
    events, tmp_path, monkeypatch
):
    monkeypatch.setattr(SYSTEMS, "_own", {})
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_system.py").write_text(OWN_SYSTEM)
    imported = ("--import", "own_system")

    def own(*words: object) -> object:
        return sdgar(*imported, *words, cwd=tmp_path)

    listed = result_of(own("systems", "--json"))["systems"]
    assert listed["own-bpr"] == "BPR whose negatives are drawn by popularity."
    got = result_of(own("compare", *given(events), "--systems", "own-bpr,bpr", *QUICK, "--json"))
    assert {row["system"] for row in got["systems"]} == {"own-bpr", "bpr"}
    words = ("tune", *given(events), "--system", "own-bpr", "--trials", 2, *QUICK, "--json")
    assert set(result_of(own(*words))["best"]["settings"]) >= {"learning_rate"}
    run = tmp_path / "run"
    words = ("train", *given(events), "--system", "own-bpr", "--out", run, *QUICK, "--json")
    assert result_of(own(*words))["system"] == "own-bpr"
    # A saved model answers without the module that its system came from.
    monkeypatch.setattr(SYSTEMS, "_own", {})
    answer = result_of(sdgar("recommend", run, "--user", 1, "--json"))
    assert answer["recommendations"][0]["items"]
