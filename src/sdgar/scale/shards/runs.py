"""Read files chunk by chunk and write runs: checked rows in the order of their shards.

A run is what fits in RAM at once. It has separate tables of ids, so that runs do not depend on
each other: rows hold places in these tables. Users and rows lie in the order of the shards, and
within a shard rows keep the order of the input.

    users, items, seen_items    the ids of the run; users in the order of their shards
    user_start, row_start       where the users and the rows of each shard begin
    user, item, weight, time    the rows
    seen_start, seen_user …     rows of items that a user dislikes, likewise
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sdgar.data import feedback
from sdgar.data.id_file import value_arrays
from sdgar.data.read_options import ReadOptions
from sdgar.data.readers.cleaning import CheckedRows, Verdict
from sdgar.data.readers.columns import Columns
from sdgar.data.readers.indexing import fits, indexed
from sdgar.data.readers.inputs import InputFiles
from sdgar.data.readers.problems import Place, Problem, ProblemLog
from sdgar.data.sources import is_source
from sdgar.errors import ResourceError, UsageError
from sdgar.scale.shards.format import file_of, mapped, write_plain
from sdgar.scale.shards.writing import shard_of
from sdgar.storage import folders, remote, sealed


def find_inputs(paths: Sequence[str | Path], options: ReadOptions) -> InputFiles:
    """Find the files of names, patterns and folders; raise for a store."""
    paths = remote.here(paths)
    if any(is_source(path) for path in paths):
        raise UsageError(
            "shards are made of files, and a store is none. Write its events to a file with "
            "`sdgar data export`.",
            code="bad_store",
        )
    return InputFiles.find(paths, options)


RAM = 4 << 30
"""The default of the most bytes of RAM that are used."""
_LEAST_RAM = 256 << 20
_RUN_ROW_BYTES, _SHARD_ROW_BYTES = 256, 160
"""The bytes of RAM for each row while a run is written, and while a shard is merged."""
_BASE_BYTES = 128 << 20


@dataclass(frozen=True)
class Limits:
    """How much is held in RAM at once; the shards do not depend on it."""

    ram: int = RAM
    """The bytes of RAM that are used at most."""
    block_bytes: int | None = None
    """The bytes of a file that are read at once; None takes a share of the RAM."""
    run_rows: int | None = None
    """The rows of a run; None takes as many as fit in RAM."""

    def __post_init__(self) -> None:
        """Raise if there is too little RAM for anything."""
        if self.ram < _LEAST_RAM:
            raise UsageError(
                f"--ram must be at least 256MiB, got {self.ram:,} bytes.", code="bad_option"
            )

    @property
    def block(self) -> int:
        """The bytes of a file that are read at once."""
        return self.block_bytes or min(64 << 20, self.ram // 64)

    @property
    def rows(self) -> int:
        """The rows of a run."""
        return self.run_rows or (self.ram - _BASE_BYTES) // _RUN_ROW_BYTES

    @property
    def run_bytes(self) -> int:
        """The bytes of the columns of a run."""
        return self.ram // 8

    def require_shard(self, rows: int, n_shards: int) -> None:
        """Raise if a shard of so many rows cannot be merged in this RAM."""
        needed = _BASE_BYTES + rows * _SHARD_ROW_BYTES
        if needed > self.ram:
            wanted = -(-n_shards * needed // self.ram) + 1
            raise ResourceError(
                f"a shard of {rows:,} rows needs {needed / 2**30:.1f} GiB of RAM, and --ram "
                f"allows {self.ram / 2**30:.1f}. Make more shards, such as --shards {wanted}, "
                "or allow more RAM.",
                code="out_of_memory",
            )


_ABOUT = "run.json"


@dataclass(frozen=True)
class Run:
    """What is known of a run."""

    folder: Path
    """The place of its files."""
    chunks: int
    """The number of chunks of the input that it holds."""
    rows: int
    """The number of rows that were checked."""
    kept: int
    """The number of rows that are kept."""
    verdicts: dict[int, Verdict]
    """The rows that are left out, by the number of the reason."""
    unread: tuple[Problem, ...]
    """What could not be read as a row."""
    kinds: dict[str, int]
    """The number of rows of each kind of event."""
    held: dict[str, str]
    """The types of its ids, by side."""
    fits: dict[str, tuple[bool, bool]]
    """Whether all ids of a side are integers of int64 and of uint64."""

    def starts(self, name: str) -> NDArray[np.int64]:
        """Return where the users or rows of each shard begin."""
        return self.part(f"{name}_start", 0, None)

    def part(self, name: str, first: int, end: int | None) -> NDArray[Any]:
        """Return some values of an array, in RAM."""
        return np.array(mapped(self.folder, name, None, None)[first:end])

    def has(self, name: str) -> bool:
        """Return whether the run has an array."""
        return file_of(self.folder, name).exists()

    def ids(self, side: str, first: int = 0, end: int | None = None) -> NDArray[Any]:
        """Return some ids of a side: integers, or texts as objects."""
        if self.held[side] != "text":
            found = mapped(self.folder, side, None, None)
            return np.array(found[first : len(found) if end is None else end])
        offsets = mapped(self.folder, f"{side}.offsets", None, None)
        offsets = np.array(offsets[first : len(offsets) if end is None else end + 1])
        return decoded(offsets, mapped(self.folder, f"{side}.bytes", None, None))


def decoded(offsets: NDArray[np.int64], spelling: NDArray[np.uint8]) -> NDArray[Any]:
    """Return texts as an array of objects; the offsets need not begin with the first byte."""
    start = int(offsets[0]) if len(offsets) else 0
    raw = spelling[start : int(offsets[-1]) if len(offsets) else 0].tobytes()
    at = (offsets - start).tolist()
    texts: list[Any] = [raw[a:b].decode() for a, b in itertools.pairwise(at)]
    return np.array([*texts, None], dtype=object)[:-1]


def write_run(
    place: Path,
    checked: CheckedRows,
    columns: Columns,
    log: ProblemLog,
    *,
    chunks: int,
    n_shards: int,
    untyped: bool,
) -> None:
    """Write a run, whole or not at all."""
    frame, is_kept, below = checked.frame, checked.is_kept, checked.is_seen
    named = is_kept | below
    users, users_E = indexed(frame["user"].filter(named), columns.user, False, [])
    shard_U = shard_of(users.values, n_shards)
    order_U = np.argsort(shard_U, kind="stable")
    place_U = np.empty(len(order_U), np.int32)
    place_U[order_U] = np.arange(len(order_U), dtype=np.int32)
    kept = frame.filter(is_kept)
    items, items_E = indexed(kept["item"], columns.item, False, [])
    arrays: dict[str, NDArray[Any]] = {
        "user_start": _starts(shard_U, n_shards),
        **value_arrays(users.values[order_U], "users"),
        **value_arrays(items.values, "items"),
    }
    is_row = is_kept.filter(named).to_numpy()
    rows: dict[str, NDArray[Any]] = {"user": users_E[is_row], "item": items_E.astype(np.int32)}
    if columns.weight:
        rows["weight"] = kept["weight_number"].to_numpy()
    if columns.time:
        rows["time"] = kept["time_us"].to_numpy()
    arrays |= _by_shard("row", rows, shard_U, place_U, n_shards)
    held = {"users": users.kind, "items": items.kind}
    if below.any():
        rated = frame.filter(below)
        seen_items, seen_E = indexed(rated["item"], columns.item, False, [])
        seen = {
            "seen_user": users_E[~is_row],
            "seen_item": seen_E.astype(np.int32),
            "seen_neutral": checked.is_neutral.filter(below).to_numpy(),
        }
        if columns.time:
            seen["seen_time"] = rated["time_us"].to_numpy()
        arrays |= value_arrays(seen_items.values, "seen_items")
        arrays |= _by_shard("seen", seen, shard_U, place_U, n_shards)
        held["seen_items"] = seen_items.kind
    about = {
        "chunks": chunks,
        "rows": frame.height,
        "kept": kept.height,
        "verdicts": {at: asdict(verdict) for at, verdict in checked.verdicts.items()},
        "unread": [asdict(problem) for problem in log.problems()],
        "kinds": feedback.count_kinds(frame["kind"]) if columns.kind else {},
        "held": held,
        "fits": {
            "users": fits(as_column(users.values), untyped=untyped),
            "items": fits(as_column(items.values), untyped=untyped),
        },
    }
    with folders.whole(place, replace=False) as temporary:
        write_plain(temporary, arrays)
        text = json.dumps(sealed.with_seal(about), allow_nan=False)
        folders.write(temporary / _ABOUT, text.encode())


def _by_shard(
    what: str,
    rows: dict[str, NDArray[Any]],
    shard_U: NDArray[np.uint16],
    place_U: NDArray[np.int32],
    n_shards: int,
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield rows in the order of their shards; the first array has users, by their index."""
    first = next(iter(rows))
    shard_E = shard_U[rows[first]]
    order_E = np.argsort(shard_E, kind="stable")
    yield f"{what}_start", _starts(shard_E, n_shards)
    for name, column in rows.items():
        values = column[order_E]
        yield name, place_U[values] if name == first else values


def _starts(shard_N: NDArray[np.uint16], n_shards: int) -> NDArray[np.int64]:
    counts = np.bincount(shard_N, minlength=n_shards)
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def read_run(folder: Path) -> Run:
    """Return what is known of a run that is written."""
    path = folder / _ABOUT
    about = sealed.read_table(path)
    sealed.check_seal(path, about)
    verdicts = {
        int(at): Verdict(**{**found, "places": tuple(Place(**p) for p in found["places"])})
        for at, found in about["verdicts"].items()
    }
    unread = tuple(
        Problem(found["code"], found["count"], tuple(Place(**p) for p in found["places"]))
        for found in about["unread"]
    )
    return Run(
        folder,
        about["chunks"],
        about["rows"],
        about["kept"],
        verdicts,
        unread,
        about["kinds"],
        about["held"],
        {side: tuple(both) for side, both in about["fits"].items()},
    )


def as_column(values: NDArray[Any]) -> pl.Series:
    """Return ids as a column: integers, or texts."""
    return (
        pl.Series(values.tolist(), dtype=pl.String) if values.dtype == object else pl.Series(values)
    )
