"""What the store knows of items and users: names, pictures, categories, and what is hidden.

Entries that were asked for are kept in memory until something in the store changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sdgar.models.factors import Factors
from sdgar.models.sum import Sum
from sdgar.recommend.rules import Facts
from sdgar.serve.snapshot import Snapshot

if TYPE_CHECKING:
    from sdgar.serve.store import Database, Entry
    from sdgar.serve.store.records import Side

_MOST_KEPT = 200_000
"""How many entries are kept in memory."""


@dataclass(frozen=True, eq=False)
class Blocked:
    """The items that may not be listed; two of these are alike only if they are the same one."""

    blocked_I: NDArray[np.bool_] | None = None
    """Whether each item is left out; None if none is."""


class Catalogue:
    """The entries of items and users, as of the newest change of the store."""

    def __init__(self, database: Database | None) -> None:
        self._database = database
        self._entries: dict[tuple[str, str], Entry | None] = {}
        self._hidden: tuple[str, ...] = ()
        self._blocked: dict[str, Blocked] = {}
        self._in: dict[tuple[str, frozenset[str]], NDArray[np.int64]] = {}
        self._facts: dict[str, Facts] = {}
        self._version = -1
        self.found_kept = self.read = 0
        """How many entries were found in memory, and how many were read from the store."""

    def refresh(self) -> None:
        """Forget what is kept if the store has changed; called by a thread every second."""
        if self._database is None:
            return
        version = self._database.catalogue_version()
        if version != self._version:
            self._hidden = tuple(self._database.hidden_items())
            self._entries, self._blocked, self._in, self._facts = {}, {}, {}, {}
            self._version = version

    def blocked(self, snapshot: Snapshot) -> Blocked:
        """Return the hidden items of a model."""
        found = self._blocked.get(snapshot.version)
        if found is None:
            found = Blocked(left_out(snapshot, self._hidden) if self._hidden else None)
            self._blocked[snapshot.version] = found
        return found

    async def facts(self, snapshot: Snapshot) -> Facts:
        """Return what rules look at: categories and fields of all items, popularity, vectors."""
        kept = self._facts
        if snapshot.version not in kept:
            kept[snapshot.version] = await asyncio.to_thread(self.facts_of, snapshot)
        return kept[snapshot.version]

    def facts_of(self, snapshot: Snapshot) -> Facts:
        """Read from the store what rules look at, anew."""
        model, items = snapshot.model.model, snapshot.model.items
        vectors = model.first if isinstance(model, Sum) else model
        table = {}
        if self._database is not None:
            ids = [str(item) for item in items.values.tolist()]
            table = {
                id: {**entry.features, "categories": entry.categories}
                for id, entry in self._database.entries_of("item", ids).items()
            }
        return Facts.of(
            table,
            items,
            popularity_I=snapshot.model.popularity_I,
            item_ID=vectors.item_ID.cpu().numpy() if isinstance(vectors, Factors) else None,
        )

    async def entries(self, ids: Iterable[str], side: Side = "item") -> dict[str, Entry]:
        """Return the entries of those that have one."""
        wanted = list(dict.fromkeys(ids))
        if self._database is None or not wanted:
            return {}
        kept = self._entries
        missing = [one for one in wanted if (side, one) not in kept]
        self.found_kept += len(wanted) - len(missing)
        self.read += len(missing)
        if missing:
            found = await asyncio.to_thread(self._database.entries_of, side, missing)
            if len(kept) + len(missing) > _MOST_KEPT:
                kept.clear()
            kept.update({(side, one): found.get(one) for one in missing})
        told = ((one, kept.get((side, one))) for one in wanted)
        return {one: entry for one, entry in told if entry is not None}

    async def in_categories(
        self, snapshot: Snapshot, categories: Sequence[str]
    ) -> NDArray[np.int64]:
        """Return the numbers of the items that are in one of these categories."""
        if self._database is None:
            return np.zeros(0, np.int64)
        kept, key = self._in, (snapshot.version, frozenset(categories))
        if key not in kept:
            ids = await asyncio.to_thread(self._database.items_in, sorted(key[1]))
            index_T = snapshot.model.items.index_of(ids)
            if len(kept) >= 100:
                kept.clear()
            kept[key] = index_T[index_T >= 0]
        return kept[key]


def left_out(snapshot: Snapshot, ids: Sequence[str | int]) -> NDArray[np.bool_]:
    """Return which items these are, for all items of a model."""
    blocked_I = np.zeros(len(snapshot.model.items), bool)
    index_T = snapshot.model.items.index_of(ids)
    blocked_I[index_T[index_T >= 0]] = True
    return blocked_I
