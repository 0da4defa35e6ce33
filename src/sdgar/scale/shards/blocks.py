"""Blocks of shards: as many users at a time as are trained together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import at_least
from sdgar.data.account import RowAccount
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions

if TYPE_CHECKING:
    from sdgar.scale.shards.shards import Shards


class Blocks(Sequence[Interactions]):
    """The rows of shards in blocks, each of which is read into memory when it is asked for.

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

    @cached_property
    def start_B1(self) -> NDArray[np.int64]:
        """The number of the first user of each block."""
        edges = [min(b * self._together, self.shards.n_shards) for b in range(len(self) + 1)]
        return self.shards.start_S1[edges]

    def most(self) -> tuple[int, int]:
        """Return the most users and the most rows of a block, also with rows that are set aside."""
        starts = np.arange(0, self.shards.n_shards, self._together)
        rows_S = np.array([part.rows for part in self.shards.described.parts], np.int64)
        rows = int(np.add.reduceat(rows_S, starts).max())
        return int(np.diff(self.start_B1).max()), rows

    @cached_property
    def _items(self) -> Ids:
        """Numbers in the place of the ids of items, which training does not ask for."""
        return Ids(np.arange(self.shards.n_items))

    @overload
    def __getitem__(self, number: int) -> Interactions: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[Interactions]: ...

    def __getitem__(self, number: int | slice) -> Interactions | Sequence[Interactions]:
        """Read the rows of a block."""
        if isinstance(number, slice):
            return [self[b] for b in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(f"there is no block {number} of {len(self)}")
        return self.rows(self.parts(number).start, self.parts(number).stop)

    def rank_U(self, number: int) -> NDArray[np.int64]:
        """Return the numbers of the users of a block in a load in memory."""
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
