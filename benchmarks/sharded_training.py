"""Measure training on shards: seconds and memory of each step, in memory and out of core.

    python benchmarks/sharded_training.py --rows 1e8 --json benchmarks/reports/sharded_training.json

Shards are synthetic as ``shards.py --direct`` does, and SD-Softmax is trained on them by ``sdgar
train`` for one epoch with its memory of histories, then measured on 20,000 users. Each step is a
process of its own, whose memory is looked at every 50 ms: anonymous memory and pages of files
apart. Runs of other sizes stay in the report.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from operator import itemgetter
from pathlib import Path
from typing import Any

from common import command_without, machine, options_of, write_report
from shards import bytes_in, make_direct, watched

ROWS_EACH = 1_000_000


def container_bytes() -> int | None:
    """Return the memory that the system allows this process and its children, if it is bounded."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers in ("", "memory"):
            name = "memory.max" if not controllers else "memory.limit_in_bytes"
            place = Path("/sys/fs/cgroup", controllers, group.lstrip("/"), name)
            if place.exists() and (text := place.read_text().strip()) != "max":
                return int(text) if int(text) < 1 << 60 else None
    return None


def measure(args: Any, work: Path) -> dict[str, Any]:
    """Make shards up, train on them, and read what the run says of itself."""
    sizes = {"rows": int(args.rows), "users": args.users, "items": args.items}
    n_shards = max(2, sizes["rows"] // ROWS_EACH)
    folder, run = work / "data.shards", work / "run"
    if not folder.exists():
        make_direct(folder, *sizes.values(), n_shards)
    words = ["train", str(folder), "--out", str(run), "--ram", args.memory, "--overwrite"]
    words += ["--test-users", str(args.test_users), "--json"]
    for setting in (f"dim={args.dim}", f"epochs={args.epochs}", *args.set):
        words += ["--set", setting]
    found: dict[str, Any] = {**sizes, "dim": args.dim, "epochs": args.epochs, "set": args.set}
    found |= {"limit": args.memory, "shards": n_shards, "shard_bytes": bytes_in(folder)}
    found["container_bytes"] = container_bytes()
    found["train"] = watched([sys.executable, "-m", "sdgar", *words], quick=args.quick)
    about = json.loads((run / "manifest.json").read_text())["about"]["report"]
    found |= {name: about[name] for name in ("seconds", "positives_per_second", "memory")}
    found["ndcg@50"] = about["test"]["ndcg@50"]
    found["popular"] = about["most_popular"]["ndcg@50"]
    found["model_bytes"] = bytes_in(run)
    if args.keep is None:
        shutil.rmtree(run)
    else:
        run.rename(args.keep)
    return found


def added(path: Path | None, run: dict[str, Any]) -> dict[str, Any]:
    """Return a report with this run, and the runs of other sizes that are in it already."""
    about = machine() | {"command": command_without("--work", "--keep")}
    before = json.loads(path.read_text())["runs"] if path and path.exists() else []
    others = [one for one in before if one["rows"] != run["rows"]]
    runs = sorted([*others, {**about, "load": os.getloadavg()[1], **run}], key=itemgetter("rows"))
    protocol = "sdgar train on shards, a process of its own, looked at every 50 ms"
    return {"protocol": protocol, "seed": 0, "cores": os.cpu_count(), "runs": runs}


def main() -> None:
    """Measure one size."""
    parser = options_of(
        __doc__,
        rows={"type": float, "default": 1e8},
        users={"type": int, "default": 5_000_000},
        items={"type": int, "default": 1_000_000},
        dim={"type": int, "default": 64},
        epochs={"type": int, "default": 1},
        memory={"default": "4GiB"},
        test_users={"type": int, "default": 20_000},
        set={"action": "append", "default": []},
        work={"type": Path, "help": "a folder for shards, which are kept"},
        keep={"type": Path, "help": "where the trained model is put, instead of being deleted"},
    )
    args = parser.parse_args()
    if args.quick:
        args.rows, args.users, args.items, args.dim, args.test_users = 2e4, 1000, 300, 8, 100
    with tempfile.TemporaryDirectory() as folder:
        write_report(args.json, added(args.json, measure(args, args.work or Path(folder))))


if __name__ == "__main__":
    main()
