"""Lists for users of a large model: seconds, lists a second, and how much memory they take.

    python benchmarks/recommend_all.py [--sample 2000] [--workers 1 2] [--json FILE]
    python benchmarks/recommend_all.py --run RUN --sample 1000000 --workers 1 [--json FILE]

A model is synthetic and saved: unit vectors of users and items with dim numbers, small biases, the
histories of all users, and 50 weights of each item to others. Or RUN is a model that was trained,
such as one that ``sharded_training.py --keep RUN`` has left. ``sdgar recommend RUN --sample N
--parts FOLDER --ram 4GiB`` is run on it by each number of workers, and the memory of all its
processes is looked at every 50 ms: what they have allocated, and pages of mapped files, apart. The
lists of all numbers of workers must be the same. A list costs the seconds of cores that its run
took more than a run of 64 lists, which has to load the model as well; what a million lists would
take on idle cores is computed from that.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sdgar
from common import command_without, machine, options_of, write_report
from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.maths.rows import Rows
from sdgar.models.factors import Factors
from sdgar.models.item_weights import LocalItemWeights
from sdgar.models.sum import Sum
from sdgar.recommend import artifact

SEED, NEIGHBOURS, FEW = 0, 50, 64


def make_model(place: Path, n_users: int, n_items: int, dim: int, each: int) -> None:
    """Make up a model and save it."""
    rng = np.random.default_rng(SEED)

    def vectors(count: int) -> np.ndarray:
        x_RD = rng.standard_normal((count, dim), np.float32)
        x_RD /= np.linalg.norm(x_RD, axis=1, keepdims=True)
        return x_RD

    bias_I = rng.standard_normal(n_items, np.float32) / 10
    factors = Factors(8 * vectors(n_users), vectors(n_items), bias_I)
    start_U1 = np.arange(0, n_users * each + 1, each)
    step = n_items // each
    items_UE = rng.integers(0, step, (n_users, each), np.int32)
    items_UE += np.arange(0, step * each, step, dtype=np.int32)  # ascending, none twice
    history = History(start_U1, items_UE.reshape(-1))
    columns_F = rng.integers(0, n_items, n_items * NEIGHBOURS, np.int32)
    weight_F = rng.standard_normal(n_items * NEIGHBOURS, np.float32) / 20
    weights = Rows(np.arange(0, n_items * NEIGHBOURS + 1, NEIGHBOURS), columns_F, weight_F)
    memory = LocalItemWeights(history, weights)
    ids = Ids(np.arange(n_users)), Ids(np.arange(n_items))
    artifact.save(
        artifact.Artifact(Sum(factors, memory, 1.0), *ids, history, {"system": "made up"}), place
    )


def measured(run: Path, place: Path, args: Any, workers: int, sample: int) -> dict[str, Any]:
    """Run the command once; return its seconds, its memory, and the digest of its lists."""
    words = ["recommend", str(run), "--sample", str(sample), "--parts", str(place), "-k", "10"]
    words += ["--workers", str(workers), "--ram", args.memory, "--json"]
    threads = max(1, (os.cpu_count() or 1) // workers)
    wanted = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    start, before = time.perf_counter(), _children_seconds()
    process = subprocess.Popen(
        [sys.executable, "-m", "sdgar", *words], env=wanted, stdout=subprocess.PIPE
    )
    peak: dict[str, int] = {"anonymous": 0, "files": 0}
    began = None
    while process.poll() is None:
        time.sleep(0.05)
        each = [_resident(pid) for pid in _family(process.pid)]
        for name in peak:
            peak[name] = max(peak[name], *(one[name] for one in each))
        if began is None and any(place.parent.glob(f".{place.name}.tmp-*")):
            began = time.perf_counter()  # the models are loaded, and lists are made
    ended = time.perf_counter()
    if process.returncode:
        raise SystemExit(f"sdgar recommend ended with {process.returncode}")
    parts = [pl.read_parquet(file) for file in sorted(place.glob("*.parquet"))]
    lists = pl.concat(parts)
    digest = hashlib.sha256(lists.drop("basis").write_csv().encode()).hexdigest()[:16]
    seconds = ended - (began or start)
    return {
        "workers": workers,
        "lists": lists["user"].n_unique(),
        "seconds to load": round((began or start) - start, 1),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(_children_seconds() - before, 1),
        "peak_gib of a process": {name: round(n / 2**30, 2) for name, n in peak.items()},
        "sha256": digest,
    }


def _children_seconds() -> float:
    """Return the seconds of cores that ended processes took."""
    times = os.times()
    return times.children_user + times.children_system


def _family(pid: int) -> list[int]:
    """Return a process and the ones that it started."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return [pid]
    return [pid, *map(int, text.split())]


def _resident(pid: int) -> dict[str, int]:
    """Return the bytes that a process has in memory: allocated, and of mapped files."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        lines = []
    of = {name: int(rest.split()[0]) << 10 for name, _, rest in (x.partition(":") for x in lines)
          if name in ("RssAnon", "RssFile")}  # fmt: skip
    return {"anonymous": of.get("RssAnon", 0), "files": of.get("RssFile", 0)}


def main() -> None:
    """Make the model, and measure each number of workers."""
    parser = options_of(
        __doc__,
        users={"type": int, "default": 5_000_000},
        items={"type": int, "default": 1_000_000},
        dim={"type": int, "default": 64},
        each={"type": int, "default": 20, "help": "the items of each history"},
        sample={"type": int, "default": 2_000},
        memory={"default": "4GiB"},
        workers={"type": int, "nargs": "+", "default": [1, 2]},
        work={"type": Path, "help": "a folder on a disk with room"},
        run={"type": Path, "help": "a trained model, instead of a made-up one"},
    )
    args = parser.parse_args()
    if args.quick:
        args.users, args.items, args.dim, args.sample, args.workers = 400, 300, 8, 100, [1]
    report = {
        **machine(),
        "command": command_without("--work", "--run"),
        "protocol": "sdgar recommend --sample --parts; memory every 50 ms",
        "seed": SEED,
        "cores": os.cpu_count(),
        "sample": args.sample,
        "memory": args.memory,
    }
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        if (run := args.run) is None:
            run = Path(work) / "run"
            make_model(run, args.users, args.items, args.dim, args.each)
        model = sdgar.load(run, mapped=True)
        report |= {"model": "made up" if args.run is None else str(model.about["system"])}
        report |= {"users": len(model.users), "items": len(model.items)}
        report |= {"dim": model.factors.item_ID.shape[1], "rows": len(model.history.items_E)}
        del model
        report["bytes of the model"] = sum(file.stat().st_size for file in run.iterdir())
        for workers in args.workers:
            few, all_ = (
                measured(run, Path(work) / f"lists-{workers}-{n}", args, workers, n)
                for n in (FEW, args.sample)
            )
            cost = (all_["cpu_seconds"] - few["cpu_seconds"]) / (args.sample - FEW)
            all_["cpu_seconds of a list"] = cost
            all_["hours of a million lists, computed"] = cost * 1e6 / 3600 / (os.cpu_count() or 1)
            runs.append(all_)
            print(json.dumps(runs[-1]), flush=True)
            write_report(args.json, {**report, "load": os.getloadavg()[1], "runs": runs})
    if len({one["sha256"] for one in runs}) > 1:
        raise SystemExit("numbers of workers gave different lists")


if __name__ == "__main__":
    main()
