"""What several benchmarks share: the machine, timing in turns, data, options and processes."""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sdgar.systems.recipe import recipe_of

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from sdgar.data.interactions import Interactions
    from sdgar.engines.protocol import Engine
    from sdgar.systems.base import Estimator


THREADS = 2
ROOT = Path(__file__).parents[1]
REPORTS = Path(__file__).parent / "reports"
SHARED = Path(__file__).parents[2] / "shared" / "data"
"""Where the data sets are expected, next to the repository."""
CPU = torch.device("cpu")

Rounds = dict[str, list[float]]
"""The seconds of each round, by name."""


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a command that is measured: this one, and more.

    Python keeps compiled modules there, as it does unless it is told not to.
    """
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | more


# Options and reports


def options_of(doc: str | None, **more: dict[str, Any]) -> argparse.ArgumentParser:
    """Make the parser of a script: --json, --data and --quick, which tests use, and its own."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report here")
    parser.add_argument("--data", type=Path, metavar="DIR", default=SHARED)
    parser.add_argument("--quick", action="store_true", help="tiny data, to see that it runs")
    for name, how in more.items():
        parser.add_argument(f"--{name.replace('_', '-')}", **how)
    return parser


def write_report(path: Path | None, report: Mapping[str, Any]) -> None:
    """Write a report as JSON, if a place is given."""
    if path is not None:
        path.write_text(json.dumps(report, indent=2) + "\n")


def machine(*peers: str) -> dict[str, Any]:
    """Return what a report was made by and on: command, commit, processor, versions."""
    return {
        "command": " ".join(["python", *map(_without_paths, sys.argv)]),
        "commit": os.environ.get("COMMIT") or _say("git", "-C", str(ROOT), "rev-parse", "HEAD"),
        "cpu": _cpu(),
        "python": platform.python_version(),
        "versions": {n: _version(n) for n in ("sdgar", "torch", "numpy", "numba", *peers)},
    }


def _without_paths(word: str) -> str:
    """Return a word of a command without the paths of this machine."""
    if not Path(word).is_absolute():
        return word
    inside = Path(word).is_relative_to(ROOT)
    return str(Path(word).relative_to(ROOT)) if inside else Path(word).name


def about() -> dict[str, Any]:
    """Return the same for a report of the CPU compared with its peers."""
    return {**machine("implicit", "lightfm-next"), "threads": THREADS}


def device_name() -> str:
    """Name the GPU, or the kind of processor without one."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    for line in _say("lscpu").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "Model name":
            return f"{value.strip()} ({platform.machine()}), {os.cpu_count()} cores"
    return platform.machine()


def command_without(*places: str) -> str:
    """Return the command of this process without options that name places of this machine."""
    words = [Path(sys.argv[0]).name, *sys.argv[1:]]
    for option in places:
        if option in words:
            del words[words.index(option) : words.index(option) + 2]
    return f"benchmarks/{' '.join(words)}"


def _say(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


# Timing


def clocked(work: Callable[[], object]) -> Callable[[], float]:
    """Make a function that does the work and returns its seconds."""

    def run() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return run


def take_turns(runs: Mapping[str, Callable[[], float]], rounds: int) -> Rounds:
    """Make everyone run once a round, so that noise on a shared machine meets all of them."""
    seconds: Rounds = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            seconds[name].append(run())
    return seconds


def rate(positives: int, seconds: list[float]) -> float:
    """Return positives a second, by the median round."""
    return positives / statistics.median(seconds)


# Data and engines


def gowalla(data: Path = SHARED) -> tuple[str, Interactions]:
    """Return (source, training rows) of the authors' split, or of a synthetic set of its shape."""
    from sdgar.data.synthetic import synthetic

    path = data / "gowalla" / "train.parquet"
    if not path.exists():
        return "synthetic, Gowalla's shape", synthetic("gowalla", seed=0)
    return "gowalla", from_parquet(path)


def from_parquet(path: Path) -> Interactions:
    """Read the columns user and item."""
    import polars as pl

    from sdgar.data.interactions import Interactions

    rows = pl.read_parquet(path)
    return Interactions.from_arrays(rows["user"].to_numpy(), rows["item"].to_numpy())


def from_npz(path: Path) -> tuple[Interactions, Interactions]:
    """Read training and test rows that ``accuracy.py pack`` has written."""
    from sdgar.data.interactions import Interactions

    with np.load(path) as file:
        train, test = (
            Interactions.from_arrays(file[f"{part}_user"], file[f"{part}_item"])
            for part in ("train", "test")
        )
    return train, test


def as_matrix(data: Interactions) -> csr_matrix:
    """Return the rows as the matrix that peers are fitted to."""
    from scipy.sparse import csr_matrix

    ones_E, indptr_U1 = np.ones(len(data), np.float32), data.indptr_U1.astype(np.int32)
    return csr_matrix((ones_E, data.items_E, indptr_U1), shape=(data.n_users, data.n_items))


def make(name: str, recipe: Estimator, data: Interactions) -> Engine:
    """Make an engine by name for a recipe, on the CPU with seed 0."""
    from sdgar.engines.choose import ENGINES

    return ENGINES[name](
        recipe_of(recipe).compose(data, seed=0, device=CPU), data, seed=0, device=CPU
    )


def epochs(engine: Engine) -> Callable[[], float]:
    """Make a function that runs one more epoch; the first is run here, uncounted."""
    engine.run_epoch(1)
    numbers = iter(range(2, 1_000_000))
    return lambda: engine.run_epoch(next(numbers)).seconds


DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
FUSED = "fused-gpu" if DEVICE.type == "cuda" else "fused-cpu"
"""The engine of the device that is there."""
MOST_ITEMS_FOR_EASE = 10_000 if DEVICE.type == "cpu" else 60_000
"""The items up to which EASE takes part: two cores take some ten minutes for 25,000, as M³."""


class Watch:
    """Counts the seconds that were spent in its blocks, until the device is done."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
        self.seconds += time.perf_counter() - self._start


def sdsoftmax_engine(data: Interactions, **settings: Any) -> Engine:
    """Make SD-Softmax and run its first epoch between two refits, so that all is compiled."""
    from sdgar.engines.choose import ENGINES
    from sdgar.systems.sdsoftmax import SDSoftmax

    system = recipe_of(SDSoftmax(**settings)).compose(data, seed=0, device=DEVICE)
    engine = ENGINES[FUSED](system, data, seed=0, device=DEVICE)
    engine.refit(1)
    engine.run_epoch(1)
    engine.refit(2)
    return engine


def has_implicit() -> bool:
    """Return whether implicit takes part: where it is installed, and on the CPU."""
    return find_spec("implicit") is not None and DEVICE.type == "cpu"


# Processes


def answers(
    work: Callable[[Any], dict[str, Any]], jobs: Sequence[Any], processes: int
) -> Iterator[dict[str, Any]]:
    """Yield what ``work`` gives for each job, as it comes; an exception is {"job", "error"}."""
    if processes == 1:
        yield from (_answer(work, job) for job in jobs)
        return
    context = mp.get_context("spawn")
    todo, done = context.Queue(), context.Queue()
    for job in [*jobs, *[None] * processes]:
        todo.put(job)
    team = [context.Process(target=_member, args=(work, todo, done)) for _ in range(processes)]
    for process in team:
        process.start()
    for _ in jobs:
        yield done.get()
    for process in team:
        process.join()


def _member(work: Callable[[Any], dict[str, Any]], todo: mp.Queue, done: mp.Queue) -> None:
    torch.set_num_threads(1)
    while (job := todo.get()) is not None:
        done.put(_answer(work, job))


def _answer(work: Callable[[Any], dict[str, Any]], job: Any) -> dict[str, Any]:
    try:
        return work(job)
    except Exception as error:
        return {"job": job, "error": repr(error)}


def interval_of(ratios: list[float]) -> dict[str, float]:
    """Return the mean of some ratios and the ends of its interval, over their logarithms."""
    import numpy as np
    from scipy import stats

    logs = np.log(ratios)
    error = stats.sem(logs) * stats.t.ppf(0.975, len(logs) - 1) if len(logs) > 1 else 0.0
    ends = {"ratio": logs.mean(), "low": logs.mean() - error, "high": logs.mean() + error}
    return {name: round(float(np.exp(value)), 4) for name, value in ends.items()}


class Contestant:
    """A script with a version of sdgar, in a separate process, which answers line by line.

    The script is called with the word ``contestant`` first. Lines and answers are JSON.
    """

    def __init__(self, script: str, source: Path, *words: object) -> None:
        self._name = f"the version in {source}"
        self._process = subprocess.Popen(
            [sys.executable, script, "contestant", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(PYTHONPATH=str(source), SDGAR_VERBOSE="0"),
        )

    def answer(self) -> Any:
        """Wait for the next answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._name} ended before it answered")
        return json.loads(line)

    def ask(self, wanted: Any) -> Any:
        """Send a line, and wait for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(wanted) + "\n")
        self._process.stdin.flush()
        return self.answer()

    def end(self) -> None:
        """Make it go."""
        self._process.communicate()
