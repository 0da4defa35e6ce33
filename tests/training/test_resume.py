"""An interrupted run resumes to the very bytes of an unbroken one, however it was interrupted."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from sdgar.cli import main
from sdgar.data import splits
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import Shape, generate
from sdgar.engines.eager import EagerEngine
from sdgar.engines.fused.cpu import FusedCpuEngine
from sdgar.errors import ArtifactError, ResourceError, UsageError
from sdgar.recommend import artifact
from sdgar.runs import workspace
from sdgar.runs.run import RunData, run
from sdgar.storage import folders, sealed
from sdgar.systems.bpr import BPR
from sdgar.systems.irgan import IRGAN
from sdgar.systems.learner import Learner
from sdgar.systems.sdgar import SDGAR
from sdgar.systems.solver import MostPopular
from sdgar.training import fitting

SMALL = Shape(users=60, items=40, interactions=900, concentration=0.1)
MODEL = "model.safetensors"
QUICK = {
    "epochs": 6,
    "early_stopping__every": 2,
    "early_stopping__patience": 2,
    "batch_size": 256,
    "dim": 4,
}
QUICK |= {"engine": "eager"}  # whose epochs and state the tests interfere with
QUICK |= {"optimizer": "lazy-adam", "learning_rate": 4e-3}
GENERATOR = {"sampler__states": 4, "sampler__samples": 8, "sampler__refit_every": 2}
SYSTEMS = {
    "bpr": lambda: BPR(**QUICK),
    "sdgar": lambda: SDGAR(**QUICK, **GENERATOR),
    "compiled": lambda: SDGAR(
        **QUICK | {"engine": "fused-cpu", "optimizer": "adagrad", "device": "cpu"}, **GENERATOR
    ),
    "irgan": lambda: IRGAN(
        **QUICK, sampler__pretrain=2, sampler__batch_size=16, sampler__samples=4
    ),
}


# The protocol decides on the passes, whatever the system.
CRASHING = [*((name, "validated") for name in sorted(SYSTEMS)), ("sdgar", "paper")]


@dataclass
class Data:
    train: Interactions
    test: Interactions


@pytest.fixture(scope="module")
def data() -> Data:
    parts = splits.split(generate(SMALL, seed=0), "paper", seed=0)
    return Data(parts.train, parts.held_out)


@pytest.fixture(autouse=True)
def _short_paper(monkeypatch):
    monkeypatch.setattr(fitting, "PAPER_EPOCHS", 10)


def train(estimator: Learner, data: Data, out: Path, protocol: str = "validated", **more):
    more = {"checkpoint_every": 0.0, **more}
    return run(estimator, RunData(train=data.train, test=data.test), out, protocol=protocol, **more)


class CrashError(Exception):
    """Something went wrong in the middle."""


def train_crashing(epochs: int, *args, **kwargs) -> bool:
    """Train, but fail when ``epochs`` epochs were run; whether the run got through before."""
    left = [epochs]

    def counting(run_epoch):
        def counted(self, epoch):
            if left[0] == 0:
                raise CrashError
            left[0] -= 1
            return run_epoch(self, epoch)

        return counted

    with pytest.MonkeyPatch.context() as patch:
        for engine in (EagerEngine, FusedCpuEngine):
            patch.setattr(engine, "run_epoch", counting(engine.run_epoch))
        try:
            train(*args, **kwargs)
        except CrashError:
            return False
    return True


@pytest.fixture(scope="module")
def unbroken(data, tmp_path_factory) -> dict[tuple[str, str], Path]:
    folder = tmp_path_factory.mktemp("unbroken")
    done = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "PAPER_EPOCHS", 10)
        for name, protocol in CRASHING:
            out = folder / f"{name}-{protocol}"
            train(SYSTEMS[name](), data, out, protocol)
            done[name, protocol] = out
    return done


def logged_in(log: Path) -> list[dict]:
    """The lines of a log without their times, which no two runs share."""
    records = [json.loads(line) for line in log.read_text().splitlines()]
    return [{k: v for k, v in r.items() if not k.endswith("_seconds")} for r in records]


@pytest.mark.parametrize(("system", "protocol"), CRASHING)
def test_a_run_that_crashes_after_every_epoch_still_ends_and_ends_the_same(
    system, protocol, data, unbroken, tmp_path
):
    out, whole = tmp_path / "run", unbroken[system, protocol]
    epochs = logged_in(whole / "log.jsonl")
    tries = 1
    while not train_crashing(1, SYSTEMS[system](), data, out, protocol, resume=tries > 1):
        assert not out.exists()
        assert len(logged_in(tmp_path / "run.partial" / "log.jsonl")) == tries
        tries += 1
    assert tries == len(epochs)
    assert (out / MODEL).read_bytes() == (whole / MODEL).read_bytes()
    assert logged_in(out / "log.jsonl") == epochs
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_epochs_after_the_last_checkpoint_are_run_again_to_the_same_model(data, unbroken, tmp_path):
    out = tmp_path / "run"
    epochs = logged_in(unbroken["bpr", "validated"] / "log.jsonl")
    assert not train_crashing(5, BPR(**QUICK), data, out, checkpoint_every=1e6)
    assert not list((tmp_path / "run.partial").glob("checkpoint-*"))
    reported: list[str] = []
    train(BPR(**QUICK), data, out, resume=True, notify=reported.append)
    assert reported == ["there is no checkpoint yet: starting with the first epoch"]
    assert logged_in(out / "log.jsonl") == epochs
    assert (out / MODEL).read_bytes() == (unbroken["bpr", "validated"] / MODEL).read_bytes()


@pytest.mark.parametrize("part", ["optimizer.", "sampler."])
def test_were_a_part_of_the_state_forgotten_these_tests_would_notice(
    part, data, unbroken, tmp_path, monkeypatch
):
    """A negative control: an optimiser or a generator of the first epoch leads elsewhere."""
    state = EagerEngine.state
    fresh: dict[str, torch.Tensor] = {}

    def forgetful(self):
        kept = state(self)
        fresh.update({k: v for k, v in kept.items() if k.startswith(part) and k not in fresh})
        return {**kept, **fresh}

    out = tmp_path / "run"
    monkeypatch.setattr(EagerEngine, "state", forgetful)
    assert not train_crashing(4, SYSTEMS["sdgar"](), data, out, "paper")
    train(SYSTEMS["sdgar"](), data, out, "paper", resume=True)
    whole = unbroken["sdgar", "paper"]
    assert (out / MODEL).read_bytes() != (whole / MODEL).read_bytes()
    assert logged_in(out / "log.jsonl")[:4] == logged_in(whole / "log.jsonl")[:4]
    assert logged_in(out / "log.jsonl")[4:] != logged_in(whole / "log.jsonl")[4:]


def test_seconds_are_summed_over_restarts(data, tmp_path):
    out = tmp_path / "run"
    assert not train_crashing(3, BPR(**QUICK), data, out)
    newest = tmp_path / "run.partial" / "checkpoint-000003"
    before = json.loads((newest / "loop.json").read_text())
    result = train(BPR(**QUICK), data, out, resume=True)
    assert result.summary["seconds"]["total"] >= before["seconds"] > 0
    assert result.summary["seconds"]["train"] == pytest.approx(
        sum(record.train_seconds for _, record in result.log), abs=1e-3
    )
    assert [r.as_dict() for _, r in result.log[:3]] == before["log"]


def test_an_estimator_without_epochs_needs_no_checkpoint(data, tmp_path):
    train(MostPopular(), data, tmp_path / "run")
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_a_disk_that_fails_in_the_middle_ends_the_run_loudly_and_it_can_go_on(
    number, data, unbroken, tmp_path, monkeypatch
):
    out = tmp_path / "run"
    write, calls = folders.write, [0]

    def fail_later(path, content):
        calls[0] += 1
        if calls[0] > 6:
            raise OSError(number, os.strerror(number))
        write(path, content)

    monkeypatch.setattr(folders, "write", fail_later)
    with pytest.raises(ResourceError, match=rf"run\.partial.*\[Errno {number}\]"):
        train(BPR(**QUICK), data, out)
    monkeypatch.undo()
    monkeypatch.setattr(fitting, "PAPER_EPOCHS", 10)
    reported: list[str] = []
    train(BPR(**QUICK), data, out, resume=True, notify=reported.append)
    assert reported == ["resuming after epoch 2 of pass 'choose'"]
    assert (out / MODEL).read_bytes() == (unbroken["bpr", "validated"] / MODEL).read_bytes()


def test_a_damaged_checkpoint_costs_an_epoch_not_the_run(data, unbroken, tmp_path):
    out = tmp_path / "run"
    assert not train_crashing(4, BPR(**QUICK), data, out)
    state = tmp_path / "run.partial" / "checkpoint-000004" / "state.safetensors"
    flipped = bytearray(state.read_bytes())
    flipped[-7] ^= 1
    state.write_bytes(bytes(flipped))
    reported: list[str] = []
    train(BPR(**QUICK), data, out, resume=True, notify=reported.append)
    assert "checkpoint-000004/state.safetensors is damaged: its SHA-256" in reported[0]
    assert reported[1] == "resuming after epoch 3 of pass 'choose'"
    assert (out / MODEL).read_bytes() == (unbroken["bpr", "validated"] / MODEL).read_bytes()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"estimator": BPR(**QUICK | {"dim": 5})}, "dim was 4, is now 5"),
        ({"estimator": BPR(**QUICK, seed=1)}, "seed was 0, is now 1"),
        ({"estimator": SDGAR(**QUICK)}, "system was 'bpr', is now 'sdgar'"),
        ({"protocol": "paper"}, "protocol was 'validated', is now 'paper'"),
    ],
)
def test_going_on_with_anything_else_is_refused_by_name(change, named, data, tmp_path):
    out = tmp_path / "run"
    assert not train_crashing(2, BPR(**QUICK), data, out)
    before = sorted(p.name for p in (tmp_path / "run.partial").rglob("*"))
    with pytest.raises(ArtifactError, match=named) as error:
        train(**{"estimator": BPR(**QUICK)} | change, data=data, out=out, resume=True)
    assert error.value.exit_code == 4
    assert "--overwrite" in str(error.value)
    assert sorted(p.name for p in (tmp_path / "run.partial").rglob("*")) == before


def test_two_runs_do_not_train_in_one_place(data, tmp_path):
    out = tmp_path / "run"
    refused = []

    def try_too(_phase, epoch):
        if epoch.epoch == 2:
            for more in ({}, {"overwrite": True}, {"resume": True}):
                with pytest.raises(UsageError, match=f"another run .process {os.getpid()}") as e:
                    train(BPR(**QUICK), data, out, **more)
                refused.append(e.value.code)

    train(BPR(**QUICK), data, out, on_epoch=try_too)
    assert set(refused) == {"locked"}
    artifact.load(out)


def test_the_lock_of_a_dead_process_is_no_lock(data, unbroken, tmp_path):
    out = tmp_path / "run"
    assert not train_crashing(2, BPR(**QUICK), data, out)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (tmp_path / "run.partial" / "lock").write_text(str(dead.pid))
    train(BPR(**QUICK), data, out, resume=True)
    assert (out / MODEL).read_bytes() == (unbroken["bpr", "validated"] / MODEL).read_bytes()


def test_a_fresh_run_does_not_overrun_an_interrupted_one_unless_requested(data, unbroken, tmp_path):
    out = tmp_path / "run"
    assert not train_crashing(2, BPR(**QUICK), data, out)
    with pytest.raises(UsageError, match=r"--resume .*run; or start over with --overwrite"):
        train(BPR(**QUICK), data, out)
    train(BPR(**QUICK), data, out, overwrite=True)
    assert (out / MODEL).read_bytes() == (unbroken["bpr", "validated"] / MODEL).read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_a_folder_of_other_things_is_never_taken_for_an_interrupted_run(data, tmp_path):
    (tmp_path / "run.partial").mkdir()
    (tmp_path / "run.partial" / "thesis.txt").write_text("years of work")
    for more in ({}, {"overwrite": True}, {"resume": True}):
        with pytest.raises(UsageError):
            train(BPR(**QUICK), data, tmp_path / "run", **more)
    assert (tmp_path / "run.partial" / "thesis.txt").read_text() == "years of work"


def test_killed_between_saving_and_tidying_a_run_is_finished(data, tmp_path, monkeypatch):
    out = tmp_path / "run"
    monkeypatch.setattr(workspace, "_tidy", lambda _: None)
    train(BPR(**QUICK), data, out)
    monkeypatch.undo()
    assert (tmp_path / "run.partial").exists()
    saved = (out / "manifest.json").read_bytes()
    with pytest.raises(UsageError, match="is finished"):
        train(BPR(**QUICK), data, out, resume=True)
    assert (out / "manifest.json").read_bytes() == saved
    assert not (tmp_path / "run.partial").exists()


def test_a_model_that_came_there_meanwhile_is_not_replaced_unasked(data, unbroken, tmp_path):
    out = tmp_path / "run"
    assert not train_crashing(2, BPR(**QUICK), data, out)
    train(MostPopular(), data, tmp_path / "other")
    (tmp_path / "other").rename(out)
    with pytest.raises(UsageError, match="exists and is not empty"):
        train(BPR(**QUICK), data, out, resume=True)
    train(BPR(**QUICK), data, out, resume=True, overwrite=True)
    assert (out / MODEL).read_bytes() == (unbroken["bpr", "validated"] / MODEL).read_bytes()


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", *(b'{"format": "sdgar-run", "format_version": %d}' % n for n in (1, 9))],
)
def test_a_description_that_cannot_be_read_is_refused(content, data, tmp_path):
    (tmp_path / "run.partial").mkdir()
    (tmp_path / "run.partial" / "run.json").write_bytes(content)
    with pytest.raises(ArtifactError) as error:
        train(BPR(**QUICK), data, tmp_path / "run", resume=True)
    assert error.value.code == "damaged"


# The command line.

WORDS = ("--engine", "eager", "--set", "epochs=6", "--set", "early_stopping__every=2")
WORDS += ("--set", "batch_size=256", "--set", "dim=8", "--set", "n_negatives=8")


@pytest.fixture(scope="module")
def events(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("events") / "events.csv"
    write_events(file, seed=0)
    return file


def write_events(file: Path, *, seed: int) -> None:
    data = generate(SMALL, seed=seed)
    pl.DataFrame(
        {
            "user": data.users.at(data.users_E).tolist(),
            "item": data.items.at(data.items_E).tolist(),
        }
    ).write_csv(file)


def sdgar(*words: object) -> int:
    """Run the command in this process; its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["sdgar", *map(str, words)])
        try:
            main.run()
        except SystemExit as stop:
            return int(stop.code or 0)
    return 0


@pytest.fixture(scope="module")
def whole(events, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    assert sdgar("train", events, "--out", out, *WORDS) == 0
    return out


def signal_after(patch: pytest.MonkeyPatch, epochs: int, numbers: tuple[int, ...]) -> None:
    """Send this process signals while it writes the line of an epoch."""
    record, left = workspace.Workspace.record, [epochs]

    def recording(self, phase, epoch):
        record(self, phase, epoch)
        left[0] -= 1
        if left[0] == 0:
            for number in numbers:
                os.kill(os.getpid(), number)

    patch.setattr(workspace.Workspace, "record", recording)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("epochs", [1, 5, 7])
def test_a_signal_ends_the_run_after_the_epoch_and_it_goes_on_to_the_same_model(
    number, code, epochs, events, whole, tmp_path, monkeypatch, capfd
):
    out = tmp_path / "run"
    before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]
    with monkeypatch.context() as patch:
        signal_after(patch, epochs, (number,))
        assert sdgar("train", events, "--out", out, *WORDS) == code
    assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)] == before
    said = " ".join(capfd.readouterr().err.split())
    assert f"stopped by {number.name} after epoch" in said
    assert f"sdgar train --resume {out}" in said
    assert not out.exists()
    monkeypatch.chdir("/")
    assert sdgar("train", "--resume", out) == 0
    assert (out / MODEL).read_bytes() == (whole / MODEL).read_bytes()
    assert logged_in(out / "log.jsonl") == logged_in(whole / "log.jsonl")
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_a_second_signal_ends_the_run_at_once_and_the_last_checkpoint_is_good(
    events, whole, tmp_path, monkeypatch
):
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        signal_after(patch, 3, (signal.SIGTERM, signal.SIGTERM))
        assert sdgar("train", events, "--out", out, *WORDS, "--checkpoint-every", 0) == 143
    assert (tmp_path / "run.partial" / "checkpoint-000002").is_dir()
    assert not (tmp_path / "run.partial" / "checkpoint-000003").exists()
    assert sdgar("train", "--resume", out) == 0
    assert (out / MODEL).read_bytes() == (whole / MODEL).read_bytes()


def interrupted(events: Path, out: Path, *words: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        signal_after(patch, 3, (signal.SIGTERM,))
        assert sdgar("train", events, "--out", out, *WORDS, *words) == 143


def test_files_that_changed_meanwhile_are_noticed(tmp_path, capfd):
    events, out = tmp_path / "events.csv", tmp_path / "run"
    write_events(events, seed=0)
    interrupted(events, out)
    write_events(events, seed=1)
    capfd.readouterr()
    assert sdgar("train", "--resume", out) == 4
    said = " ".join(capfd.readouterr().err.split())
    assert re.search("training data was '[0-9a-f]{64}', is now '[0-9a-f]{64}'", said)
    assert re.search("test data was '[0-9a-f]{64}', is now '[0-9a-f]{64}'", said)
    assert "seed was" not in said
    write_events(events, seed=0)
    assert sdgar("train", "--resume", out) == 0


def test_a_command_that_was_edited_meanwhile_is_noticed(events, tmp_path, capfd):
    out = tmp_path / "run"
    interrupted(events, out)
    file = tmp_path / "run.partial" / "run.json"
    described = json.loads(file.read_text())
    described["command"]["settings"]["dim"] = 7
    described["identity"]["dim"] = 7
    file.write_text(json.dumps(described))
    assert sdgar("train", "--resume", out) == 4
    assert "does not fit its seal" in capfd.readouterr().err
    del described["seal"]
    file.write_text(json.dumps(sealed.with_seal(described)))
    assert sdgar("train", "--resume", out) == 4
    assert "dim was 8, is now 7" in capfd.readouterr().err
    described["command"]["colour"] = "blue"
    file.write_text(json.dumps(sealed.with_seal(described)))
    assert sdgar("train", "--resume", out) == 4
    assert "run.json is damaged" in capfd.readouterr().err


def test_resume_takes_no_other_settings(events, tmp_path, capfd):
    out = tmp_path / "run"
    interrupted(events, out)
    assert sdgar("train", events, "--resume", out, "--seed", 3, "--user-column", "user") == 2
    assert "leave out TRAIN, --seed, --user-column." in capfd.readouterr().err
    assert sdgar("train", "--resume", out, "--checkpoint-every", 0, "--json") == 0
    assert json.loads(capfd.readouterr().out.splitlines()[-1])["out"] == str(out)


def test_what_cannot_continue_is_said(events, whole, tmp_path, capfd):
    assert sdgar("train", "--resume", whole) == 2
    assert f"the run {whole} is finished" in capfd.readouterr().err
    assert sdgar("train", "--resume", tmp_path / "nothing") == 2
    assert "there is no interrupted run" in capfd.readouterr().err
    assert sdgar("train") == 2
    assert sdgar("train", events) == 2
    assert "needs files of events and --out RUN" in capfd.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == []


def test_a_run_that_no_command_started_is_not_resumed_by_one(data, tmp_path, capfd):
    out = tmp_path / "run"
    assert not train_crashing(2, BPR(**QUICK), data, out)
    assert sdgar("train", "--resume", out) == 2
    assert "was not started by `sdgar train`" in capfd.readouterr().err


def test_all_that_was_said_is_remembered(tmp_path, monkeypatch):
    """Names of columns, rules, lists: an unusual command resumes as it began."""
    data = generate(SMALL, seed=0)
    table = pl.DataFrame({"who": data.users_E, "what": data.items_E, "n": data.items_E % 3 + 1})
    table.write_csv(tmp_path / "a.csv", include_header=False)
    words = ["--columns", "who,what,n", "--user-column", "who", "--item-column", "what"]
    words += ["--weight-column", "n", "--duplicates", "max", "--split", "paper", "--k", "5,7"]
    words += ["--seed", "3", "--system", "sdgar", "--set", "sampler__states=4"]
    words += ["--set", "hold_weights=true"]
    monkeypatch.chdir(tmp_path)
    assert sdgar("train", "a.csv", "--out", "whole", *WORDS, *words) == 0
    interrupted(Path("a.csv"), Path("cut"), *words)
    monkeypatch.chdir("/")
    assert sdgar("train", "--resume", tmp_path / "cut") == 0
    assert (tmp_path / "cut" / MODEL).read_bytes() == (tmp_path / "whole" / MODEL).read_bytes()
    one, two = (artifact.load(tmp_path / name).about["report"] for name in ("whole", "cut"))
    assert one["test"] == two["test"]
    assert set(one["test"]) >= {"ndcg@5", "ndcg@7"}


# Real kills. Importing torch takes seconds, so one process imports and forks for every command;
# it warms up what is imported late, but for autograd, which must not be used before a fork.
TRAINER = """
import json, os, signal, sys, time
sys.modules["torch._dynamo"] = None  # the import of torch's compiler takes seconds, for nothing
import torch
import rich.progress, rich.table
import sdgar, sdgar.cli.app, sdgar.data.readers, sdgar.runs.run, sdgar.systems.bpr
from sdgar.cli import main
from sdgar.engines.choose import choose_engine
from sdgar.systems.recipe import recipe_of
data = sdgar.Interactions.from_arrays([0, 1, 2, 0], [0, 1, 2, 1])
sdgar.MostPopular().fit(data).evaluate(data)
system = recipe_of(sdgar.SDGAR(sampler__states=2)).compose(data, seed=0)
cpu = torch.device("cpu")
choose_engine("eager", system, cpu)[0](system, data, seed=0, device=cpu).refit(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
print("ready", flush=True)
for line in sys.stdin:
    words, kill_after = json.loads(line)
    child = os.fork()
    if child == 0:
        os.dup2(2, 1)
        sys.argv = ["sdgar", *words]
        code = 0
        try:
            main.run()
        except SystemExit as stop:
            code = stop.code or 0
        finally:
            os._exit(code)
    if kill_after is not None:
        until, look = time.monotonic() + kill_after, os.WEXITED | os.WNOHANG | os.WNOWAIT
        while time.monotonic() < until and os.waitid(os.P_PID, child, look) is None:
            time.sleep(0.005)
        os.kill(child, signal.SIGKILL)  # one that has ended keeps its number until waited for
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Trainer:
    """Runs commands in children that can be killed."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", TRAINER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        return self.process.stdout.readline().strip()

    def __call__(self, *words: object, kill_after: float | None = None) -> int:
        self.process.stdin.write(json.dumps([[*map(str, words)], kill_after]) + "\n")
        self.process.stdin.flush()
        return int(self._line())


@pytest.fixture
def trainer() -> Iterator[Trainer]:
    trainer = Trainer()
    yield trainer
    trainer.process.stdin.close()
    trainer.process.wait()
    trainer.process.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize("each", [3, pytest.param(15, marks=pytest.mark.exhaustive)])
def test_kill_9_at_random_moments_still_ends_in_the_same_bytes(trainer, events, tmp_path, each):
    """Two systems, each killed some times, in as many runs as that takes."""
    rng = np.random.default_rng(0)
    settings = ("--set", "sampler__states=4", "--set", "sampler__refit_every=2")
    commands = {"bpr": ("--system", "bpr"), "sdgar": ("--system", "sdgar", *settings)}
    shared = ("--engine", "eager", "--set", "epochs=6", "--set", "early_stopping__every=3")
    shared += ("--set", "batch_size=256", "--checkpoint-every", 0)
    kills, found = 0, []
    for name, words in commands.items():
        start = time.monotonic()
        assert trainer("train", events, "--out", tmp_path / name, *words, *shared) == 0
        length = time.monotonic() - start
        out, runs, killed_here = tmp_path / f"{name}-killed-0", 0, 0
        while killed_here < each:
            partial = workspace.partial_of(out)
            command = ("--resume", out) if partial.exists() else (events, "--out", out)
            command += () if partial.exists() else (*words, *shared)
            code = trainer("train", *command, kill_after=rng.uniform(0, length))
            if code == -signal.SIGKILL:
                killed_here += 1
                found.append(len(list(partial.glob("checkpoint-*"))))
                if out.exists():  # in the moment between saving and tidying
                    assert trainer("train", "--resume", out) == 2
            else:
                assert code == 0
            if out.exists():
                assert (out / MODEL).read_bytes() == (tmp_path / name / MODEL).read_bytes()
                runs += 1
                out = tmp_path / f"{name}-killed-{runs}"
        kills += killed_here
        if workspace.partial_of(out).exists():
            assert trainer("train", "--resume", out) == 0
            assert (out / MODEL).read_bytes() == (tmp_path / name / MODEL).read_bytes()
            assert logged_in(out / "log.jsonl") == logged_in(tmp_path / name / "log.jsonl")
    assert kills == 2 * each
    assert any(found)  # a checkpoint was there when at least one came
    assert not list(tmp_path.glob("*.partial"))  # those being removed are hidden at once
