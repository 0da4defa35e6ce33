"""Read files chunk by chunk, and put checked rows in the order of their shards, on disk.

A run is what fits in RAM at once. Its file has a table of rows for each shard (a stream of Arrow's
IPC format), in the order of the input:

    user, item      the ids
    weight, time    the numbers that the columns mean, where there are such columns
    kept, neutral   whether a row is learned from, or else only known to the user and disliked;
                    and whether that does not count against its item

The rows of a shard are then merged. Its users ascend by their ids. To number the users of all
shards as a load in RAM does, their ids are merged range by range: bounds are taken from a sample of
all shards, so that the ids between two bounds fit in RAM.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np
import polars as pl
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from sdgar.data import feedback
from sdgar.data.building import Merging, RowAccount
from sdgar.data.ids import Ids, int_overflow
from sdgar.data.interactions import Interactions
from sdgar.data.read_options import Duplicates, ReadOptions
from sdgar.data.readers.chunks import Chunk
from sdgar.data.readers.cleaning import CheckedRows
from sdgar.data.readers.columns import Columns
from sdgar.data.readers.indexing import as_held, fits, indexed
from sdgar.data.readers.inputs import InputFiles
from sdgar.data.readers.problems import ProblemLog
from sdgar.data.sources import is_source
from sdgar.errors import ResourceError, UsageError
from sdgar.scale.shards.format import IdKind, file_of, mapped
from sdgar.scale.shards.writing import shard_of
from sdgar.storage import remote


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
"""The default of the most bytes of RAM that are used; the shards do not depend on it."""
LEAST_RAM = 256 << 20
"""The least RAM in which shards can be made."""
_BLOCK_BYTES = 64 << 20
"""The most bytes of a file that are read at once."""
_RUN_ROW_BYTES, _SHARD_ROW_BYTES = 256, 160
"""The bytes of RAM for each row while a run is written, and while a shard is merged."""
_BASE_BYTES = 128 << 20


def runs_of(inputs: InputFiles, log: ProblemLog, ram: int) -> Iterator[list[Chunk]]:
    """Yield chunks that fit in RAM together; what cannot be read as a row goes to the log."""
    most_rows, most_bytes = (ram - _BASE_BYTES) // _RUN_ROW_BYTES, ram // 8
    chunks = list[Chunk]()
    rows = size = 0
    for chunk in inputs.chunks(log, [], block_of(ram)):
        chunk_bytes = int(chunk.frame.estimated_size())
        full = rows + chunk.frame.height > most_rows
        if chunks and (full or size + chunk_bytes > most_bytes):
            yield chunks
            chunks, rows, size = [], 0, 0
        chunks.append(chunk)
        rows, size = rows + chunk.frame.height, size + chunk_bytes
    if chunks:
        yield chunks


def block_of(ram: int) -> int:
    """Return the bytes of a file that are read at once."""
    return min(_BLOCK_BYTES, ram // 64)


ID_TYPES: dict[IdKind, Any] = {"int64": pl.Int64, "uint64": pl.UInt64, "text": pl.String}
"""The type of a column for each kind of ids."""


class RowsByShard:
    """Checked rows of all runs, of which one shard is read at a time."""

    def __init__(self, folder: Path, columns: Columns, n_shards: int, *, untyped: bool) -> None:
        """Start without rows; ids of ``untyped`` files are text that may spell integers."""
        folder.mkdir()
        self._folder, self._columns, self._untyped = folder, columns, untyped
        self.rows_S = np.zeros(n_shards, np.int64)
        """The number of rows of each shard."""
        self.events: Counter[str] = Counter()
        """The number of rows of each kind of event."""
        self._edges: list[NDArray[np.int64]] = []
        self._kinds = {"user": dict(ID_TYPES), "item": dict(ID_TYPES)}
        self._items = pl.Series(dtype=pl.String)

    def add(self, checked: CheckedRows) -> None:
        """Write the rows of one run."""
        frame = checked.frame
        if self._columns.kind:
            self.events.update(feedback.count_kinds(frame["kind"]))
        named = (checked.is_kept | checked.is_seen).alias("named")
        rows = frame.select("user", "item", *self._numbers()).with_columns(
            kept=checked.is_kept, neutral=checked.is_neutral
        )
        rows = rows if named.all() else rows.filter(named)
        users, users_E = indexed(rows["user"], self._columns.user, False)
        items = rows["item"].filter(rows["kept"]).unique()
        self._note_kinds("user", pl.Series(users.values.tolist(), dtype=ID_TYPES[users.kind]))
        self._note_kinds("item", items)
        items = items if items.dtype == pl.String else items.cast(pl.Int128)
        self._items = pl.concat([self._items.cast(items.dtype), items]).unique()
        n_shards = len(self.rows_S)
        shard_E = shard_of(users.values, n_shards)[users_E]
        count_S = np.bincount(shard_E, minlength=n_shards)
        rows = rows[np.argsort(shard_E, kind="stable")]
        edges, first = [0], 0
        with self._file(len(self._edges)).open("xb") as file:
            for count in count_S.tolist():
                rows[first : first + count].write_ipc_stream(file)
                first += count
                edges.append(file.tell())
        self.rows_S += count_S
        self._edges.append(np.array(edges))

    def _numbers(self) -> list[pl.Expr]:
        """Return the columns of weights and times, where there are any."""
        weight = [pl.col("weight_number").alias("weight")] if self._columns.weight else []
        time = [pl.col("time_us").alias("time")] if self._columns.time else []
        return weight + time

    def _note_kinds(self, side: str, ids: pl.Series) -> None:
        """Leave out the kinds that do not hold these ids exactly."""
        is_text = ids.dtype == pl.String
        holds = dict(zip(ID_TYPES, (*fits(ids, untyped=self._untyped), is_text), strict=True))
        self._kinds[side] = {kind: t for kind, t in self._kinds[side].items() if holds[kind]}

    def _file(self, run: int) -> Path:
        return self._folder / f"{run:06d}.arrows"

    def kind(self, side: str) -> IdKind:
        """Return the kind of the ids of a side: the first that holds all of them."""
        if not self._kinds[side]:
            column = self._columns.user if side == "user" else self._columns.item
            raise int_overflow(f"integer ids in column {column!r}")
        return next(iter(self._kinds[side]))

    def items(self) -> pl.Series:
        """Return the distinct ids of items with rows to learn from, ascending."""
        return self._items.cast(ID_TYPES[self.kind("item")]).sort()

    def require_within(self, ram: int) -> None:
        """Raise if the largest shard cannot be merged in the RAM that is allowed."""
        bytes_S = np.sum([np.diff(edges) for edges in self._edges], axis=0)
        n_shards, rows = len(self.rows_S), int(self.rows_S.max())
        needed = _BASE_BYTES + int((self.rows_S * _SHARD_ROW_BYTES + bytes_S).max())
        if needed > ram:
            wanted = -(-n_shards * needed // ram) + 1
            raise ResourceError(
                f"a shard of {rows:,} rows needs {needed / 2**30:.1f} GiB of RAM, and --ram "
                f"allows {ram / 2**30:.1f}. Make more shards, such as --shards {wanted}, "
                "or allow more RAM.",
                code="out_of_memory",
            )

    def shard(self, number: int) -> pl.DataFrame:
        """Read the rows of a shard, in the order of the input."""
        parts = []
        for run, edges in enumerate(self._edges):
            first, last = edges[number : number + 2].tolist()
            with self._file(run).open("rb") as file:
                file.seek(first)
                part = pl.read_ipc_stream(file.read(last - first))
            held = {side: as_held(part[side], self.kind(side)) for side in ("user", "item")}
            parts.append(part.with_columns(**held))
        return pl.concat(parts, rechunk=True)


def merged(
    rows: pl.DataFrame, kind: str, items: Ids, duplicates: Duplicates, merging: Merging
) -> Interactions:
    """Return the rows of a shard, one for each pair; a shard may have none.

    Users have ids of this kind, and ``merging`` collects what is found of the weights.
    """
    users, users_E = indexed(rows["user"], "user", False)
    if kind != "text":
        users = Ids(users.values.astype(kind))
    is_kept = rows["kept"].to_numpy()
    items_E = _numbers_of(rows["item"], items)
    weight_E, time_E = (
        rows[name].to_numpy() if name in rows.columns else None for name in ("weight", "time")
    )
    learned = Interactions(
        users,
        items,
        np.zeros(len(users) + 1, np.int64),
        np.empty(0, np.int32),
        RowAccount(0, 0),
        weight_E=None if weight_E is None else np.empty(0, np.float32),
        time_E=None if time_E is None else np.empty(0, np.int64),
    )
    if is_kept.any():
        learned = Interactions.from_indices(
            users,
            items,
            users_E[is_kept],
            items_E[is_kept],
            weight_E=None if weight_E is None else weight_E[is_kept],
            time_E=None if time_E is None else time_E[is_kept],
            duplicates=duplicates,
            merging=merging,
        )
    if is_kept.all():
        return learned
    return learned.with_seen_pairs(
        users_E[~is_kept].astype(np.int64),
        items_E[~is_kept],
        None if time_E is None else time_E[~is_kept],
        rows["neutral"].to_numpy()[~is_kept],
    )


def _numbers_of(ids: pl.Series, items: Ids) -> NDArray[np.int64]:
    """Return the number of the item of each row; -1 for an item without rows to learn from."""
    distinct = ids.drop_nulls().unique()
    if items.kind == "text":
        known = pl.Series(items.values, dtype=pl.String)
        at = known.search_sorted(distinct).to_numpy().astype(np.int64).clip(max=len(known) - 1)
        number = np.where((known.gather(at) == distinct).to_numpy(), at, -1)
    else:
        number = items.index_of(distinct.to_numpy())
    numbered = pl.DataFrame({"item": distinct, "number": number.astype(np.int64)})
    rows = ids.to_frame("item").join(numbered, on="item", how="left", maintain_order="left")
    return rows["number"].fill_null(-1).to_numpy()


AT_ONCE = 1 << 22
"""The most ids that are merged at once."""


class _Texts(Sequence[str]):
    """Texts in a file, which are read from disk one or some at a time."""

    def __init__(self, folder: Path) -> None:
        self._offsets = mapped(folder, "users.offsets", "int64")
        self._bytes = mapped(folder, "users.bytes", "uint8")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> list[str]: ...

    def __getitem__(self, at: int | slice) -> str | list[str]:
        if not isinstance(at, slice):
            return self[at : at + 1][0]
        first, end, _ = at.indices(len(self))
        ends = self._offsets[first : end + 1].tolist()
        spelled = self._bytes[ends[0] : ends[-1]].tobytes()
        return [spelled[a - ends[0] : b - ends[0]].decode() for a, b in pairwise(ends)]


def write_ranks(shards: Sequence[Path], kind: str, at_once: int = AT_ONCE) -> None:
    """Write the number of each user in a load in RAM into the folder of each shard."""
    ids: list[Any] = [
        _Texts(shard) if kind == "text" else mapped(shard, "users", kind) for shard in shards
    ]
    for folder, known in zip(shards, ids, strict=True):
        open_memmap(file_of(folder, "rank"), "w+", np.int64, (len(known),))
    rank = 0
    for parts in _ranges(ids, at_once):
        some = [pl.Series(ids[shard][first:end]) for shard, (first, end) in parts.items()]
        order = pl.concat(some).arg_sort().to_numpy()
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(rank, rank + len(order))
        rank += len(order)
        done = 0
        for shard, (first, end) in parts.items():
            rank_U = open_memmap(file_of(shards[shard], "rank"), "r+")
            rank_U[first:end] = ranks[done : done + end - first]
            done += end - first


def _ranges(ids: Sequence[Any], at_once: int) -> Iterator[dict[int, tuple[int, int]]]:
    """Yield the ids of each range: the first and the last place in each shard that has some.

    Every step-th id of each of S shards is a sample. Between two of every S-th of all samples lie
    less than 2 · S · step ids.
    """
    step = max(1, at_once // (2 * len(ids)))
    samples = sorted(known[at] for known in ids for at in range(step, len(known), step))
    before = [0] * len(ids)
    for bound in [*samples[:: len(ids)], None]:
        after = [
            len(known) if bound is None else bisect_right(known, bound, lo=first)
            for known, first in zip(ids, before, strict=True)
        ]
        parts = {s: (a, b) for s, (a, b) in enumerate(zip(before, after, strict=True)) if a < b}
        before = after
        if parts:
            yield parts
