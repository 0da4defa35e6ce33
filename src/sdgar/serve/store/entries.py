"""Entries of items and users: stored, searched, and cached by servers.

Every change raises one counter, by which servers notice that their cache is out of date. The
counter's row is locked until the change is committed, so that changes become visible in order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from sqlalchemy import Connection, and_, case, delete, exists, func, or_, select

from sdgar.errors import DataError, unknown_name
from sdgar.serve.store.connections import Transactions
from sdgar.serve.store.records import SIDES, Entry, Side
from sdgar.serve.store.schema import (
    COUNTERS,
    ENTRIES,
    ENTRY_CATEGORIES,
    EVENTS,
    FIRST_MET,
    MICROSECONDS,
    now,
    searchable,
    to_records,
    to_row,
)

_COUNTER = "catalogue"
_AT_ONCE = 500
"""The maximum number of ids in one query, and of entries in one statement."""


class EntryTable(Transactions):
    """The entries of a store."""

    def get(self, side: Side, id: str) -> Entry | None:
        """Return the entry of an item or user, or None."""
        return self.entries_of(side, [id]).get(str(id))

    def entries_of(self, side: Side, ids: Iterable[str]) -> dict[str, Entry]:
        """Return entries by their ids; ids without an entry are left out."""
        _require_side(side)
        found: list[Entry] = []
        for some in _batches(dict.fromkeys(map(searchable, ids))):
            wanted = select(ENTRIES).where(ENTRIES.c.side == side, ENTRIES.c.id.in_(some))
            found += to_records(Entry, ENTRIES, self._rows(wanted))
        return {entry.id: entry for entry in found}

    def put(self, side: Side, entry: Entry) -> None:
        """Store an entry; replace an earlier one."""
        self.put_all(side, [entry])

    def put_all(self, side: Side, entries: Iterable[Entry]) -> int:
        """Store entries, all or none, and return their number; the last one of an id counts."""
        _require_side(side)
        count, when = 0, now()
        with self._writing() as connection:
            self._count_change(connection)
            for some in _batches(entries):
                rows = {row["id"]: row for row in (_row(side, entry, when) for entry in some)}
                self._replace(connection, side, list(rows.values()))
                count += len(some)
        return count

    def delete(self, side: Side, id: str) -> bool:
        """Delete an entry; return whether there was one."""
        _require_side(side)
        id = searchable(id)
        with self._writing() as connection:
            self._count_change(connection)
            gone = connection.execute(
                delete(ENTRIES).where(ENTRIES.c.side == side, ENTRIES.c.id == id)
            )
            if not gone.rowcount:
                return False
            if side == "item":  # an item without entry and events is new again
                met = exists().where(EVENTS.c.item == id)
                connection.execute(delete(FIRST_MET).where(FIRST_MET.c.item == id, ~met))
        return True

    def search(
        self, side: Side, text: str, limit: int = 20, category: str | None = None
    ) -> list[Entry]:
        """Return entries whose id begins with a text or whose name contains it, in any case.

        An equal id comes first, then ids that begin with the text, an equal name, other names.
        """
        _require_side(side)
        if text and not searchable(text):
            return []
        wanted = text.casefold()
        begins = ENTRIES.c.found_by_id.startswith(wanted, autoescape=True)
        contains = ENTRIES.c.found_by_name.contains(wanted, autoescape=True)
        query = select(ENTRIES).where(ENTRIES.c.side == side, or_(begins, contains))
        if category is not None:
            query = query.where(_in_category(category, ENTRIES.c.id, side))
        equals = ENTRIES.c.found_by_name == wanted
        rank = case((ENTRIES.c.id == text, 0), (begins, 1), (equals, 2), else_=3)
        query = query.order_by(rank, self._in_byte_order(ENTRIES.c.id)).limit(limit)
        return to_records(Entry, ENTRIES, self._rows(query))

    def hidden_items(self) -> list[str]:
        """Return the ids of the items that are never recommended."""
        wanted = select(ENTRIES.c.id).where(ENTRIES.c.hidden, ENTRIES.c.side == "item")
        return [id for (id,) in self._rows(wanted.order_by(ENTRIES.c.id))]

    def categories(self) -> dict[str, int]:
        """Return the number of items of each category; hidden items do not count."""
        entry = and_(
            ENTRIES.c.side == ENTRY_CATEGORIES.c.side, ENTRIES.c.id == ENTRY_CATEGORIES.c.id
        )
        name = ENTRY_CATEGORIES.c.category
        wanted = (
            select(name, func.count())
            .join(ENTRIES, entry)
            .where(ENTRIES.c.side == "item", ~ENTRIES.c.hidden)
            .group_by(name)
            .order_by(func.count().desc(), self._in_byte_order(name))
        )
        return {category: int(count) for category, count in self._rows(wanted)}

    def items_in(self, categories: Iterable[str]) -> list[str]:
        """Return the ids of the items in any of these categories."""
        found: set[str] = set()
        own = ENTRY_CATEGORIES.c
        for some in _batches(dict.fromkeys(map(searchable, categories))):
            wanted = select(own.id).where(own.category.in_(some), own.side == "item")
            found.update(id for (id,) in self._rows(wanted))
        return sorted(found)

    def latest(self, limit: int = 10, category: str | None = None) -> list[tuple[str, float]]:
        """Return the newest items: each id with the time of its first event or entry.

        Hidden items are left out.
        """
        item = FIRST_MET.c.item
        hidden = exists().where(ENTRIES.c.side == "item", ENTRIES.c.id == item, ENTRIES.c.hidden)
        wanted = select(FIRST_MET).where(~hidden)
        if category is not None:
            wanted = wanted.where(_in_category(category, item, "item"))
        wanted = wanted.order_by(FIRST_MET.c.time.desc(), item).limit(limit)
        return [(id, when / MICROSECONDS) for id, when in self._rows(wanted)]

    def catalogue_version(self) -> int:
        """Return the number of the last change of any entry, 0 without changes."""
        wanted = select(COUNTERS.c.value).where(COUNTERS.c.name == _COUNTER)
        return int(self._value(wanted) or 0)

    def _count_change(self, connection: Connection) -> None:
        """Count a change; other changes wait until this one is committed."""
        made = self._insert(COUNTERS).values(name=_COUNTER, value=1)
        counted = made.on_conflict_do_update(
            index_elements=[COUNTERS.c.name], set_={"value": COUNTERS.c.value + 1}
        )
        connection.execute(counted)

    def _replace(self, connection: Connection, side: Side, rows: Sequence[dict[str, Any]]) -> None:
        self._upsert(connection, ENTRIES, rows)
        own = ENTRY_CATEGORIES.c
        ids = [row["id"] for row in rows]
        connection.execute(delete(ENTRY_CATEGORIES).where(own.side == side, own.id.in_(ids)))
        pairs = [
            {"category": category, "side": side, "id": row["id"]}
            for row in rows
            for category in json.loads(row["categories"])
        ]
        if pairs:
            connection.execute(ENTRY_CATEGORIES.insert(), pairs)
        if side == "item":
            met = self._insert(FIRST_MET).on_conflict_do_nothing()
            connection.execute(met, [{"item": row["id"], "time": row["updated"]} for row in rows])


def put_table(store: EntryTable, side: Side, entries: Callable[[], Iterable[Entry]]) -> int:
    """Store the entries of a whole table, and return their number; all are checked first.

    They are stored in batches, so that a server on the same store does not wait for long.
    """
    for number, entry in enumerate(entries(), 1):
        try:
            _row(side, entry, 0)
        except DataError as error:
            raise DataError(f"row {number:,}: {error}", code=error.code) from error
    return sum(store.put_all(side, some) for some in _batches(entries()))


def _in_category(category: str, id: Any, side: Side) -> Any:
    own = ENTRY_CATEGORIES.c
    return exists().where(own.category == searchable(category), own.side == side, own.id == id)


def _require_side(side: str) -> None:
    if side not in SIDES:
        raise unknown_name("side", side, SIDES)


def _batches(many: Iterable[Any]) -> Iterator[Sequence[Any]]:
    rest = iter(many)
    while batch := list(islice(rest, _AT_ONCE)):
        yield batch


def _row(side: Side, entry: Entry, when: int) -> dict[str, Any]:
    what = f"an entry of {'an item' if side == 'item' else 'a user'}"
    row = to_row(ENTRIES, entry, what, side=side, updated=when)
    found_by = {"found_by_id": row["id"], "found_by_name": row["name"] or ""}
    return row | {name: text.casefold() for name, text in found_by.items()}
