"""Two versions of sdgar take turns: seconds of whole commands and calls, as ratios with intervals.

    python benchmarks/two_versions.py --before OTHER/src [--rounds 7] [--only fit] [--json FILE]

Each turn is a new process. Both versions take part in a round, in an order that alternates; the
first round is not counted, as it compiles kernels. A ratio is the time of the other version
over the time of this one: above 1, this one is quicker. Intervals are of Student's t over the
rounds' logarithms, with a confidence of 95 %. Epochs are compared by ``turns.py``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from common import (
    ROOT,
    command_without,
    environment,
    interval_of,
    machine,
    options_of,
    write_report,
)

CALL = """
import sys, time
import sdgar
rows = sdgar.read(sys.argv[1], verbose=False) if sys.argv[2] == "fit" else None
start = time.perf_counter()
if rows is None:
    sdgar.read(sys.argv[1], verbose=False)
else:
    sdgar.LocalEASE().fit(rows, verbose=False)
print(time.perf_counter() - start)
"""
"""Read rows, or fit ``local-ease`` to them, and print the seconds."""


def called(source: Path, rows: Path, what: str) -> float:
    """Return the seconds of a call within a new process, without its imports."""
    done = subprocess.run(
        [sys.executable, "-c", CALL, str(rows), what],
        env=environment(PYTHONPATH=str(source)), check=True, capture_output=True, text=True,
    )  # fmt: skip
    return float(done.stdout.split()[-1])


def commanded(source: Path, *words: object, status: int = 0) -> float:
    """Return the seconds of a command as a user waits for it; it must end with this status."""
    command = "from sdgar.__main__ import command; command()"
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", command, *map(str, words)],
        env=environment(PYTHONPATH=str(source)), capture_output=True, text=True,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    if done.returncode != status:
        raise SystemExit(f"sdgar {' '.join(map(str, words))} failed:\n{done.stderr}")
    return seconds


def made_rows(place: Path, rows: int) -> Path:
    """Write rows of integer ids with times, and return the file."""
    rng = np.random.default_rng(0)
    users = rng.integers(0, max(10, rows // 100), rows)
    items = (max(10, rows // 200) * rng.random(rows) ** 2).astype(np.int64)
    frame = pl.DataFrame({"user": users, "item": items, "time": 1_600_000_000 + np.arange(rows)})
    frame.write_parquet(place)
    return place


def cases(
    folder: Path, data: Path, sets: tuple[str, ...], rows: int
) -> dict[str, Callable[[str, Path], float]]:
    """Return what is measured by name: functions of a version's name and of its source."""
    large = made_rows(folder / "large.parquet", rows)
    found: dict[str, Callable[[str, Path], float]] = {
        "read": lambda _, source: called(source, large, "read"),
        "usage error": lambda _, source: commanded(source, "train", "--no-such-option", status=2),
    }
    for name in sets:
        train, test = data / name / "train.parquet", data / name / "test.parquet"

        def trained(version: str, source: Path, name=name, train=train, test=test) -> float:
            out = folder / f"{version}-{name}"
            return commanded(source, "train", train, "--test", test, "--out", out, "--overwrite")

        found[f"train {name}"] = trained
    name = sets[-1]
    rows_of_last = data / name / "train.parquet"
    user = pl.read_parquet(rows_of_last, n_rows=1)[0, 0]
    lists = folder / "lists.parquet"
    return found | {
        f"fit local-ease {name}": lambda _, source: called(source, rows_of_last, "fit"),
        f"recommend {name} --user": lambda version, source: commanded(
            source, "recommend", folder / f"{version}-{name}", "--user", user
        ),
        f"recommend {name} --all": lambda version, source: commanded(
            source, "recommend", folder / f"{version}-{name}", "--all", "-o", lists, "--overwrite"
        ),
    }


def measured(
    found: dict[str, Callable[[str, Path], float]], sources: dict[str, Path], rounds: int
) -> dict[str, Any]:
    """Return the median seconds of both versions and the interval of the ratio, for each case."""
    results = {}
    for what, case in found.items():
        seconds: dict[str, list[float]] = {name: [] for name in sources}
        for n in range(rounds + 1):
            order = list(sources) if n % 2 else list(reversed(sources))
            for name in order:
                took = case(name, sources[name])
                if n > 0:
                    seconds[name].append(took)
        medians = {name: round(float(np.median(all_)), 3) for name, all_ in seconds.items()}
        ratios = [b / n for b, n in zip(seconds["before"], seconds["now"], strict=True)]
        results[what] = medians | interval_of(ratios)
        row = results[what]
        print(
            f"{what:28}{row['before']:9.3f} s{row['now']:9.3f} s"
            f"   ratio {row['ratio']:.3f} [{row['low']:.3f}, {row['high']:.3f}]",
            flush=True,
        )
    return results


def main() -> None:
    """Measure, print and write."""
    parser = options_of(
        __doc__,
        before={"type": Path, "required": True, "help": "the src folder of another version"},
        rounds={"type": int, "default": 7, "help": "rounds that count"},
        only={"default": "", "help": "measure only what has this word in its name"},
    )
    options = parser.parse_args()
    data, sets, rows, rounds = options.data, ("citeulike-t", "gowalla"), 10_000_000, options.rounds
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if options.quick:
            data, sets, rows, rounds = folder, ("tiny",), 600, 1
            (folder / "tiny").mkdir()
            for part in ("train", "test"):
                made_rows(folder / "tiny" / f"{part}.parquet", 600)
        sources = {"before": options.before, "now": ROOT / "src"}
        wanted = cases(folder, data, sets, rows)
        some = {name: case for name, case in wanted.items() if options.only in name}
        found = measured(some, sources, rounds)
    about = {**machine(), "command": command_without("--before")}
    write_report(options.json, {**about, "rounds": rounds, "cases": found})


if __name__ == "__main__":
    main()
