"""The command line as a user meets it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from sdgar.cli import main
from sdgar.cli.commands import command_of, registered
from sdgar.cli.options.training import DEFAULT_SYSTEM
from sdgar.cli.systems import _engines
from sdgar.data.synthetic import Shape, generate
from sdgar.engines.eager import EagerEngine
from sdgar.engines.protocol import Coverage
from sdgar.machine import cores
from sdgar.recommend.recommender import load

SMALL = Shape(users=120, items=80, interactions=2400, concentration=0.15, ids="text")
QUICK = ("--set", "epochs=6", "--set", "early_stopping__every=3", "--set", "batch_size=512")


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def sdgar(*words: object, cwd: Path | None = None) -> Done:
    """Run the command in this process: it is the same code, without another import of torch."""
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["sdgar", *map(str, words)])
        patch.setenv("COLUMNS", "200")
        if cwd is not None:
            patch.chdir(cwd)
        try:
            main.run()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def result_of(done: Done) -> dict:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def refuses(said: str, *words: object, code: int = 2, cwd: Path | None = None) -> None:
    """Run a command that ends with an exit code, and an error that has these words."""
    done = sdgar(*words, cwd=cwd)
    assert done.returncode == code, done.stderr
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def events(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("events")
    data = generate(SMALL, seed=0)
    frame = pl.DataFrame(
        {
            "user_id": data.users.at(data.users_E).tolist(),
            "item_id": data.items.at(data.items_E).tolist(),
            "ts": data.time_E // 1_000_000,
        }
    )
    frame.write_csv(folder / "events.csv")
    frame.drop("ts").write_parquet(folder / "pairs.parquet")
    test = frame.drop("ts").group_by("user_id", maintain_order=True).tail(3)
    test.write_parquet(folder / "test.parquet")
    frame.drop("ts").join(test, on=["user_id", "item_id"], how="anti").write_parquet(
        folder / "train.parquet"
    )
    return folder


@pytest.fixture(scope="module")
def trained(events) -> tuple[Path, dict]:
    out = events / "run"
    words = ("--system", "bpr", "--engine", "eager", "--json", *QUICK)
    done = sdgar("train", events / "events.csv", "--out", out, *words)
    return out, result_of(done)


def test_train_says_everything_a_machine_needs(trained):
    _, result = trained
    assert result["system"] == "bpr"
    assert result["engine"] == "eager"
    assert result["seed"] == 0
    assert result["protocol"] == "validated"
    assert 1 <= result["best_epoch"] <= result["epochs"] == 6
    assert set(result["seconds"]) == {"train", "refit", "evaluate", "total", "start", "memory"}
    assert result["seconds"]["total"] >= result["seconds"]["train"] > 0
    assert result["positives_per_second"] > 0
    assert 100 < result["data"]["users"] <= 120
    kinds = ("precision", "recall", "ndcg", "mrr", "map", "hit")
    keys = {f"{kind}@{k}" for kind in kinds for k in (10, 20, 50)}
    assert set(result["test"]) == set(result["valid"]) == set(result["most_popular"]) == keys
    low, high = result["test_intervals"]["ndcg@50"]
    assert low <= result["test"]["ndcg@50"] <= high


def test_a_run_holds_the_model_its_manifest_and_a_log_line_an_epoch(trained):
    out, result = trained
    assert sorted(p.name for p in out.iterdir()) == [
        "history.safetensors",
        "ids.safetensors",
        "log.jsonl",
        "manifest.json",
        "model.safetensors",
    ]
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [r["epoch"] for r in log if r["phase"] == "choose"] == [1, 2, 3, 4, 5, 6]
    assert len([r for r in log if r["phase"] == "final"]) == result["best_epoch"]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["about"]["report"]["test"] == result["test"]
    assert not list(out.parent.glob("*.partial"))


def test_the_same_command_gives_the_same_model_bytes_for_one_and_two_threads(events):
    words = ("train", events / "pairs.parquet", *QUICK, "--seed", "7", "--out")
    here, there = events / "here", events / "there"
    assert sdgar(*words, here).returncode == 0
    other = 1 if cores.threads() > 1 else 2
    subprocess.run(
        [sys.executable, "-m", "sdgar", *words, there],
        env=os.environ | {"OMP_NUM_THREADS": str(other)},
        check=True,
        capture_output=True,
    )
    one, two = ((out / "model.safetensors").read_bytes() for out in (here, there))
    assert one == two


def test_given_test_and_validation_files_are_used(events):
    train, test = events / "train.parquet", events / "test.parquet"
    result = result_of(
        sdgar(
            "train", train, "--test", test, "--valid", test, "--out", events / "given", "--json",
            *QUICK, "--k", "5",
        )
    )  # fmt: skip
    assert set(result["test"]) == {
        f"{m}@5" for m in ("precision", "recall", "ndcg", "mrr", "map", "hit")
    }
    # The final model was trained on training and validation rows, which here are the test rows:
    # none of them may be recommended any more.
    assert result["test"]["ndcg@5"] == 0


def test_the_papers_protocol_is_labelled(events):
    done = sdgar(
        "train", events / "train.parquet", "--test", events / "test.parquet", "--protocol",
        "paper", "--out", events / "paper", "--json", "--set", "batch_size=2048",
    )  # fmt: skip
    result = result_of(done)
    assert result["protocol"] == "paper"
    assert result["epochs"] == 75
    assert result["valid"] == {}
    assert "chosen on test rows" in done.stderr


def test_evaluate_repeats_the_numbers_of_train(events):
    train, test, out = events / "train.parquet", events / "test.parquet", events / "again"
    first = result_of(sdgar("train", train, "--test", test, "--out", out, "--json", *QUICK))
    for extra in ((), ("--train", train)):
        second = result_of(sdgar("evaluate", out, "--test", test, "--json", *extra))
        assert second["test"] == first["test"]
        assert second["most_popular"] == first["most_popular"]


def test_recommend_gives_k_unseen_items_as_a_table_as_json_and_as_a_file(trained, events):
    out, _ = trained
    table = sdgar("recommend", out, "--user", "user-0001", "-k", "3")
    answer = result_of(sdgar("recommend", out, "--user", "user-0001", "-k", "3", "--json"))
    [only] = answer["recommendations"]
    assert only["user"] == "user-0001"
    assert len(only["items"]) == 3
    assert all(entry["item"] in table.stdout for entry in only["items"])
    file = events / "lists.csv"
    assert sdgar("recommend", out, "--all", "-k", "3", "-o", file).returncode == 0
    frame = pl.read_csv(file)
    assert frame.height == 3 * frame["user"].n_unique()
    mine = frame.filter(pl.col("user") == "user-0001")["item"].to_list()
    assert mine == [entry["item"] for entry in only["items"]]


def test_explain_gives_reasons_with_shares_that_add_up_and_recommend_says_why(trained):
    out, _ = trained
    found = result_of(sdgar("explain", out, "--user", "user-0001", "-k", "2", "--json"))
    assert len(found["explained"]) == 2
    for one in found["explained"]:
        shares = [reason["share"] for reason in one["because"]]
        assert len(shares) == 3
        assert sum(shares) + one["rest"] == pytest.approx(one["score"])
    got = sdgar("explain", out, "--user", "user-0001", "-k", "1").stdout
    assert found["explained"][0]["because"][0]["item"] in got
    assert "(all the rest)" in got
    answer = result_of(sdgar("recommend", out, "--user", "user-0001", "-k", "2", "--why", "--json"))
    (one,) = answer["recommendations"]
    first = [entry["because"] for entry in one["items"]]
    assert first == [entry["because"][0]["item"] for entry in found["explained"]]
    assert "because of" in sdgar("recommend", out, "--user", "user-0001", "--why").stdout


def test_blend_saves_the_sum_of_two_models(trained, events):
    out, _ = trained
    words = ("--system", "local-ease", "--set", "neighbours=10", "--keep", "measured")
    assert sdgar("train", events / "events.csv", "--out", events / "near", *words).returncode == 0
    again = ("--system", "bpr", "--engine", "eager", "--keep", "measured", *QUICK)
    assert sdgar("train", events / "events.csv", "--out", events / "far", *again).returncode == 0
    both = events / "both"
    two = events / "far", events / "near"
    refuses("--gamma", "blend", *two, "--out", both)  # no weight, and nothing to choose it
    found = result_of(sdgar("blend", *two, "--out", both, "--gamma", "2", "--json"))
    assert (found["weight"], found["chosen_on"]) == (2.0, 0)
    assert "blend" in sdgar("info", both).stdout
    listed = result_of(sdgar("recommend", both, "--user", "user-0001", "-k", "3", "--json"))
    assert len(listed["recommendations"][0]["items"]) == 3
    others = (out, events / "near", "--out", events / "no", "--gamma", "1")
    refuses("Train both on the same events", "blend", *others)


def test_doctor_checks_engines_for_the_default_system_and_for_sdgar():
    class Choosy:
        """An engine that runs one of both."""

        @staticmethod
        def covers(system, device):
            if system.name == DEFAULT_SYSTEM:
                return Coverage(False, "it has no cosines")
            return Coverage(True, "it has all parts")

    assert _engines({"choosy": Choosy, "eager": EagerEngine}) == {
        "choosy": "sdsoftmax not here (it has no cosines); sdgar ready (it has all parts)",
        "eager": "ready (plain torch on cpu runs any composition)",
    }


def test_doctor_says_why_there_are_no_more_threads(monkeypatch):
    monkeypatch.setattr(cores, "found", lambda: cores.Cores(64, 16, 2.5, 16))
    assert (
        "64 cores, of which this process may run on 16, with a quota of 2.5; 3 threads used "
        "(the quota of this container is 2.5 cores)"
    ) in " ".join(sdgar("doctor").stdout.split())


def test_a_split_can_be_written_and_shared_by_several_runs(events, tmp_path):
    out = tmp_path / "parts"
    command = ("data", "split", events / "pairs.parquet", "--rule", "paper", "--out", out, "--json")
    made = result_of(sdgar(*command, "--seed", "5"))
    train, test = (pl.read_parquet(out / f"{name}.parquet") for name in ("train", "test"))
    assert (train.height, test.height) == (made["train"], made["test"])
    both = pl.concat([train, test]).sort("user", "item")
    whole = pl.read_parquet(events / "pairs.parquet").sort("user_id", "item_id")
    assert both.rows() == whole.rows()
    refuses("--overwrite", *command)


def test_synthetic_data_can_be_written_and_trained_on(tmp_path):
    file = tmp_path / "demo.parquet"
    words = ("data", "synthetic", "demo", "--out", file, "--json")
    assert result_of(sdgar(*words))["interactions"] == pl.read_parquet(file).height
    refuses("--overwrite", *words)


def test_citeulike_is_prepared_from_its_raw_file(shared_data, tmp_path):
    raw = shared_data / "citeulike-t" / "raw" / "users.dat"
    out = tmp_path / "citeulike"
    found = result_of(sdgar("data", "prepare", "citeulike", "--raw", raw, "--out", out, "--json"))
    assert (found["users"], found["interactions"]) == (7947, 134_860)
    stats = result_of(sdgar("data", "stats", out / "interactions.parquet", "--json"))
    assert stats["interactions"] == 134_860


def test_what_training_never_saw_is_counted_and_reported(events, tmp_path):
    frame = pl.read_parquet(events / "test.parquet")
    strangers = pl.DataFrame({"user_id": ["nobody", "user-0001"], "item_id": ["item-0001", "new"]})
    pl.concat([frame, strangers]).write_parquet(tmp_path / "test.parquet")
    done = sdgar(
        "train", events / "train.parquet", "--test", tmp_path / "test.parquet", "--out",
        tmp_path / "o", "--json", *QUICK,
    )  # fmt: skip
    counts = result_of(done)["test_counts"]
    assert (counts["unknown_users"], counts["unknown_user_rows"]) == (1, 1)
    seen = pl.read_parquet(events / "train.parquet")["item_id"]
    cold = frame.filter(~pl.col("item_id").is_in(seen.implode()))
    assert counts["cold_items"] == cold["item_id"].n_unique() + 1
    assert counts["cold_item_rows"] == cold.height + 1
    assert "1 test rows of 1 users that training never saw" in done.stderr
    assert f"{counts['cold_items']} test items that training never saw count" in done.stderr


def imported_by(*words: object) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "sdgar", *map(str, words)],
        capture_output=True,
        text=True,
    )
    return {line.rsplit("|", 1)[-1].strip().partition(".")[0] for line in done.stderr.splitlines()}


@pytest.mark.parametrize("words", [("--help",), ("train", "--help"), ("train", "--sytem", "x")])
def test_help_and_usage_errors_import_nothing_heavy(words):
    heavy = {"torch", "numpy", "polars", "numba", "scipy", "matplotlib"}
    assert not imported_by(*words) & heavy


def test_recommending_imports_neither_torch_nor_polars(trained):
    found = imported_by("recommend", trained[0], "--user", "user-0001", "-k", 3)
    assert not found & {"torch", "polars", "numba", "scipy", "matplotlib", "optuna"}
    assert "numpy" in found


@pytest.mark.parametrize("name", [name for name in registered() if ":" not in name])
def test_the_line_of_a_command_is_the_first_of_its_own_page(name):
    shown = (command_of(name).help or "").partition("\n\n")[0].replace("\n", " ")
    assert shown == registered()[name].line


def test_without_words_a_group_shows_its_page():
    for words in ((), ("data",)):
        done = sdgar(*words)
        assert (done.returncode, done.stderr) == (2, "")
        assert done.stdout == sdgar(*words, "--help").stdout


def test_options_are_listed_in_their_panels():
    shown = sdgar("train", "--help").stdout
    places = [shown.index(f"\n{panel}:\n") for panel in ("Arguments", "Options", "Columns")]
    assert places == sorted(places)
    assert shown.index("  --min-rating") > places[-1] > shown.index("  --seed INTEGER")


def on_events(*words: str) -> tuple[str, ...]:
    """Return the words of a training on the events."""
    return "train", "{events}/events.csv", "--out", "o", *words


BAD = {
    "no_file": (("train", "nowhere.csv", "--out", "o"), "nowhere.csv"),
    "no_out": (("train", "{events}/events.csv"), "--out"),
    "misspelt_command": (("trian",), "Did you mean 'train'?"),
    "misspelt_command_of_a_group": (("data", "stast"), "Did you mean 'stats'?"),
    "unknown_system": (on_events("--system", "brp"), "Did you mean 'bpr'"),
    "unknown_setting": (on_events("--set", "dimm=3"), "Did you mean 'dim'"),
    "setting_as_an_option": (on_events("--epochs", "3"), "written as --set epochs=…"),
    "setting_without_value": (on_events("--set", "dim"), "KEY=VALUE"),
    "setting_of_wrong_type": (on_events("--set", "l2=0,5"), "must be of type float"),
    "seed_by_set": (on_events("--set", "seed=3"), "use --seed"),
    "zero_dim": (on_events("--set", "dim=0"), "at least 1"),
    "zero_epochs": (on_events("--set", "epochs=0"), "epochs must be an integer of at least 1"),
    "negative_seed": (on_events("--seed", "-1"), "got -1"),
    "word_as_seed": (on_events("--seed", "abc"), "abc"),
    "huge_seed": (on_events("--seed", str(2**64)), "2^64 - 1"),
    "unknown_engine": (on_events("--engine", "warp"), "unknown engine 'warp'"),
    "no_gpu": (on_events("--device", "cuda"), "no GPU", 5),
    "unknown_protocol": (on_events("--protocol", "best"), "unknown protocol 'best'"),
    "unknown_split": (on_events("--split", "tme"), "Did you mean 'time'"),
    "paper_without_test": (on_events("--split", "none", "--protocol", "paper"), "there are none"),
    "two_presets": (on_events("--fast", "--thorough"), "Leave one of them out"),
    "preset_of_parts": (on_events("--thorough", "--sampler", "uniform"), "Leave one of them out"),
    "no_such_preset": (on_events("--system", "bpr", "--fast"), "sdsoftmax"),
    "parts_of_a_system": (on_events("--system", "bpr", "--sampler", "hardest"), "its own parts"),
    "parts_that_do_not_fit": (
        on_events("--sampler", "hardest", "--objective", "sdsoftmax"),
        "use objective bpr",
    ),
    "bad_k": (on_events("--k", "ten"), "got 'ten'"),
    "diverges": (on_events("--set", "learning_rate=1e38"), "Lower the learning rate", 6),
    "out_taken": (("train", "{events}/events.csv", "--out", "{events}"), "--overwrite"),
    "missing_column": (on_events("--user-column", "customer"), "user_id"),
    "no_model": (("recommend", "nowhere", "--all"), "is not a saved model", 4),
    "not_a_model": (("recommend", "{events}", "--all"), "holds no manifest.json", 4),
    "nobody": (("recommend", "{run}"), "--user ID"),
    "user_and_history": (("recommend", "{run}", "--user", "a", "--history", "b"), "--history"),
    "no_fold_in": (("recommend", "{run}", "--history", "item-0001"), "sdsoftmax"),
    "empty_history": (("recommend", "{run}", "--history", ","), "empty"),
    "no_reasons_of_nobody": (("explain", "{run}"), "--user ID"),
    "unknown_dataset": (
        ("data", "prepare", "citulike", "--raw", "x", "--out", "o"),
        "Did you mean 'citeulike'",
    ),
    "no_such_module": (("--import", "no_parts", "doctor"), "--import no_parts: No module named"),
    "unknown_preset": (("data", "synthetic", "dmo", "--out", "o.csv"), "Did you mean 'demo'"),
}
"""The words of a command, a part of its error, and its exit code if it is not 2."""


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_gets_one_clear_message_its_exit_code_and_leaves_nothing(
    case, events, trained, tmp_path
):
    words, message, *code = BAD[case]
    filled = [w.format(events=events, run=trained[0]) for w in words]
    refuses(message, *filled, code=code[0] if code else 2, cwd=tmp_path)
    left = [p.name for p in tmp_path.iterdir()]
    # A run that fails after its first epoch leaves its log; nothing else leaves anything.
    assert left in ([], ["o.partial"]) if case == "diverges" else left == []


def test_features_of_items_and_users_come_from_tables(events, tmp_path):
    frame = pl.read_csv(events / "events.csv")
    items, users = (frame[name].unique().sort() for name in ("item_id", "user_id"))
    table = tmp_path / "items.csv"
    kinds = [f"{'ab'[i % 2]}|{'xyz'[i % 3]}" for i in range(len(items))]
    pl.DataFrame({"id": items, "kind": kinds}).head(50).write_csv(table)
    pl.DataFrame({"who": users, "land": ["de"] * len(users)}).write_parquet(tmp_path / "u.parquet")
    tables = ("--item-features", table, "--user-features", tmp_path / "u.parquet")
    words = ("train", events / "events.csv", "--out", tmp_path / "run", *QUICK, "--set", "dim=8")
    done = sdgar(*words, *tables, "--discriminator", "two-tower")
    assert done.returncode == 0, done.stderr
    assert f"5 of items.csv, for 50 of {len(items)} items" in done.stdout
    assert f"1 of u.parquet, for {len(users)} of {len(users)} users" in done.stdout
    said = "Use discriminator two-tower (--discriminator two-tower), or leave the features out"
    for parts in ((), ("--discriminator", "lightgcn"), ("--system", "bpr")):
        refuses(said, *words, "--overwrite", *tables, *parts)
    pl.DataFrame({"row": range(len(items)), "id": items}).write_csv(table)
    words += ("--overwrite", *tables, "--discriminator", "two-tower")
    refuses("no item of the events has a row in", *words)


def test_a_context_of_two_fields_trains_evaluates_and_recommends(events, tmp_path):
    run = tmp_path / "run"
    words = ("--context", "user,daypart", *QUICK, "--set", "dim=8", "--json")
    done = sdgar("train", events / "events.csv", "--out", run, *words)
    result = result_of(done)
    assert 0 < result["test"]["ndcg@10"] <= 1
    assert result["engine"] == "fused-cpu"
    assert "is left out of their lists in all; --seen-by context" in " ".join(done.stderr.split())
    user, part = json.loads(load(run).users.values[0])
    done = sdgar(
        "recommend", run, "--user", user, "--context", f"daypart={part}", "-k", 3, "--json"
    )
    answer = result_of(done)["recommendations"][0]
    assert (answer["user"], answer["daypart"], len(answer["items"])) == (user, part, 3)
    shown = sdgar("recommend", run, "--user", user, "--context", f"daypart={part}").stdout
    assert "daypart" in shown
    for more, said in (
        ((), "add --context daypart=…"),
        (("--context", "daypart=noon", "--fallback", "error"), "the model has no daypart 'noon'"),
        (("--context", "daypart"), "takes FIELD=VALUE"),
        (("--context", f"daypart={part}", "--context", "daypart=night"), "given already"),
        (("--context", "user=x", "--context", f"daypart={part}"), "given already, by --user"),
    ):
        refuses(said, "recommend", run, "--user", user, *more)
    done = sdgar("evaluate", run, "--test", events / "events.csv", "--json")
    assert result_of(done)["users"] > 0
