"""Reading files of events: sdgar to interactions, and a bare Polars read of the same file.

    python benchmarks/reading.py [--rows 10000000] [--repeats 3] [--json FILE]

Rows are (user, item, time), synthetic with popular items; ids are integers, or text such as u17.
Each file is read in turns by Polars alone, which ends in a table, and by sdgar, which checks every
row and ends in interactions: distinct ids, and one row a pair in the order of users. Every read has
a process of its own, so that its peak of resident memory is its own. A first turn is told apart: it
compiles kernels, of which sdgar has some for many rows, and may find files that are not in memory.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from common import machine, options_of, write_report

ROWS, TINY = 10_000_000, 20_000
FILES = ("integers.parquet", "integers.csv", "text.parquet", "text.csv")
READERS = ("polars", "sdgar")

READ = """
import json, resource, sys, time
import polars as pl
from sdgar.data.readers import read
path, reader = sys.argv[1:]

def memory(kind):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(kind))

plain = pl.read_csv if path.endswith(".csv") else pl.read_parquet
before, resident = resource.getrusage(resource.RUSAGE_SELF), memory("VmRSS")
start = time.perf_counter()
found = plain(path) if reader == "polars" else read(path, verbose=False)
seconds = time.perf_counter() - start
after = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "seconds": seconds,
    "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    "growth_bytes": memory("VmHWM") - resident,
    "rows": len(found),
}))
"""
"""One read, in a separate process; Linux reports its peak of memory."""


def write_files(folder: Path, rows: int) -> None:
    """Write the same events with integer ids and with text ids, as Parquet and as CSV."""
    generator = np.random.default_rng(0)
    integers = pl.DataFrame(
        {
            "user": generator.integers(0, max(rows // 30, 1), rows),
            "item": (generator.random(rows) ** 2 * max(rows // 200, 1)).astype(np.int64),
            "time": 1_600_000_000 + generator.integers(0, 10_000_000, rows),
        }
    )
    text = integers.with_columns(
        pl.format("u{}", "user").alias("user"), pl.format("i{}", "item").alias("item")
    )
    for name, frame in (("integers", integers), ("text", text)):
        frame.write_parquet(folder / f"{name}.parquet")
        frame.write_csv(folder / f"{name}.csv")


def one_read(path: Path, reader: str) -> dict[str, Any]:
    """Read a file once, and say what that took."""
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path), reader], capture_output=True, text=True, check=True
    )
    found_out: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found_out


def summary(reads: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians of several reads of one file, and the seconds of a first one."""
    first, *others = reads
    return {
        "first_s": first["seconds"],
        "seconds": statistics.median(read["seconds"] for read in others),
        "cpu_s": statistics.median(read["cpu_s"] for read in others),
        "growth_bytes": max(read["growth_bytes"] for read in others),
        "rows": reads[0]["rows"],
    }


def main() -> None:
    """Write the files, read each in turns, and show the medians."""
    options = options_of(
        __doc__, rows={"type": int, "default": ROWS}, repeats={"type": int, "default": 3}
    ).parse_args()
    rows, repeats = (TINY, 1) if options.quick else (options.rows, options.repeats)
    reads: dict[str, dict[str, list[dict[str, Any]]]]
    reads = {name: {reader: [] for reader in READERS} for name in FILES}
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), rows)
        sizes = {name: (Path(folder) / name).stat().st_size for name in FILES}
        for _ in range(1 + repeats):
            for name in FILES:
                for reader in READERS:
                    reads[name][reader].append(one_read(Path(folder) / name, reader))
    found = {
        name: {reader: summary(found_out) for reader, found_out in by_reader.items()}
        for name, by_reader in reads.items()
    }
    print(f"{rows:,} rows of (user, item, time), median of {repeats}, and the first time")
    for name, by_reader in found.items():
        for reader, found_out in by_reader.items():
            print(
                f"{name:18}{reader:8}{found_out['seconds']:7.2f} s{found_out['first_s']:7.2f} s"
                f"{found_out['cpu_s']:8.2f} CPU s"
                f"{found_out['growth_bytes'] / 2**20:8,.0f} MiB"
            )
    write_report(
        options.json,
        {**machine("polars"), "rows": rows, "repeats": repeats, "bytes": sizes, "reads": found},
    )


if __name__ == "__main__":
    main()
