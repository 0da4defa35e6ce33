"""The whole command, from Parquet to a saved and measured model, and implicit's ALS, in turns.

    python benchmarks/command.py --packed DIR [--json FILE] [--plot FILE] [--before SRC]

``sdgar train`` and ``sdgar train --fast`` are run as a user runs them, each in a separate process
that imports, reads, trains, measures on the paper's test rows and saves. ALS (D = 128, 15 sweeps,
alpha 160, regularization 100) is the time of its ``fit`` alone. ``--before`` names the ``src``
folder of another version of sdgar, whose ``sdgar train`` is then measured too, once, on all data
sets but the largest.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from common import ROOT, THREADS, about, environment, options_of, write_report
from grids import DATASETS as TITLES

DATASETS = ("citeulike", "gowalla", "movielens")
COMMANDS: dict[str, tuple[str, ...]] = {"sdgar train --fast": ("--fast",), "sdgar train": ()}
ALS = "implicit's ALS"
PARTS = {
    "imports, reading, saving": "#999999",
    "start": "#E69F00",
    "epochs": "#0072B2",
    "refits of the generator": "#56B4E9",
    "memory": "#009E73",
    "looks and test rows": "#CC79A7",
}


def files_of(arrays: dict[str, Any], folder: Path) -> list[str]:
    """Write the training and the test rows as Parquet; return their places."""
    import polars as pl

    for part in ("train", "test"):
        columns = {name: arrays[f"{part}_{name}"] for name in ("user", "item")}
        pl.DataFrame(columns).write_parquet(folder / f"{part}.parquet")
    return [str(folder / "train.parquet"), "--test", str(folder / "test.parquet")]


def command(files: list[str], words: tuple[str, ...], source: Path, run: Path) -> dict[str, Any]:
    """Run one command from its start to its end; say how long it took, and its accuracy."""
    line = [sys.executable, "-m", "sdgar", "train", *files, *words, "--out", str(run)]
    start = time.perf_counter()
    said = subprocess.run(
        [*line, "--overwrite", "--json"], check=True, capture_output=True, text=True,
        env=environment(PYTHONPATH=str(source)),
    ).stdout  # fmt: skip
    wall = time.perf_counter() - start
    summary = json.loads(said)
    spent = {"start": 0.0, "memory": 0.0} | summary["seconds"]
    parts = dict(zip(PARTS, (0.0, *(spent[n] for n in ("start", "train", "refit", "memory",
                                                       "evaluate"))), strict=True))  # fmt: skip
    parts["imports, reading, saving"] = wall - sum(parts.values())
    return {"seconds": wall, "ndcg@50": summary["test"]["ndcg@50"], "parts": parts}


def als(arrays: dict[str, Any]) -> dict[str, Any]:
    """Time ALS on the same rows."""
    from implicit.cpu.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, "blas")  # as implicit recommends
    users, items = (
        np.unique(arrays[f"train_{n}"], return_inverse=True)[1] for n in ("user", "item")
    )
    matrix = csr_matrix((np.ones(len(users), np.float32), (users, items)))
    model = AlternatingLeastSquares(
        factors=128, iterations=15, alpha=160.0, regularization=100.0, num_threads=THREADS,
        random_state=0,
    )  # fmt: skip
    start = time.perf_counter()
    model.fit(matrix, show_progress=False)
    return {"seconds": time.perf_counter() - start}


def measure(
    arrays: dict[str, Any], rounds: int, before: Path | None, names: Collection[str]
) -> dict[str, Any]:
    """Make everyone take turns; return medians and the multiples of ALS of each round."""
    everyone = {n: (words, ROOT / "src") for n, words in COMMANDS.items() if n in names}
    if before is not None:
        everyone["sdgar train, before"] = ((), before)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in everyone}
    with tempfile.TemporaryDirectory() as folder:
        files = files_of(arrays, Path(folder))
        for turn in range(rounds):
            if ALS in names:
                found.setdefault(ALS, []).append(als(arrays))
                print(ALS, found[ALS][-1], flush=True)
            for name, (words, source) in everyone.items():
                if turn and source != ROOT / "src":
                    continue  # it takes long, and once is enough to see by how much
                found[name].append(command(files, words, source, Path(folder) / "run"))
                print(name, found[name][-1], flush=True)
    return {name: summed(runs, found.get(ALS, [])) for name, runs in found.items() if runs}


def summed(runs: list[dict[str, Any]], peers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the median of the seconds, and how many times the seconds of ALS in the same round."""
    middle = sorted(runs, key=lambda run: run["seconds"])[len(runs) // 2]
    times = [run["seconds"] / peer["seconds"] for run, peer in zip(runs, peers, strict=False)]
    row = {**middle, "seconds": median(run["seconds"] for run in runs)}
    return row | ({"times_als": median(times), "each": times} if times else {})


def plot(data: dict[str, Any], path: Path) -> None:
    """Draw where the seconds of each command go."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.6 + 1.1 * len(data)), layout="constrained", dpi=150)
    axes_S = np.atleast_1d(figure.subplots(len(data), 1))
    for axes, (name, found) in zip(axes_S, data.items(), strict=True):
        labels = list(found)
        left = np.zeros(len(labels))
        for part, colour in PARTS.items():
            widths = [found[label].get("parts", {}).get(part, 0.0) for label in labels]
            axes.barh(labels, widths, left=left, color=colour, label=part)
            left += widths
        whole = [0.0 if "parts" in found[label] else found[label]["seconds"] for label in labels]
        axes.barh(labels, whole, color="#444444", label="ALS")
        axes.invert_yaxis()
        axes.set_title(TITLES.get(name, name), loc="left")
        axes.grid(axis="x", alpha=0.3)
    axes_S[-1].set_xlabel("seconds")
    handles, labels = axes_S[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    figure.savefig(path)


def main() -> None:
    """Measure every data set, and write the report after each."""
    options = options_of(
        __doc__,
        packed={"type": Path, "metavar": "DIR", "help": "where accuracy.py pack wrote"},
        plot={"type": Path, "metavar": "FILE"},
        rounds={"type": int, "default": 3},
        before={"type": Path, "metavar": "SRC"},
    ).parse_args()
    report: dict[str, Any] = {**about(), "data": {}}
    if options.quick:
        rng = np.random.default_rng(0)
        users, items = np.nonzero(rng.random((60, 40)) < 0.3)
        test = rng.random(len(users)) < 0.2
        arrays = {
            f"{part}_{name}": values[some]
            for part, some in (("train", ~test), ("test", test))
            for name, values in (("user", users), ("item", items))
        }
        report["data"]["made up"] = measure(arrays, 1, options.before, ["sdgar train --fast"])
    for name in () if options.quick else DATASETS:
        arrays = dict(np.load(options.packed / f"{name}.npz"))
        before = options.before if name != DATASETS[-1] else None
        report["data"][name] = measure(arrays, options.rounds, before, [*COMMANDS, ALS])
        write_report(options.json, report)
    write_report(options.json, report)
    if options.plot:
        plot(report["data"], options.plot)


if __name__ == "__main__":
    main()
