"""Shards of a data set on disk: their rows, memory-mapped, one shard at a time or all together."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import of_kind
from sdgar.data.history import History
from sdgar.data.ids import Ids, common_kind, read_ids
from sdgar.data.interactions import Interactions
from sdgar.scale.shards import writing
from sdgar.scale.shards.format import (
    TIME,
    WEIGHT,
    Manifest,
    folder_of,
    has_file,
    mapped,
    read_manifest,
)
from sdgar.show import printed
from sdgar.storage import remote
from sdgar.storage.sealed import MANIFEST, read_table


def ids_in(folder: Path, side: str, kind: str, n: int) -> Ids:
    """Read the ids of one side of a folder; integers stay on disk until they are needed."""
    names = [f"{side}.offsets", f"{side}.bytes"] if kind == "text" else [side]
    arrays = {name: mapped(folder, name) for name in names}
    return read_ids(folder, arrays, side, kind, n)


class Shard:
    """The rows of the users of one shard, in the order of ``Interactions``.

    Arrays are mapped from their files when they are first used, and cannot be written to.
    """

    def __init__(self, shards: Shards, number: int) -> None:
        self.of = shards
        """The shards that this is one of."""
        self._part = shards.described.shards[number]
        self.number = number
        self.folder = folder_of(shards.folder, number)
        self.n_users, self.n_items = self._part.users, shards.n_items

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._part.rows

    @cached_property
    def indptr_U1(self) -> NDArray[np.int64]:
        """The rows of user u are ``indptr_U1[u]`` to ``indptr_U1[u + 1] - 1``."""
        return mapped(self.folder, "indptr", "int64", self.n_users + 1)

    @cached_property
    def items_E(self) -> NDArray[np.int32]:
        """The item of each row, by its number in a load in RAM; items ascend within a user."""
        return mapped(self.folder, "items", "int32", len(self))

    @cached_property
    def weight_E(self) -> NDArray[np.float32] | None:
        """The weight of each row, if there are weights."""
        return mapped(self.folder, WEIGHT, "float32", len(self)) if self.of.has_weights else None

    @cached_property
    def time_E(self) -> NDArray[np.int64] | None:
        """The time of each row, if there are times."""
        return mapped(self.folder, TIME, "int64", len(self)) if self.of.has_times else None

    @cached_property
    def rank_U(self) -> NDArray[np.int64]:
        """The number of each user in a load in RAM; it ascends."""
        return mapped(self.folder, "rank", "int64", self.n_users)

    @property
    def users(self) -> Ids:
        """The ids of the users, read again each time."""
        return ids_in(self.folder, "users", self.of.described.ids["users"], self.n_users)

    @cached_property
    def seen(self) -> History | None:
        """The pairs that users of this shard know and dislike, if there are any."""
        if not self._part.seen:
            return None
        return History(
            mapped(self.folder, "seen.indptr", "int64", self.n_users + 1),
            mapped(self.folder, "seen.items", "int32", self._part.seen),
        )

    @cached_property
    def seen_time_E(self) -> NDArray[np.int64] | None:
        """The time of each pair of ``seen``, if it is known."""
        if not self._part.seen or not has_file(self.folder, "seen.time"):
            return None
        return mapped(self.folder, "seen.time", "int64", self._part.seen)

    @cached_property
    def seen_neutral_E(self) -> NDArray[np.bool_] | None:
        """True for each pair of ``seen`` that does not count against its item; None if all do."""
        if not self._part.seen or not has_file(self.folder, "seen.neutral"):
            return None
        return mapped(self.folder, "seen.neutral", "bool", self._part.seen)


class Shards(printed.Described):
    """Interactions on disk, in shards of users.

    >>> data = sdgar.Interactions.from_arrays(["ann", "ann", "bob"], [7, 8, 7])
    >>> shards = sdgar.Shards.write(data, "events.shards", 2)
    >>> shards
    Shards: 2 users × 2 items, 3 rows in 2 shards
    3 rows read = 3 kept
    no times · no weights
    >>> shards.interactions().fingerprint() == data.fingerprint()
    True
    """

    def __init__(self, folder: Path, described: Manifest, digest: str) -> None:
        self.folder, self.described = folder, described
        self.digest = digest
        """The SHA-256 of what the manifest says, and thus of all that the shards hold."""
        self.n_users, self.n_items, self.n_rows = described.users, described.items, described.rows
        self.n_shards = len(described.shards)
        self.has_weights, self.has_times = described.weights, described.times
        self.account = described.account
        """The account of all rows that were read."""
        self.fields = None
        """The fields of contexts; None, as a context is a user here."""

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = False) -> Shards:
        """Open a folder of shards, after a check that all files are there and belong together.

        ``verify`` also computes the SHA-256 of every file, which reads all of them. The path may be
        an address such as s3://bucket/events.shards, of which files are fetched as they are needed.
        """
        folder = remote.fetched(path)
        return cls(folder, *read_manifest(folder, verify=verify))

    @classmethod
    def write(
        cls, data: Interactions, path: str | Path, n_shards: int, *, overwrite: bool = False
    ) -> Shards:
        """Write interactions that are in RAM as a folder of shards, whole or not at all."""
        of_kind("data", data, Interactions, "Read files and frames with sdgar.read(source).")
        return cls.open(writing.write(data, path, n_shards, overwrite=overwrite))

    @cached_property
    def items(self) -> Ids:
        """The ids of the items, as in a load in RAM."""
        return ids_in(self.folder, "items", self.described.ids["items"], self.n_items)

    @cached_property
    def start_S1(self) -> NDArray[np.int64]:
        """The number of the first user of each shard, where users count shard by shard."""
        return np.cumsum([0, *(part.users for part in self.described.shards)], dtype=np.int64)

    @cached_property
    def rows_S(self) -> NDArray[np.int64]:
        """The number of rows of each shard."""
        return np.array([part.rows for part in self.described.shards], np.int64)

    def __len__(self) -> int:
        """Return the number of rows of all shards."""
        return self.n_rows

    def __getitem__(self, number: int) -> Shard:
        """Return one shard; nothing is read yet."""
        if not -self.n_shards <= number < self.n_shards:
            raise IndexError(f"there is no shard {number} of {self.n_shards}")
        return Shard(self, number % self.n_shards)

    def __iter__(self) -> Iterator[Shard]:
        """Go over all shards in order."""
        return (self[number] for number in range(self.n_shards))

    def with_users(self, users_T: NDArray[np.int64]) -> Iterator[tuple[Shard, NDArray[np.int64]]]:
        """Yield each shard with some of these users, which ascend, and their numbers in it."""
        own_S = np.split(users_T, np.searchsorted(users_T, self.start_S1[1:-1]))
        for shard, own_T in zip(self, own_S, strict=True):
            if len(own_T):
                yield shard, own_T - self.start_S1[shard.number]

    def interactions(self, work: Path | None = None) -> Interactions:
        """Return all rows as reading the files gives them, in RAM or in files of ``work``."""

        def allocate(name: str, dtype: type) -> NDArray[Any]:
            if work is None or not self.n_rows:
                return np.empty(self.n_rows, dtype)
            work.mkdir(parents=True, exist_ok=True)
            return np.memmap(work / f"{name}-{self.n_rows}.rows", dtype, "w+", shape=(self.n_rows,))

        arrays = {"items_E": allocate("items", np.int32)}
        if self.has_weights:
            arrays["weight_E"] = allocate("weight", np.float32)
        if self.has_times:
            arrays["time_E"] = allocate("time", np.int64)
        indptr_U1 = start_of_users(self)
        for shard in self:
            place_E = writing.rows_of(indptr_U1, shard.rank_U)[0]
            for name, array in arrays.items():
                array[place_E] = getattr(shard, name)
        rank = np.concatenate([shard.rank_U for shard in self])
        ids = np.concatenate(common_kind(*(shard.users.values for shard in self)))
        return Interactions(
            users=Ids(ids[np.argsort(rank, kind="stable")]),
            items=self.items,
            indptr_U1=indptr_U1,
            items_E=arrays["items_E"],
            account=self.account,
            weight_E=arrays.get("weight_E"),
            time_E=arrays.get("time_E"),
            **_joined_seen(self),
        )

    def file_bytes(self) -> int:
        """Return the bytes of all files: the arrays that manifests name, and the manifests."""
        manifests = [self.folder / MANIFEST, *(shard.folder / MANIFEST for shard in self)]
        arrays = (read_table(path)["files"].values() for path in manifests)
        own = sum(path.stat().st_size for path in manifests)
        return own + sum(int(file["bytes"]) for files in arrays for file in files)

    def size_text(self) -> str:
        """Return the size of the data in words."""
        return (
            f"{self.n_users:,} users × {self.n_items:,} items, {self.n_rows:,} rows in "
            f"{self.n_shards:,} shards"
        )

    def _lines(self) -> list[str]:
        times = "times" if self.has_times else "no times"
        weights = "weights" if self.has_weights else "no weights"
        return [f"Shards: {self.size_text()}", self.account.sentence(), f"{times} · {weights}"]


def start_of_users(shards: Shards) -> NDArray[np.int64]:
    """Return where the rows of each user begin in a load in RAM, by rank."""
    return _indptr(shards, [(shard.rank_U, shard.indptr_U1) for shard in shards])


def _joined_seen(shards: Shards) -> dict[str, Any]:
    """Return the pairs that users know and dislike, of all shards, with their times."""
    known = [(shard, shard.seen) for shard in shards if shard.seen is not None]
    if not known:
        return {}
    indptr_U1 = _indptr(shards, [(shard.rank_U, seen.indptr_U1) for shard, seen in known])
    items_E = np.empty(indptr_U1[-1], np.int32)
    timed = all(shard.seen_time_E is not None for shard, _ in known)
    time_E = np.empty(indptr_U1[-1], np.int64) if timed else None
    neutral_E = np.zeros(indptr_U1[-1], np.bool_)
    for shard, seen in known:
        place_E = writing.rows_of(indptr_U1, shard.rank_U)[0]
        items_E[place_E] = seen.items_E
        if time_E is not None and shard.seen_time_E is not None:
            time_E[place_E] = shard.seen_time_E
        if shard.seen_neutral_E is not None:
            neutral_E[place_E] = shard.seen_neutral_E
    return {
        "seen": History(indptr_U1, items_E),
        "seen_time_E": time_E,
        "seen_neutral_E": neutral_E if neutral_E.any() else None,
    }


def _indptr(
    shards: Shards, parts: list[tuple[NDArray[np.int64], NDArray[np.int64]]]
) -> NDArray[np.int64]:
    """Return where the rows of each user begin in a load in RAM."""
    count_U = np.zeros(shards.n_users, np.int64)
    for rank_U, indptr_U1 in parts:
        count_U[rank_U] = np.diff(indptr_U1)
    return np.concatenate(([0], np.cumsum(count_U)))
