"""Measure how fast several processes of one machine train on shards, and one with two threads.

    python benchmarks/ranks.py --json benchmarks/reports/ranks.json
    python benchmarks/ranks.py --events gowalla --json FILE

Shards are synthetic as ``shards.py --direct`` does, or made of the training rows of a data set.
SD-Softmax is trained on them by ``sdgar train --workers N`` in turns, and the speed of a run is
that of its fastest epoch after the first, which also brings users to where they start. The seconds
that cores spent on whole runs are counted too, and what the first worker sends in steps. All runs
must give the same model.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import machine, options_of, write_report
from sdgar.scale.shards import Shards
from shards import make_direct

N_SHARDS, TOGETHER = 16, 16


def cpu_seconds() -> float:
    """Return the seconds that cores have spent on processes that ended, and on their children."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def train(args: Any, folder: Path, run: Path, workers: int) -> dict[str, Any]:
    """Train once, and read the seconds of each epoch and what was saved."""
    words = ["train", str(folder), "--out", str(run), "--together", str(TOGETHER)]
    words += ["--test-users", str(args.test_users), "--overwrite", "--workers", str(workers)]
    for setting in ("item_memory=0", f"dim={args.dim}", f"epochs={args.epochs}"):
        words += ["--set", setting]
    wanted = {**os.environ, "OMP_NUM_THREADS": str(args.threads)}
    before = cpu_seconds()
    subprocess.run([sys.executable, "-m", "sdgar", *words], env=wanted, check=True)
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    report = json.loads((run / "manifest.json").read_text())["about"]["report"]
    return {
        "cpu_seconds": cpu_seconds() - before,
        "seconds": [record["train_seconds"] for record in log],
        "model": hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()[:16],
        "rows": report["kept"]["interactions"],
        "ndcg": report["test"]["ndcg@50"],
        "sent": report.get("workers", {}).get("sent in steps", 0),
    }


def make_shards(args: Any, folder: Path) -> None:
    """Make shards of a data set, or of synthetic rows."""
    if args.events is None:
        make_direct(folder, int(args.rows), args.users, args.items, N_SHARDS)
        return
    words = ["data", "shard", str(args.data / args.events / "train.parquet"), "--out", str(folder)]
    words += ["--shards", str(N_SHARDS)]
    subprocess.run([sys.executable, "-m", "sdgar", *words], check=True)


def main() -> None:
    """Measure each number of workers in turns."""
    parser = options_of(
        __doc__,
        rows={"type": float, "default": 1e6},
        users={"type": int, "default": 50_000},
        items={"type": int, "default": 20_000},
        dim={"type": int, "default": 64},
        epochs={"type": int, "default": 4},
        threads={"type": int, "default": 2},
        rounds={"type": int, "default": 1},
        workers={"type": int, "nargs": "+", "default": [1, 2, 4]},
        events={"metavar": "SET", "help": "the name of a data set to train on"},
        test_users={"type": int, "default": 100},
    )
    args = parser.parse_args()
    if args.quick:
        args.rows, args.users, args.items, args.dim, args.workers = 2e4, 1000, 300, 8, [1, 2]
    found: dict[int, list[dict[str, Any]]] = {count: [] for count in args.workers}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "data.shards"
        make_shards(args, folder)
        for _ in range(args.rounds):
            for count, runs in found.items():
                runs.append(train(args, folder, Path(work) / "run", count))
        sizes = Shards.open(folder)
    models = {run["model"] for runs in found.values() for run in runs}
    if len(models) > 1:
        raise SystemExit(f"workers gave different models: {models}")
    speeds = {
        count: round(max(run["rows"] / min(run["seconds"][1:]) for run in runs))
        for count, runs in found.items()
    }
    report = {
        **machine(),
        "protocol": "sdgar train on shards; the fastest epoch after the first, of all rounds",
        "seed": 0,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[1],
        "threads of one process": args.threads,
        "data": args.events or "made up",
        "rows": sizes.n_rows,
        "users": sizes.n_users,
        "items": sizes.n_items,
        "dim": args.dim,
        "model": models.pop(),
        "positives_per_second": speeds,
        "cpu_seconds": {
            count: round(min(run["cpu_seconds"] for run in runs), 1)
            for count, runs in found.items()
        },
        "ndcg@50": next(iter(found.values()))[0]["ndcg"],
        "sent_in_steps": {count: runs[0]["sent"] for count, runs in found.items()},
        "sent_for_a_positive": {
            count: round(runs[0]["sent"] / (runs[0]["rows"] * len(runs[0]["seconds"])), 1)
            for count, runs in found.items()
        },
        "of one process": {n: round(s / speeds[args.workers[0]], 3) for n, s in speeds.items()},
    }
    print(json.dumps(report, indent=2))
    write_report(args.json, report)


if __name__ == "__main__":
    main()
