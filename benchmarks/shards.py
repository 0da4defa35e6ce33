"""Measure how long it takes to shard events, and in how much memory and disk.

    python benchmarks/shards.py --rows 1e8 --json benchmarks/reports/shards.json

makes events up as Parquet files, shards them with ``sdgar data shard``, and opens the result with
all sums. Each step is a separate process, whose memory is looked at every 50 ms: anonymous memory
and pages of files apart. ``--peers`` also lets DuckDB and Polars do the core of the work. With
``--direct``, shards of synthetic events are written without any files of events, for those who
measure training:

    python benchmarks/shards.py --rows 1e8 --direct --out FOLDER

Items are drawn with p(i) ∝ 1 / (i + 10), in an order that has nothing to do with their ids; users
with a density that falls with the square root.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import machine, options_of, write_report
from sdgar.data.building import RowAccount
from sdgar.data.ids import id_arrays
from sdgar.scale.shards.format import (
    Manifest,
    ShardRecord,
    sums_of,
    write_arrays,
    write_manifest,
    write_shard,
)
from sdgar.scale.shards.writing import shard_of
from sdgar.storage import folders

PART_ROWS = 5_000_000
_OFFSET = 10.0
_PRIME = 2_654_435_761
_FIRST, _SECONDS = 1_600_000_000, 100_000_000
_EVERY = 0.05
_AT_ONCE = 200_000
"""The users whose rows are generated at once."""


def items_of(random: np.random.Generator, n: int, n_items: int) -> NDArray[np.int64]:
    """Draw items with p(i) ∝ 1 / (i + 10), by the inverse of the distribution function."""
    u = random.random(n)
    rank = (_OFFSET * ((n_items + _OFFSET) / _OFFSET) ** u - _OFFSET).astype(np.int64)
    return np.minimum(rank, n_items - 1) * _PRIME % n_items


def make_parts(folder: Path, n_rows: int, n_users: int, n_items: int) -> None:
    """Write events as Parquet files, one part after the other."""
    import polars as pl

    folder.mkdir(parents=True)
    for part, first in enumerate(range(0, n_rows, PART_ROWS)):
        n = min(PART_ROWS, n_rows - first)
        random = np.random.default_rng([0, part])
        users = (n_users * random.random(n) ** 1.5).astype(np.int64) * 7 + 11
        frame = pl.DataFrame(
            {
                "user": users,
                "item": items_of(random, n, n_items) * 3 + 5,
                "time": _FIRST + (random.random(n) * _SECONDS).astype(np.int64),
            }
        )
        frame.write_parquet(folder / f"part-{part:05d}.parquet", row_group_size=1 << 20)


def make_direct(
    out: Path, n_rows: int, n_users: int, n_items: int, n_shards: int, threads: int = 1
) -> None:
    """Write shards of synthetic events, as many at a time as there are threads.

    They have neither weights nor times. The number of rows is met about: a pair that is drawn twice
    counts once.
    """
    shard_U = shard_of(np.arange(n_users), n_shards)
    with folders.whole(out, replace=False) as folder, ThreadPoolExecutor(threads) as pool:

        def make(number: int) -> ShardRecord:
            users = np.flatnonzero(shard_U == number)
            random = np.random.default_rng([1, number])
            pieces = [
                _histories(random, len(users[first : first + _AT_ONCE]), n_rows / n_users, n_items)
                for first in range(0, len(users), _AT_ONCE)
            ]
            counts = np.concatenate([counts for counts, _ in pieces])
            arrays = {
                "indptr": np.concatenate(([0], np.cumsum(counts))),
                "items": np.concatenate([items for _, items in pieces]),
                "rank": users,
                **id_arrays(users, "users"),
            }
            return write_shard(folder, number, n_shards, arrays)

        parts = list(pool.map(make, range(n_shards)))
        rows = sum(part.rows for part in parts)
        write_arrays(folder, id_arrays(np.arange(n_items), "items"))
        manifest = Manifest(
            ids={"users": "int64", "items": "int64"},
            items=n_items,
            weights=False,
            times=False,
            account=RowAccount(rows, rows),
            shards=tuple(parts),
            files=sums_of(folder),
            about={"columns": "synthetic"},
        )
        write_manifest(folder, manifest)


def _histories(
    random: np.random.Generator, n_users: int, mean: float, n_items: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Draw the items of some users, at least one each; items ascend and differ."""
    drawn = random.geometric(1 / max(mean, 1.0), n_users)
    user_E = np.repeat(np.arange(n_users), drawn)
    pair_E = np.unique(user_E * n_items + items_of(random, len(user_E), n_items))
    counts = np.bincount(pair_E // n_items, minlength=n_users)
    return counts, (pair_E % n_items).astype(np.int32)


def watched(command: list[str], *, quick: bool) -> dict[str, float]:
    """Run a command, and return its seconds and the most memory that it had at any look.

    A quick one runs in this process, and its memory is not looked at.
    """
    start = time.perf_counter()
    if quick:
        _run_here(command)
        return {"seconds": round(time.perf_counter() - start, 1)}
    before = _cpu_seconds()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    most = {"VmRSS": 0, "RssAnon": 0, "RssFile": 0}
    while process.poll() is None:
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        except OSError:
            break
        for line in lines:
            name, _, value = line.partition(":")
            if name in most:
                most[name] = max(most[name], int(value.split()[0]) << 10)
        time.sleep(_EVERY)
    if process.wait():
        raise SystemExit(f"{command} ended with {process.returncode}")
    return {
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(_cpu_seconds() - before, 1),
        "peak_rss": most["VmRSS"],
        "peak_anonymous": most["RssAnon"],
        "peak_of_files": most["RssFile"],
    }


def _cpu_seconds() -> float:
    """Return the seconds that cores have spent on processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run_here(command: list[str]) -> None:
    """Run what a command of Python runs."""
    before = sys.argv
    try:
        if command[1] == "-m":
            from sdgar.cli import main as line

            sys.argv = command[2:]
            with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
                line.run()
        else:
            sys.argv = command[1:]
            main()
    finally:
        sys.argv = before


def bytes_in(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _itself(step: str, **sizes: object) -> list[str]:
    words = [f"--{name.replace('_', '-')}={value}" for name, value in sizes.items()]
    return [sys.executable, __file__, "--step", step, *words]


def open_all(folder: Path) -> None:
    """Open shards with all sums, and go over their rows."""
    from sdgar.scale.shards import Shards

    shards = Shards.open(folder, verify=True)
    rows = sum(int(shard.indptr_U1[-1]) for shard in shards)
    if rows != len(shards):
        raise SystemExit(f"{rows:,} rows, not {len(shards):,}")


def with_duckdb(events: Path, out: Path, n_shards: int, memory: str) -> None:
    """Number the items, keep one row a pair, and write Parquet files by shard."""
    import duckdb

    base = duckdb.connect()
    base.execute(f"SET memory_limit='{memory}'; SET temp_directory='{out}.spill'")
    base.execute(f"SET threads=2; CREATE VIEW events AS FROM '{events}/*.parquet'")
    base.execute(
        "CREATE TABLE items AS SELECT item, row_number() OVER (ORDER BY item) - 1 AS number "
        "FROM (SELECT DISTINCT item FROM events)"
    )
    base.execute(
        f"COPY (SELECT user, number, max(time) AS time, hash(user) % {n_shards} AS shard "
        "FROM events JOIN items USING (item) GROUP BY ALL ORDER BY shard, user, number) "
        f"TO '{out}' (FORMAT parquet, PARTITION_BY (shard))"
    )


def with_polars(events: Path, out: Path, n_shards: int, memory: str) -> None:
    """Do the same with the streaming engine of Polars, which has no limit of memory."""
    import polars as pl

    rows = pl.scan_parquet(f"{events}/*.parquet")
    items = rows.select("item").unique().sort("item").with_row_index("number")
    pairs = (
        rows.join(items, on="item")
        .group_by("user", "number")
        .agg(pl.col("time").max())
        .sort("user", "number")
        .with_columns(shard=pl.col("user").hash() % n_shards)
    )
    pairs.sink_parquet(pl.PartitionBy(out, key="shard"), mkdir=True, engine="streaming")


PEERS: dict[str, Callable[[Path, Path, int, str], None]] = {
    "duckdb": with_duckdb,
    "polars": with_polars,
}


def measure(args: Any, work: Path) -> dict[str, Any]:
    """Make synthetic events, shard them, and open the shards, each in a separate process."""
    from sdgar.scale.shards import Shards

    sizes = {"rows": int(args.rows), "users": args.users, "items": args.items}
    events, out = work / "events", work / "out.shards"
    found: dict[str, Any] = {**sizes, "memory": args.memory}
    if not events.exists():
        found["make"] = watched(_itself("make", **sizes, work=work), quick=args.quick)
    found["event_bytes"] = bytes_in(events)
    shard = [sys.executable, "-m", "sdgar", "data", "shard", str(events), "--out", str(out)]
    shard += ["--ram", args.memory, "--overwrite", "--json"]
    found["shard"] = watched(shard, quick=args.quick)
    found["shard_bytes"] = bytes_in(out)
    shards = Shards.open(out)
    found |= {"shards": shards.n_shards, "account": shards.account.as_dict()}
    found["verify"] = watched(_itself("verify", work=work), quick=args.quick)
    shutil.rmtree(out)
    for name in PEERS if args.peers else ():
        step = _itself(name, work=work, shards=shards.n_shards, memory=args.memory)
        found[name] = watched(step, quick=args.quick)
        shutil.rmtree(work / f"{name}.out")
    return found


def added(path: Path | None, run: dict[str, Any]) -> dict[str, Any]:
    """Return a report with this run, and the runs that are in it already."""
    words = sys.argv[1:]
    if "--work" in words:  # a place that others do not have
        del words[words.index("--work") : words.index("--work") + 2]
    about = machine("polars", "duckdb") | {"command": " ".join(["benchmarks/shards.py", *words])}
    before = json.loads(path.read_text())["runs"] if path and path.exists() else []
    runs = sorted([*before, {**about, "load": os.getloadavg()[1], **run}], key=itemgetter("rows"))
    return {
        "protocol": "each step is a process of its own, looked at every 50 ms",
        "seed": 0,
        "cores": os.cpu_count(),
        "runs": runs,
    }


def main() -> None:
    """Run one step, or measure all of them."""
    parser = options_of(
        __doc__,
        rows={"type": float, "default": 1e8},
        users={"type": int, "default": 5_000_000},
        items={"type": int, "default": 1_000_000},
        shards={"type": int, "default": 16, "help": "with --direct"},
        memory={"default": "4GiB"},
        work={"type": Path, "help": "a folder for events, which are kept, and shards"},
        out={"type": Path, "help": "with --direct, the folder of shards"},
        direct={"action": "store_true"},
        peers={"action": "store_true"},
        step={"help": "one step alone, as a process of its own"},
    )
    args = parser.parse_args()
    if args.quick:
        args.rows, args.users, args.items, args.memory = 2e4, 1000, 300, "512MiB"
    sizes = int(args.rows), args.users, args.items
    if args.direct:
        make_direct(args.out, *sizes, args.shards)
    elif args.step == "make":
        make_parts(args.work / "events", *sizes)
    elif args.step == "verify":
        open_all(args.work / "out.shards")
    elif args.step in PEERS:
        out = args.work / f"{args.step}.out"
        PEERS[args.step](args.work / "events", out, args.shards, args.memory)
    else:
        with tempfile.TemporaryDirectory() as folder:
            write_report(args.json, added(args.json, measure(args, args.work or Path(folder))))


if __name__ == "__main__":
    main()
