"""Number the users of all shards as a load in memory does: by their place among all ids.

The ids of each shard ascend. They are merged range by range: bounds are taken from a sample of all
shards, so that the ids between two bounds fit in memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sdgar.scale.shards.files import file_of, mapped

AT_ONCE = 1 << 22
"""The most ids that are merged at once."""
_RANK = "rank"


class _Ascending(Protocol):
    """The ids of a shard, of which one or some are read when they are asked for."""

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
    """Write the number of each user in a load in memory, beside the users of each shard."""
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
