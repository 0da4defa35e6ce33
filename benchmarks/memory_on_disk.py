"""The item memory from shards on disk: seconds, and how much memory it takes.

    python benchmarks/memory_on_disk.py [--rows 1e7,1e8] [--limits 1,4,0] [--json FILE]

The weights between a million items are solved from shards on disk within limits in GiB; a limit of
0 solves for them from the same rows in memory. There are twenty times as many rows as users, made
up as for ``shards.py``. Each is a separate process, whose memory is looked at every 50 ms: what
it has allocated, and pages of mapped files, apart. The limit is for all that the process has
allocated. The bytes of the weights are compared by their SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing as mp
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import torch

from common import CPU, THREADS, machine, options_of, write_report
from sdgar.data.synthetic import synthetic
from sdgar.maths.neighbours import Neighbourhoods
from sdgar.models.item_weights import LocalItemWeights
from sdgar.scale.item_weights import item_weights_from_shards
from sdgar.scale.shards import Shards
from sdgar.scale.shards.views import ShardBlocks
from shards import make_direct

RULE = Neighbourhoods(k=50, l2=20.0, shrink=10.0, beta=0.5)


N_ITEMS, N_SHARDS = 1_000_000, 16


def measure(options: Any) -> None:
    """Report seconds and memory of the weights within each limit; write after each of them."""
    n_items = 200 if options.quick else N_ITEMS
    runs: list[dict[str, Any]] = []
    report = {**machine(), "threads": THREADS, "neighbours": RULE.k, "items": n_items, "runs": runs}
    loads = []
    for rows in [2_000] if options.quick else map(int, options.rows):
        with tempfile.TemporaryDirectory(dir=options.work) as work:
            folder, sizes = Path(work), (rows, max(1, rows // 20), n_items, N_SHARDS)
            _alone(make_direct, folder / "shards", *sizes, quick=options.quick)
            for limit in options.limits:
                found = _alone(_solved, folder, limit, quick=options.quick)
                runs.append({"limit_gib": limit or None, **found})
                loads.append(os.getloadavg()[1])
                print(json.dumps(runs[-1]), flush=True)
                write_report(options.json, {**report, "load": sum(loads) / len(loads)})


def _alone(work: Any, *args: Any, quick: bool) -> Any:
    """Call a function in a separate process, except to see that it runs."""
    if quick:
        return work(*args)
    with mp.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, args)


def _solved(folder: Path, limit: float) -> dict[str, Any]:
    torch.set_num_threads(THREADS)
    opened = Shards.open(folder / "shards")
    small = Shards.write(synthetic("demo"), folder / "small", 2, overwrite=True)
    item_weights_from_shards(small, RULE, work=folder, memory=1 << 30)  # compiles
    before = _resident()
    with _watched() as peak:
        start, cpu = time.perf_counter(), time.process_time()
        if limit:
            memory = int(limit * 2**30) - before["anonymous"]
            model = item_weights_from_shards(opened, RULE, work=folder, memory=memory)
        else:
            data = ShardBlocks(opened, opened.n_shards)[0]
            model = LocalItemWeights.solved(data, RULE, device=CPU)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    digest = hashlib.sha256()
    for tensor in (model.weight_II.start_R1, model.weight_II.column_E, model.weight_II.weights()):
        digest.update(memoryview(tensor).cast("B"))
    return {
        "rows": opened.n_rows,
        "users": opened.n_users,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "before_gib": {name: n / 2**30 for name, n in before.items()},
        "peak_gib": {name: n / 2**30 for name, n in peak.items()},
        "weights": len(model.weight_II.column_E),
        "sha256": digest.hexdigest(),
    }


def _resident() -> dict[str, int]:
    """Return the bytes that this process has in memory: allocated, and of mapped files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    of = {name: int(rest.split()[0]) << 10 for name, _, rest in (x.partition(":") for x in lines)
          if name in ("RssAnon", "RssFile")}  # fmt: skip
    return {"anonymous": of["RssAnon"], "files": of["RssFile"]}


@contextmanager
def _watched() -> Iterator[dict[str, int]]:
    """Look at the memory every 50 ms, and keep the most of each kind."""
    peak, ended = _resident(), Event()

    def watch() -> None:
        while not ended.wait(0.05):
            for name, n in _resident().items():
                peak[name] = max(peak[name], n)

    watcher = Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()


def _numbers(text: str) -> list[float]:
    return [float(number) for number in text.split(",")]


def main() -> None:
    """Measure all sizes within all limits."""
    parser = options_of(
        __doc__,
        rows={"type": _numbers, "default": [1e7]},
        limits={"type": _numbers, "default": [1.0, 4.0, 0.0]},
        work={"type": Path, "help": "a folder on a disk with room"},
    )
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
