"""Pairs of a user and an item that the user knows and does not like, by their raw ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import Ids


@dataclass(frozen=True, slots=True)
class Unliked:
    """Pairs that users know and do not like, whatever numbers their ids have anywhere."""

    users: NDArray[Any]
    """The id of the user of each pair."""
    items: NDArray[Any]
    """The id of the item of each pair."""
    time: NDArray[np.int64] | None
    """The time of each pair, if it is known."""
    neutral: NDArray[np.bool_]
    """True for each pair that does not speak against its item."""

    @classmethod
    def joined(cls, *parts: Unliked | None) -> Unliked | None:
        """Return the pairs of several parts together; None if there is no part."""
        there = [part for part in parts if part is not None]
        if len(there) < 2:
            return there[0] if there else None
        users, items, neutral = (
            np.concatenate([getattr(part, name) for part in there])
            for name in ("users", "items", "neutral")
        )
        times = [part.time for part in there if part.time is not None]
        time = np.concatenate(times) if len(times) == len(there) else None
        return cls(users, items, time, neutral)

    def where(self, keep: NDArray[np.bool_]) -> Unliked:
        """Return some of the pairs."""
        time = None if self.time is None else self.time[keep]
        return Unliked(self.users[keep], self.items[keep], time, self.neutral[keep])

    def pairs(self, users: Ids, items: Ids) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the pairs that have numbers among these ids, and which of them are neutral.

        A pair is user · M + item, with M items; they ascend. What is neutral once is neutral.
        """
        users_E, items_E = users.index_of(self.users), items.index_of(self.items)
        there_E = (users_E >= 0) & (items_E >= 0)
        pair_E = (users_E * len(items) + items_E)[there_E]
        pairs = np.unique(pair_E)
        return pairs, np.isin(pairs, pair_E[self.neutral[there_E]])
