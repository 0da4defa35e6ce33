"""Seconds of the first ``sdgar train`` on a machine, which compiles, and of the second.

    python benchmarks/first_use.py [--before OTHER/src] [--rounds 3] [--json FILE]

The command trains the default system on synthetic rows, from Parquet to a saved model. Each round
has two commands of each version, of which the first begins with an empty folder of compiled code.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl

from common import ROOT, environment, machine, options_of, write_report
from sdgar.data.synthetic import Shape, generate

ROWS = Shape(users=1_000, items=1_500, interactions=50_000, concentration=0.3)
FEW_ROWS = Shape(users=60, items=40, interactions=600, concentration=0.15)


def run(source: Path, cache: Path, *words: str) -> None:
    """Run a command that imports sdgar from a folder."""
    subprocess.run(
        [sys.executable, "-c", "from sdgar.__main__ import command; command()", *words],
        env=environment(PYTHONPATH=str(source), XDG_CACHE_HOME=str(cache)),
        check=True, capture_output=True,
    )  # fmt: skip


def seconds_of(source: Path, rows: Path, cache: Path) -> float:
    """Return the seconds of a training."""
    start = time.perf_counter()
    run(source, cache, "train", str(rows), "--out", str(cache / "model"), "--overwrite")
    return time.perf_counter() - start


def commit_of(source: Path) -> str:
    """Return the commit of a checkout."""
    words = ["git", "-C", str(source), "rev-parse", "HEAD"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def measured(sources: dict[str, Path], shape: Shape, rounds: int) -> dict[str, Any]:
    """Make all versions take turns, and give the median seconds of first and second commands."""
    with tempfile.TemporaryDirectory() as folder:
        data, rows = generate(shape, seed=0), Path(folder) / "rows.parquet"
        pl.DataFrame({"user": data.users_E, "item": data.items_E}).write_parquet(rows)
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in sources}
        for _ in range(rounds):
            for name, source in sources.items():
                with tempfile.TemporaryDirectory() as empty:
                    first, second = (seconds_of(source, rows, Path(empty)) for _ in range(2))
                found[name].append((first, second))
    return {
        name: {
            "first": statistics.median(first for first, _ in pairs),
            "second": statistics.median(second for _, second in pairs),
            "compiling": statistics.median(first - second for first, second in pairs),
        }
        for name, pairs in found.items()
    }


def main() -> None:
    """Measure, print and write."""
    parser = options_of(
        __doc__,
        before={"type": Path, "help": "the src folder of another version"},
        rounds={"type": int, "default": 3, "help": "turns of each"},
    )
    options = parser.parse_args()
    sources = {"before": options.before} if options.before else {}
    sources["now"] = ROOT / "src"
    shape, rounds = (FEW_ROWS, 1) if options.quick else (ROWS, options.rounds)
    seconds = measured(sources, shape, rounds)
    for name, row in seconds.items():
        print(name, " ".join(f"{what} {value:.1f} s" for what, value in row.items()))
    report: dict[str, Any] = {**machine(), "rounds": rounds, "rows": shape.interactions}
    if options.before:
        report["commit_before"] = commit_of(options.before)
    write_report(options.json, report | {"seconds": seconds})


if __name__ == "__main__":
    main()
