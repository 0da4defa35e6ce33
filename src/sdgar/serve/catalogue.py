"""Facts about items and users from the store: names, pictures, categories, hidden items.

Entries are cached in RAM until something in the store changes. The cache also has the items that
are never listed, because they are hidden or because the rules block them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import Ids
from sdgar.recommend.ranking import BlockedItems
from sdgar.recommend.rules import Facts, Rules
from sdgar.serve.snapshot import Snapshot
from sdgar.serve.store import Database, Entry, Side

T = TypeVar("T")
_MOST_CACHED = 200_000
"""The maximum number of entries in RAM."""
_MOST_CATEGORY_SETS = 100
"""The maximum number of sets of categories whose items are in RAM."""


class EntryCache:
    """The entries of items and users, as of the newest change of the store."""

    def __init__(self, database: Database | None, rules: Rules) -> None:
        self._database, self._rules = database, rules
        self._version = -1
        self._clear(())
        self.found_kept = self.read = 0
        """How many entries were found in RAM, and how many were read from the store."""

    def _clear(self, hidden: Sequence[str]) -> None:
        self._hidden = tuple(hidden)
        self._entries: dict[tuple[str, str], Entry | None] = {}
        self._blocked: dict[str, BlockedItems] = {}
        self._in: dict[tuple[str, frozenset[str]], NDArray[np.int64]] = {}
        self._facts: dict[str, Facts] = {}

    def refresh(self) -> None:
        """Clear the cache if the store has changed; called by a thread every second."""
        if self._database is None:
            return
        version = self._database.catalogue_version()
        if version != self._version:
            self._clear(self._database.hidden_items())
            self._version = version

    async def blocked(self, snapshot: Snapshot) -> BlockedItems:
        """Return the items of a model that are hidden or blocked by the rules."""
        cache = self._blocked
        if snapshot.version in cache:  # as for nearly all requests
            return cache[snapshot.version]
        facts, rules = await self.facts(snapshot) if self._rules else None, self._rules.using()

        def make() -> BlockedItems:
            parts = [snapshot.blocked(self._hidden)] if self._hidden else []
            if facts is not None and (by_rules_I := rules.blocked(facts)) is not None:
                parts.append(by_rules_I)
            return BlockedItems(np.logical_or.reduce(parts) if parts else None)

        return await _once(cache, snapshot.version, make)

    async def facts(self, snapshot: Snapshot) -> Facts:
        """Return the facts that rules need: categories and fields, popularity, vectors."""
        return await _once(self._facts, snapshot.version, lambda: self.facts_of(snapshot))

    def facts_of(self, snapshot: Snapshot) -> Facts:
        """Return the facts that rules need, read from the store."""
        table = {}
        if self._database is not None:
            ids = [str(item) for item in snapshot.model.items.values.tolist()]
            table = {
                id: {**entry.features, "categories": entry.categories}
                for id, entry in self._database.entries_of("item", ids).items()
            }
        return Facts.of(
            table,
            snapshot.model.items,
            popularity_I=snapshot.model.popularity_I,
            item_ID=snapshot.model.model.item_vectors(),
        )

    async def entries(self, ids: Iterable[str], side: Side = "item") -> dict[str, Entry]:
        """Return entries by their ids; ids without an entry are left out."""
        wanted = list(dict.fromkeys(ids))
        if self._database is None or not wanted:
            return {}
        cache = self._entries
        missing = [one for one in wanted if (side, one) not in cache]
        self.found_kept += len(wanted) - len(missing)
        self.read += len(missing)
        if missing:
            found = await asyncio.to_thread(self._database.entries_of, side, missing)
            if len(cache) + len(missing) > _MOST_CACHED:
                cache.clear()
            cache.update({(side, one): found.get(one) for one in missing})
        pairs = ((one, cache.get((side, one))) for one in wanted)
        return {one: entry for one, entry in pairs if entry is not None}

    async def in_categories(
        self, snapshot: Snapshot, categories: Sequence[str]
    ) -> NDArray[np.int64]:
        """Return the indices of the items in any of these categories."""
        database, names = self._database, frozenset(categories)
        if database is None:
            return np.zeros(0, np.int64)

        def make() -> NDArray[np.int64]:
            index_T = snapshot.model.items.index_of(database.items_in(sorted(names)))
            return index_T[index_T >= 0]

        key = snapshot.version, names
        if key not in self._in and len(self._in) >= _MOST_CATEGORY_SETS:
            self._in.clear()
        return await _once(self._in, key, make)


async def _once(cache: dict[Any, T], key: Any, make: Callable[[], T]) -> T:
    """Return a value of the cache, which a thread makes if it is missing.

    The cache may be replaced meanwhile: then no old value is put into the new one.
    """
    if key not in cache:
        cache[key] = await asyncio.to_thread(make)
    return cache[key]


def details_of(entry: Entry | None) -> dict[str, Any]:
    """Return the name, picture and categories of an entry of the store."""
    if entry is None:
        return {"name": None, "picture": None, "categories": []}
    return {"name": entry.name, "picture": entry.picture, "categories": list(entry.categories)}


def model_ids(ids: Ids, raw: Sequence[str]) -> list[Any]:
    """Return the model's spelling of ids; unknown ids stay as they are."""
    index_T = ids.index_of(raw)
    known = ids.at(index_T.clip(min=0)).tolist() if len(ids) else list(raw)
    return [own if at >= 0 else one for own, one, at in zip(known, raw, index_T, strict=True)]
