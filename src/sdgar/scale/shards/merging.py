"""Merge runs: the ids of all of them, the rows of one shard, and the numbers of users.

The ids of users ascend within each shard. To number them as a load in RAM does, they are merged
range by range: bounds are taken from a sample of all shards, so that the ids between two bounds fit
in RAM.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sdgar.data import building
from sdgar.data.account import RowAccount
from sdgar.data.building import Merging
from sdgar.data.id_file import value_arrays
from sdgar.data.ids import Ids, int_overflow, plain
from sdgar.data.interactions import Interactions
from sdgar.data.read_options import Duplicates
from sdgar.data.readers.indexing import fits
from sdgar.errors import DataError
from sdgar.maths.order import ranked
from sdgar.scale.shards.format import file_of, mapped, save, write_plain
from sdgar.scale.shards.runs import Run, as_column
from sdgar.scale.shards.writing import seen_arrays
from sdgar.storage import folders, sealed

RAW = "raw"
"""The name of the array of weights before they are transformed."""
_ABOUT = "stage.json"
_MOST_ITEMS = 2**31 - 1
_NUMBERS = ("item", "seen_item")
_SEEN = ("seen_user", "seen_item", "seen_time", "seen_neutral")


def kind_of(runs: Sequence[Run], side: str, column: str) -> str:
    """Return the type of the ids of a side: that of all runs together."""
    for at, kind in enumerate(("int64", "uint64")):
        if all(run.fits[side][at] for run in runs):
            return kind
    if all(run.held[side] == "text" for run in runs):
        return "text"
    raise int_overflow(f"integer ids in column {column!r}")


def as_kind(values: NDArray[Any], kind: str) -> NDArray[Any]:
    """Return ids in the type of all runs; text that spells integers becomes integers."""
    if kind == "text":
        return values
    if values.dtype != object:
        return values.astype(kind)
    return as_column(values).cast(pl.Int64 if kind == "int64" else pl.UInt64).to_numpy()


def union(parts: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct ids of several parts in ascending order, and the index of each id."""
    if parts and parts[0].dtype != object:
        return ranked(np.concatenate(parts))
    texts = as_column(np.concatenate([*parts, np.empty(0, object)]))
    distinct = texts.unique().sort()
    numbered = distinct.to_frame("id").with_row_index("index")
    index = texts.to_frame("id").join(numbered, on="id", how="left", maintain_order="left")["index"]
    return np.array([*distinct, None], dtype=object)[:-1], index.to_numpy().astype(np.int64)


def all_items(runs: Sequence[Run], kind: str) -> Ids:
    """Return the items of all runs, as a load in RAM numbers them."""
    known = union([as_kind(runs[0].ids("items"), kind)])[0]
    for run in runs[1:]:
        known = union([known, as_kind(run.ids("items"), kind)])[0]
    if len(known) > _MOST_ITEMS:
        raise DataError(
            f"there are {len(known):,} items, and at most {_MOST_ITEMS:,} can be numbered.",
            code="too_many_items",
        )
    return Ids(known)


def write_numbers(run: Run, items: Ids) -> None:
    """Write the number of each item of a run among all items into its folder; -1 for none."""
    for name in _NUMBERS:
        path = file_of(run.folder, f"{name}_number")
        if f"{name}s" not in run.held or path.exists():
            continue
        number_I = items.index_of(_comparable(run.ids(f"{name}s"), items)).astype(np.int32)
        temporary = path.with_suffix(".tmp")
        with temporary.open("wb") as file:
            save(file, number_I)
        temporary.replace(path)


def _comparable(values: NDArray[Any], items: Ids) -> NDArray[Any]:
    """Return ids as integers if all of them spell integers, as the items do: that is quicker."""
    if items.kind == "text" or values.dtype != object:
        return values
    column = as_column(values)
    return column.cast(pl.Int64).to_numpy() if fits(column, untyped=True)[0] else values


@dataclass(frozen=True)
class Stage:
    """What is known of a shard whose rows are merged."""

    users: int
    """The number of its users."""
    rows: int
    """The number of its rows."""
    seen: int
    """The number of pairs that its users know and dislike."""
    neutral: int
    """The number of pairs in ``seen`` that do not count against their item."""
    duplicates: int
    """The number of rows that repeated a pair of an earlier row."""
    merging: Merging
    """What was found of the weights."""


def write_stage(
    place: Path, runs: Sequence[Run], number: int, items: Ids, kind: str, duplicates: Duplicates
) -> None:
    """Merge the rows of one shard, and write its arrays, whole or not at all.

    The numbers of its users in a load in RAM are not known yet.
    """
    bounds = [run.starts("user")[number : number + 2].tolist() for run in runs]
    users, index_N = union(
        [as_kind(run.ids("users", *b), kind) for run, b in zip(runs, bounds, strict=True)]
    )
    if kind != "text":
        users = users.astype(kind)
    begins = np.cumsum([0, *(end - first for first, end in bounds)])
    maps = [
        (index_N[begin : begin + end - first], first)
        for begin, (first, end) in zip(begins, bounds, strict=False)
    ]
    rows = _gathered(runs, maps, number, "row", ("user", "item", "weight", "time"))
    merging = Merging()
    data = _merged(Ids(users), items, rows, duplicates, merging)
    if any(run.has("seen_user") for run in runs):
        seen = _gathered(runs, maps, number, "seen", _SEEN)
        data = data.with_seen_pairs(
            seen["seen_user"],
            seen["seen_item"].astype(np.int64),
            seen.get("seen_time"),
            seen["seen_neutral"],
        )
    arrays: dict[str, NDArray[Any]] = {
        "indptr": data.indptr_U1,
        "items": data.items_E,
        **value_arrays(users, "users"),
        **seen_arrays(data.seen, data.seen_time_E, data.seen_neutral_E),
    }
    if data.weight_E is not None:
        arrays[RAW] = data.weight_E
    if data.time_E is not None:
        arrays["time"] = data.time_E
    found = asdict(merging) | {"user": plain(merging.user), "item": plain(merging.item)}
    about = {
        "users": data.n_users,
        "rows": len(data),
        "seen": 0 if data.seen is None else len(data.seen.items_E),
        "neutral": 0 if data.seen_neutral_E is None else int(data.seen_neutral_E.sum()),
        "duplicates": data.account.duplicates,
        "merging": found,
    }
    with folders.whole(place, replace=False) as temporary:
        write_plain(temporary, arrays)
        folders.write(temporary / _ABOUT, json.dumps(sealed.with_seal(about)).encode())


def read_stage(place: Path) -> Stage:
    """Return what is known of a shard whose rows are merged."""
    about = sealed.read_table(place / _ABOUT, finite=False)
    sealed.check_seal(place / _ABOUT, about)
    return Stage(
        about["users"],
        about["rows"],
        about["seen"],
        about["neutral"],
        about["duplicates"],
        Merging(**about["merging"]),
    )


def _gathered(
    runs: Sequence[Run],
    maps: Sequence[tuple[NDArray[np.int64], int]],
    number: int,
    what: str,
    names: Sequence[str],
) -> dict[str, NDArray[Any]]:
    """Return the rows of a shard of all runs, in the order of the input.

    The first name is the array of users, which a map turns into their index in the shard; the
    second is the array of items, which get their numbers among all items.
    """
    of_users, of_items = names[:2]
    with_rows = [(run, at) for run, at in zip(runs, maps, strict=True) if run.has(of_users)]
    bounds = [run.starts(what)[number : number + 2].tolist() for run, _ in with_rows]
    begins = np.cumsum([0, *(end - first for first, end in bounds)])
    gathered: dict[str, NDArray[Any]] = {}
    for (run, (index_U, first_user)), (first, end), begin in zip(
        with_rows, bounds, begins, strict=False
    ):
        for name in names:
            if not run.has(name):
                continue
            values = run.part(name, first, end)
            if name == of_users:
                values = index_U[values - first_user]
            elif name == of_items:
                values = mapped(run.folder, f"{name}_number", "int32", None)[values]
            whole = gathered.setdefault(name, np.empty(begins[-1], values.dtype))
            whole[begin : begin + len(values)] = values
    return gathered


def _merged(
    users: Ids,
    items: Ids,
    rows: dict[str, NDArray[Any]],
    duplicates: Duplicates,
    merging: Merging,
) -> Interactions:
    """Return the rows of a shard, one for each pair; a shard may have none."""
    if len(rows["user"]):
        built = building.from_indices(
            users,
            items,
            rows["user"],
            rows["item"],
            weight_E=rows.get("weight"),
            time_E=rows.get("time"),
            duplicates=duplicates,
            merging=merging,
        )
        return Interactions(**built._asdict())
    return Interactions(
        users,
        items,
        np.zeros(len(users) + 1, np.int64),
        np.empty(0, np.int32),
        RowAccount(0, 0),
        weight_E=np.empty(0, np.float32) if "weight" in rows else None,
        time_E=np.empty(0, np.int64) if "time" in rows else None,
    )


AT_ONCE = 1 << 22
"""The most ids that are merged at once."""
_RANK = "rank"


class _Ascending(Protocol):
    """The ids of a shard, which are read from disk one or some at a time."""

    def __len__(self) -> int: ...

    def __getitem__(self, at: int) -> Any: ...


class _Texts:
    """Texts in a file, as bytes: they ascend as the texts do."""

    def __init__(self, folder: Path) -> None:
        self._offsets = mapped(folder, "users.offsets", "int64", None)
        self._bytes = mapped(folder, "users.bytes", "uint8", None)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, at: int) -> bytes:
        return self._bytes[self._offsets[at] : self._offsets[at + 1]].tobytes()


def write_ranks(shards: Sequence[Path], kind: str, at_once: int = AT_ONCE) -> None:
    """Write the number of each user in a load in RAM into the folder of each shard."""
    if all(file_of(shard, _RANK).exists() for shard in shards):
        return
    ids: list[Any] = [
        _Texts(shard) if kind == "text" else mapped(shard, "users", kind, None) for shard in shards
    ]
    temporary = [file_of(shard, _RANK).with_suffix(".tmp") for shard in shards]
    for path, known in zip(temporary, ids, strict=True):
        path.unlink(missing_ok=True)
        _create(path, len(known))
    rank = 0
    for parts in _ranges(ids, at_once):
        order = _order([_some(ids[shard], *bounds) for shard, bounds in parts.items()])
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(rank, rank + len(order))
        rank += len(order)
        done = 0
        for shard, (first, end) in parts.items():
            _open(temporary[shard])[first:end] = ranks[done : done + end - first]
            done += end - first
    for path, folder in zip(temporary, shards, strict=True):
        path.replace(file_of(folder, _RANK))


def _ranges(ids: Sequence[_Ascending], at_once: int) -> Iterator[dict[int, tuple[int, int]]]:
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


def _some(known: Any, first: int, end: int) -> Any:
    if isinstance(known, _Texts):
        return [known[at] for at in range(first, end)]
    return known[first:end]


def _order(parts: list[Any]) -> NDArray[np.int64]:
    """Return the order of ids that are all different."""
    if isinstance(parts[0], list):
        texts = [text.decode() for part in parts for text in part]
        return pl.Series(texts, dtype=pl.String).arg_sort().to_numpy().astype(np.int64)
    return np.argsort(np.concatenate(parts), kind="stable")


def _create(path: Path, length: int) -> None:
    made = np.lib.format.open_memmap(path, "w+", np.int64, (length,))
    del made


def _open(path: Path) -> NDArray[np.int64]:
    return np.lib.format.open_memmap(path, "r+")
