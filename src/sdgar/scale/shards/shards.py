"""All shards of one data set."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import of_kind
from sdgar.data.account import RowAccount
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.scale.shards import writing
from sdgar.scale.shards.manifest import Described, read_described
from sdgar.scale.shards.shard import Shard, ids_in
from sdgar.show import printed
from sdgar.storage import remote
from sdgar.storage.addresses import is_remote
from sdgar.storage.folders import MANIFEST, read_table


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

    def __init__(self, folder: Path, described: Described) -> None:
        self.folder = folder
        self.described = described

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = False) -> Shards:
        """Open a folder of shards, after a check that all files are there and belong together.

        ``verify`` also computes the SHA-256 of every file, which reads all of them. The path may be
        an address such as s3://bucket/events.shards, of which files are fetched as they are needed.
        """
        folder = remote.fetched(path) if is_remote(path) else Path(path)
        return cls(folder, read_described(folder, verify=verify))

    @classmethod
    def write(
        cls, data: Interactions, path: str | Path, n_shards: int, *, overwrite: bool = False
    ) -> Shards:
        """Write interactions that are in memory as a folder of shards, whole or not at all."""
        of_kind("data", data, Interactions, "Read files and frames with sdgar.read(source).")
        return cls.open(writing.write(data, path, n_shards, overwrite=overwrite))

    @property
    def n_users(self) -> int:
        """The number of users."""
        return self.described.users

    @property
    def n_items(self) -> int:
        """The number of items."""
        return self.described.items

    @property
    def n_rows(self) -> int:
        """The number of rows of all shards, which is also the length."""
        return self.described.rows

    @property
    def n_shards(self) -> int:
        """The number of shards."""
        return len(self.described.parts)

    @property
    def has_weights(self) -> bool:
        """True if rows have weights."""
        return self.described.has_weights

    @property
    def has_times(self) -> bool:
        """True if rows have times."""
        return self.described.has_times

    @property
    def account(self) -> RowAccount:
        """The account of all rows that were read."""
        return self.described.account

    @property
    def digest(self) -> str:
        """The SHA-256 of what the manifest says, and thus of all that the shards hold."""
        return self.described.seal

    @property
    def fields(self) -> None:
        """The fields of contexts; None, as a context is a user here."""

    @cached_property
    def items(self) -> Ids:
        """The ids of the items, as in a load in memory."""
        return ids_in(self.folder, "items", self.described.kinds["items"], self.n_items)

    @cached_property
    def start_S1(self) -> NDArray[np.int64]:
        """The number of the first user of each shard, where users count shard by shard."""
        return np.cumsum([0, *(part.users for part in self.described.parts)], dtype=np.int64)

    @cached_property
    def rows_S(self) -> NDArray[np.int64]:
        """The number of rows of each shard."""
        return np.array([part.rows for part in self.described.parts], np.int64)

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
        return (Shard(self, number) for number in range(self.n_shards))

    def interactions(self, work: Path | None = None) -> Interactions:
        """Return all rows as reading the files gives them, in memory or in files of ``work``."""
        return writing.joined(self, work)

    def file_bytes(self) -> int:
        """Return the bytes of all files: the arrays that manifests name, and the manifests."""
        manifests = [self.folder / MANIFEST, *(shard.folder / MANIFEST for shard in self)]
        arrays = (read_table(path)["files"].values() for path in manifests)
        own = sum(path.stat().st_size for path in manifests)
        return own + sum(int(file["bytes"]) for files in arrays for file in files)

    def sizes(self) -> str:
        """Return the size of the data in words."""
        return (
            f"{self.n_users:,} users × {self.n_items:,} items, {self.n_rows:,} rows in "
            f"{self.n_shards:,} shards"
        )

    def _lines(self) -> list[str]:
        times = "times" if self.has_times else "no times"
        weights = "weights" if self.has_weights else "no weights"
        return [f"Shards: {self.sizes()}", self.account.sentence(), f"{times} · {weights}"]
