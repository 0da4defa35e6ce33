"""Views of shards: in blocks of users that are trained together, and without held-out rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import at_least
from sdgar.data.building import RowAccount
from sdgar.data.held_out import HeldOut
from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.errors import DataError
from sdgar.maths.rng import Stream, sort_keys
from sdgar.scale.shards.shards import Shard, Shards


class ShardBlocks:
    """The rows of shards in blocks, each of which is read into RAM when it is used.

    A block has the users of some shards that follow each other, and the last one may have fewer.
    Users are called by their numbers, shard by shard, and items have the numbers of all shards.
    """

    def __init__(self, shards: Shards, together: int) -> None:
        self.shards = shards
        """The shards that are put together."""
        self._together = at_least("together", together, 1)

    def __len__(self) -> int:
        """Return the number of blocks."""
        return -(-self.shards.n_shards // self._together)

    def parts(self, number: int) -> range:
        """Return the numbers of the shards of a block."""
        first = number * self._together
        return range(first, min(first + self._together, self.shards.n_shards))

    def places(self, number: int) -> list[tuple[int, slice]]:
        """Return the numbers of the shards of a block, with the places of their users."""
        parts, start_S1 = self.parts(number), self.shards.start_S1
        edges = (start_S1[parts.start : parts.stop + 1] - start_S1[parts.start]).tolist()
        return [(shard, slice(*edges[at : at + 2])) for at, shard in enumerate(parts)]

    @cached_property
    def start_B1(self) -> NDArray[np.int64]:
        """The number of the first user of each block."""
        edges = [min(b * self._together, self.shards.n_shards) for b in range(len(self) + 1)]
        return self.shards.start_S1[edges]

    def most(self) -> tuple[int, int]:
        """Return the most users and the most rows of a block, also with rows that are set aside."""
        starts = np.arange(0, self.shards.n_shards, self._together)
        rows_S = [part.rows for part in self.shards.described.shards]
        rows = int(np.add.reduceat(rows_S, starts).max())
        return int(np.diff(self.start_B1).max()), rows

    @cached_property
    def _items(self) -> Ids:
        """Numbers instead of the ids of items, which training does not need."""
        return Ids(np.arange(self.shards.n_items))

    def __getitem__(self, number: int) -> Interactions:
        """Read the rows of a block."""
        if not 0 <= number < len(self):
            raise IndexError(f"there is no block {number} of {len(self)}")
        return self.rows(self.parts(number).start, self.parts(number).stop)

    def rank_U(self, number: int) -> NDArray[np.int64]:
        """Return the numbers of the users of a block in a load in RAM."""
        return np.concatenate([self.shards[s].rank_U for s in self.parts(number)])

    def rows(self, first: int, last: int, only: Sequence[int] | None = None) -> Interactions:
        """Read the rows of shards first … last - 1, as many of these as there are.

        With ``only`` the users of other shards than these have no rows.
        """
        last = min(last, self.shards.n_shards)
        parts = [self.shards[s] for s in range(first, last)]
        read = [only is None or part.number in only for part in parts]

        def joined(name: str) -> NDArray[Any] | None:
            arrays = [getattr(part, name) for part in parts]
            if arrays[0] is None:
                return None
            some = [array for array, wanted in zip(arrays, read, strict=True) if wanted]
            return np.concatenate([arrays[0][:0], *some])

        length_U = np.concatenate(
            [np.diff(part.indptr_U1) * wanted for part, wanted in zip(parts, read, strict=True)]
        )
        users = np.arange(self.shards.start_S1[first], self.shards.start_S1[last])
        items_E = joined("items_E")
        assert items_E is not None
        return Interactions(
            users=Ids(users),
            items=self._items,
            indptr_U1=np.concatenate(([0], np.cumsum(length_U))),
            items_E=items_E,
            account=RowAccount(read=len(items_E), kept=len(items_E)),
            weight_E=joined("weight_E"),
            time_E=joined("time_E"),
        )


@dataclass(frozen=True, slots=True)
class Held:
    """Rows of some users that are set aside, with all that is needed to measure a model on them."""

    users_T: NDArray[np.int64]
    """The numbers of the users, counted shard by shard, ascending."""
    rows_E: NDArray[np.int64]
    """The numbers of the rows, counted shard by shard, ascending."""
    held_out: HeldOut
    """The rows as what is to be predicted for users 0 … T - 1."""
    seen: History
    """The other rows of these users."""


def hold(
    shards: Shards, *, users: int, share: float, seed: int, stream: Stream = Stream.SPLIT_TEST
) -> Held:
    """Set a share of the rows of at most so many users aside, at least one row of each.

    The users are chosen at random among those with two rows or more. Of each, the newest rows are
    held out, or random ones if there are no times. Who is chosen depends neither on the order of
    the shards nor on their number.
    """
    chosen_T = _chosen(shards, users, seed, stream)
    if not len(chosen_T):
        raise DataError(
            f"no user of {shards.folder} has two rows or more, so nothing can be set aside to "
            "measure a model on. Shard events in which users come again.",
            code="nothing_to_hold_out",
        )
    rows, items, seen = [], [], []
    first_rows = np.concatenate(([0], np.cumsum(shards.rows_S)))
    for shard, own in shards.with_users(chosen_T):
        for user in own:
            first, last = map(int, shard.indptr_U1[user : user + 2])
            rank, n = int(shard.rank_U[user]), last - first
            if shard.time_E is not None:
                order = np.argsort(shard.time_E[first:last], kind="stable")
            else:
                order = np.argsort(sort_keys(seed, stream, 1 + rank % 2**20, np.arange(n)))
            out = np.sort(order[n - min(n - 1, max(1, round(share * n))) :])
            items.append(shard.items_E[first:last][out])
            seen.append(np.delete(shard.items_E[first:last], out))
            rows.append(int(first_rows[shard.number]) + first + out)
    held_out = HeldOut(
        users_T=np.arange(len(items)), indptr_T1=_ends(items),
        items_E=np.concatenate(items).astype(np.int64), unknown_users=0, unknown_user_rows=0,
        cold_items=0, cold_item_rows=0,
    )  # fmt: skip
    known = History(_ends(seen), np.concatenate(seen))
    return Held(chosen_T, np.concatenate(rows), held_out, known)


def _ends(parts: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    return np.cumsum([0, *map(len, parts)], dtype=np.int64)


class Without(Shards):
    """Shards without some of their rows."""

    def __init__(self, shards: Shards, rows_E: NDArray[np.int64]) -> None:
        """Leave out these rows, by numbers counted shard by shard, ascending."""
        rows = np.ascontiguousarray(rows_E, "<i8").tobytes()
        digest = hashlib.sha256(shards.digest.encode() + rows).hexdigest()
        super().__init__(shards.folder, shards.described, digest)
        self._whole, self._rows_E = shards, rows_E
        self._edges_S1 = np.searchsorted(rows_E, np.concatenate(([0], np.cumsum(shards.rows_S))))
        self.n_rows = shards.n_rows - len(rows_E)
        self.rows_S = shards.rows_S - np.diff(self._edges_S1)

    def __getitem__(self, number: int) -> Shard:
        """Return one shard without its rows that are left out."""
        whole = self._whole[number]
        first, last = self._edges_S1[whole.number : whole.number + 2]
        if first == last:
            return whole
        before = int(self._whole.rows_S[: whole.number].sum())
        return _Rest(whole, self._rows_E[first:last] - before)


class _Rest(Shard):
    """One shard without some of its rows; what is left is in RAM."""

    def __init__(self, whole: Shard, rows_E: NDArray[np.int64]) -> None:
        super().__init__(whole.of, whole.number)
        self._part = replace(self._part, rows=len(whole) - len(rows_E))
        before_U1 = np.searchsorted(rows_E, whole.indptr_U1)
        self.indptr_U1 = whole.indptr_U1 - before_U1
        self.items_E = np.delete(whole.items_E, rows_E)
        self.weight_E = None if whole.weight_E is None else np.delete(whole.weight_E, rows_E)
        self.time_E = None if whole.time_E is None else np.delete(whole.time_E, rows_E)


def _chosen(shards: Shards, most: int, seed: int, stream: Stream) -> NDArray[np.int64]:
    """Return the numbers of at most so many users with two rows or more, ascending."""
    keys, numbers = np.empty(0, np.int64), np.empty(0, np.int64)
    for shard in shards:
        user_T = np.flatnonzero(np.diff(shard.indptr_U1) > 1)
        key_T = sort_keys(seed, stream, 0, np.asarray(shard.rank_U[user_T]))
        keys = np.append(keys, key_T)
        numbers = np.append(numbers, user_T + shards.start_S1[shard.number])
        if len(keys) > most:
            least = np.argpartition(keys, most)[:most]
            keys, numbers = keys[least], numbers[least]
    return np.sort(numbers)
