"""One shard: the rows of some users, memory-mapped."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sdgar.data.account import RowAccount
from sdgar.data.history import History
from sdgar.data.id_file import read_ids
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.scale.shards.files import has_file, mapped
from sdgar.scale.shards.manifest import TIME, WEIGHT, folder_of

if TYPE_CHECKING:
    from sdgar.scale.shards.shards import Shards


def ids_in(folder: Path, side: str, kind: str, n: int) -> Ids:
    """Read the ids of one side of a folder; integers stay on disk until they are needed."""
    names = [f"{side}.offsets", f"{side}.bytes"] if kind == "text" else [side]
    arrays = {name: mapped(folder, name, None, None) for name in names}
    return read_ids(folder, arrays, side, kind, n)


class Shard:
    """The rows of the users of one shard, in the order of ``Interactions``.

    Arrays are mapped from their files when they are first asked for, and cannot be written to.
    """

    def __init__(self, shards: Shards, number: int) -> None:
        self.of = shards
        """The shards that this is one of."""
        self._part = shards.described.parts[number]
        self.number = number
        self.folder = folder_of(shards.folder, number)

    @property
    def n_users(self) -> int:
        """The number of users of this shard."""
        return self._part.users

    @property
    def n_items(self) -> int:
        """The number of items of all shards."""
        return self.of.n_items

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._part.rows

    @cached_property
    def indptr_U1(self) -> NDArray[np.int64]:
        """The rows of user u are ``indptr_U1[u]`` to ``indptr_U1[u + 1] - 1``."""
        return mapped(self.folder, "indptr", "int64", self.n_users + 1)

    @cached_property
    def items_E(self) -> NDArray[np.int32]:
        """The item of each row, by its number in a load in memory; items ascend within a user."""
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
        """The number of each user in a load in memory; it ascends."""
        return mapped(self.folder, "rank", "int64", self.n_users)

    @property
    def users(self) -> Ids:
        """The ids of the users, read anew each time."""
        return ids_in(self.folder, "users", self.of.described.kinds["users"], self.n_users)

    @cached_property
    def seen(self) -> History | None:
        """The pairs that users of this shard know and do not like, if there are any."""
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
        """True for each pair of ``seen`` that does not speak against its item; None if all do."""
        if not self._part.seen or not has_file(self.folder, "seen.neutral"):
            return None
        return mapped(self.folder, "seen.neutral", "bool", self._part.seen)

    def interactions(self, items: Ids | None = None) -> Interactions:
        """Return the rows as ``Interactions`` of all items, with arrays that stay on disk.

        Items have their numbers among all shards, also those without a row in this one. ``items``
        are their ids, for those who have read them already.
        """
        return Interactions(
            users=self.users,
            items=self.of.items if items is None else items,
            indptr_U1=self.indptr_U1,
            items_E=self.items_E,
            account=RowAccount(read=len(self), kept=len(self)),
            weight_E=self.weight_E,
            time_E=self.time_E,
            seen=self.seen,
            seen_time_E=self.seen_time_E,
            seen_neutral_E=self.seen_neutral_E,
        )
