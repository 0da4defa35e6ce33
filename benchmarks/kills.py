"""Kill workers in the middle of epochs, and see that training resumes to a bit-identical model.

    python benchmarks/kills.py [--moments 10] [--json FILE]

SD-Softmax is trained on synthetic shards by one process, which gives the bytes that all others must
give. Then 2 and 4 workers train the same, and one of them is killed with SIGKILL at a moment that
is drawn from a seed: which worker, in which epoch, and how far into it. ``sdgar train --resume``
goes on, with 2 workers in both cases. With torchrun, whose ``--max-restarts`` starts workers again,
nothing has to be done after a kill.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import machine, options_of, write_report
from shards import make_direct

FILES = ("model.safetensors", "ids.safetensors", "history.safetensors")
N_SHARDS, TOGETHER, SEED, PATIENCE = 8, 4, 0, 600.0


class Training:
    """The trainings of one benchmark: the same data and settings, by other processes."""

    def __init__(self, args: Any, folder: Path, work: Path) -> None:
        self._folder, self._work, self._epochs = folder, work, args.epochs
        self._settings = [f"dim={args.dim}", f"epochs={args.epochs}", "sampler__states=8"]
        self._rng = random.Random(SEED)
        self.seconds = 0.0
        """The seconds of an epoch of the last training that was not killed."""

    def words(self, run: Path) -> list[str]:
        """Return the words of the command that begins a run."""
        words = ["train", str(self._folder), "--out", str(run), "--together", str(TOGETHER)]
        words += ["--test-users", "50", "--checkpoint-every", "0.5"]
        for setting in self._settings:
            words += ["--set", setting]
        return words

    def unbroken(self) -> str:
        """Train by one process, and return the digest of the model."""
        run = self._work / "one"
        ended(started([sys.executable, "-m", "sdgar", *self.words(run)]))
        log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
        self.seconds = sum(one["train_seconds"] for one in log) / len(log)
        return digest(run)

    def killed(self, count: int, *, torchrun: bool) -> dict[str, Any]:
        """Kill one worker, resume, and return what happened."""
        run = self._work / "run"
        number = self._rng.randrange(count)
        epoch, share = self._rng.randrange(1, self._epochs - 1), self._rng.random()
        words = [*self.words(run), *([] if torchrun else ["--workers", str(count)])]
        process = started([*launcher(count, torchrun=torchrun), *words])
        log = partial(run) / "log.jsonl"
        wait_for(lambda: log.exists() and lines(log) >= epoch, process)
        time.sleep(share * self.seconds)
        at = lines(log) if log.exists() else None
        kept = sorted(path.name for path in partial(run).glob("checkpoint-*"))
        os.kill(worker(process.pid, number), signal.SIGKILL)
        said = ended(process, failing=not torchrun)
        found_out = {
            "by": "torchrun" if torchrun else "--workers",
            "workers": count,
            "killed": number,
            "epochs before": at,
            "of the next": round(share, 2),
            "checkpoints": kept,
            "said": next((x for x in reversed(said.splitlines()) if "worker" in x), "")[:200],
        }
        if not torchrun:
            resume = ["train", "--resume", str(run), "--workers", "2"]
            ended(started([sys.executable, "-m", "sdgar", *resume]))
        found_out["sha256"] = digest(run)
        shutil.rmtree(run)
        return found_out


def launcher(count: int, *, torchrun: bool) -> list[str]:
    """Return the words before the command."""
    if not torchrun:
        return [sys.executable, "-m", "sdgar"]
    place = ["--nnodes", "1", "--nproc-per-node", str(count), "--max-restarts", "3"]
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", *place, "-m", "sdgar"]


def started(words: list[str]) -> subprocess.Popen[str]:
    """Start a command with one thread for each process."""
    wanted = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "400"}
    return subprocess.Popen(
        words, env=wanted, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def ended(process: subprocess.Popen[str], *, failing: bool = False) -> str:
    """Wait for the end of a command, and return what it said."""
    said = process.communicate(timeout=PATIENCE)[1]
    if bool(process.returncode) != failing:
        raise SystemExit(f"{process.args} ended with {process.returncode}: {said}")
    return said


def worker(pid: int, number: int) -> int:
    """Return the process that is the worker of this number, among a process and its children."""
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    for one in children:
        words = Path(f"/proc/{one}/environ").read_bytes().split(b"\0")
        if f"RANK={number}".encode() in words:
            return one
    return pid


def wait_for(happened: Any, process: subprocess.Popen[str]) -> None:
    """Wait until something has happened while a process runs."""
    limit = time.monotonic() + PATIENCE
    while not happened():
        if process.poll() is not None or time.monotonic() > limit:
            raise SystemExit(f"{process.args} was not there to be killed: {process.returncode}")
        time.sleep(0.01)


def partial(run: Path) -> Path:
    """Return the folder of a run that is not finished."""
    return run.with_name(f"{run.name}.partial")


def lines(file: Path) -> int:
    """Count the lines of a file."""
    return file.read_bytes().count(b"\n")


def digest(run: Path) -> str:
    """Return the digest of the files of a model."""
    found = hashlib.sha256()
    for name in FILES:
        found.update((run / name).read_bytes())
    return found.hexdigest()[:16]


def main() -> None:
    """Kill workers at all moments; write the report after each of them."""
    parser = options_of(
        __doc__,
        rows={"type": float, "default": 2e5},
        users={"type": int, "default": 10_000},
        items={"type": int, "default": 2_000},
        dim={"type": int, "default": 16},
        epochs={"type": int, "default": 12},
        moments={"type": int, "default": 10},
        restarts={"type": int, "default": 3},
    )
    args = parser.parse_args()
    if args.quick:
        args.rows, args.users, args.items, args.dim, args.moments, args.restarts = (
            2e4, 1000, 300, 8, 1, 0,
        )  # fmt: skip
    report = {
        **machine(),
        "protocol": "SIGKILL at moments of a seed, then sdgar train --resume with 2 workers",
        "seed": SEED,
        "rows": int(args.rows),
        **{name: getattr(args, name) for name in ("users", "items", "dim", "epochs")},
    }
    kills: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "data.shards"
        make_direct(folder, int(args.rows), args.users, args.items, N_SHARDS)
        training = Training(args, folder, Path(work))
        report["sha256 of one process"] = training.unbroken()
        report["seconds of an epoch"] = round(training.seconds, 3)
        for _ in range(args.moments):
            for count in (2,) if args.quick else (2, 4):
                kills.append(training.killed(count, torchrun=False))
                _print(args, report, kills)
        for _ in range(args.restarts):
            kills.append(training.killed(2, torchrun=True))
            _print(args, report, kills)


def _print(args: Any, report: dict[str, Any], kills: list[dict[str, Any]]) -> None:
    same = [one["sha256"] == report["sha256 of one process"] for one in kills]
    print(json.dumps(kills[-1]), flush=True)
    write_report(args.json, {**report, "load": os.getloadavg()[1], "same": same, "kills": kills})
    if not all(same):
        raise SystemExit("a run that was killed has gone on to another model")


if __name__ == "__main__":
    main()
