"""Merge the rows of one shard, and number the users of all shards.

The ids of users ascend within each shard. To number them as a load in RAM does, they are merged
range by range: bounds are taken from a sample of all shards, so that the ids between two bounds fit
in RAM.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np
import polars as pl
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from sdgar.data.building import Merging, RowAccount
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.data.read_options import Duplicates
from sdgar.data.readers.indexing import indexed
from sdgar.scale.shards.format import file_of, mapped


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
    distinct = ids.unique()
    if items.kind == "text":
        known = pl.Series(items.values, dtype=pl.String)
        at = known.search_sorted(distinct).to_numpy().clip(max=len(known) - 1)
        number = np.where((known.gather(at) == distinct).to_numpy(), at, -1)
    else:
        number = items.index_of(distinct.to_numpy())
    numbered = pl.DataFrame({"item": distinct, "number": number.astype(np.int64)})
    rows = ids.to_frame("item").join(numbered, on="item", how="left", maintain_order="left")
    return rows["number"].to_numpy()


AT_ONCE = 1 << 22
"""The most ids that are merged at once."""


class _Texts(Sequence[str]):
    """Texts in a file, which are read from disk one or some at a time."""

    def __init__(self, folder: Path) -> None:
        self._offsets = mapped(folder, "users.offsets", "int64", None)
        self._bytes = mapped(folder, "users.bytes", "uint8", None)

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
        _Texts(shard) if kind == "text" else mapped(shard, "users", kind, None) for shard in shards
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
