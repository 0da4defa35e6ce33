"""Entries of items and users: stored, searched, and tracked by servers that cache them.

Every change has a number from one counter. The counter's row is locked until the change is
committed, so that numbers become visible in their order on PostgreSQL too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Row, and_, case, delete, exists, func, or_, select

from sdgar.errors import DataError, unknown_name
from sdgar.serve.store.connections import Transactions
from sdgar.serve.store.records import (
    MICROSECONDS,
    MOST_LONG,
    SIDES,
    Change,
    Entry,
    Side,
    checked_id,
    checked_text,
    finite_number,
    optional_text,
    require_at_most,
    searchable,
)
from sdgar.serve.store.schema import CHANGES, COUNTERS, ENTRIES, ENTRY_CATEGORIES, EVENTS, FIRST_MET

_COUNTER = "catalogue"
_AT_ONCE = 500
"""The maximum number of ids in one query, and of entries in one transaction."""
_MOST_CATEGORIES, _MOST_FEATURES = 100, 1000


class EntryTable(Transactions):
    """The entries of a store."""

    def get(self, side: Side, id: str) -> Entry | None:
        """Return the entry of an item or user, or None."""
        return self.entries_of(side, [id]).get(str(id))

    def entries_of(self, side: Side, ids: Iterable[str]) -> dict[str, Entry]:
        """Return entries by their ids; ids without an entry are left out."""
        _require_side(side)
        found: dict[str, Entry] = {}
        with self._reading() as connection:
            for some in _batches(dict.fromkeys(map(searchable, ids))):
                wanted = select(ENTRIES).where(ENTRIES.c.side == side, ENTRIES.c.id.in_(some))
                found |= {row.id: _entry(row) for row in connection.execute(wanted)}
        return found

    def put(self, side: Side, entry: Entry) -> None:
        """Store an entry; replace an earlier one."""
        self.put_all(side, [entry])

    def put_all(self, side: Side, entries: Iterable[Entry]) -> int:
        """Store entries, all or none, and return their number; the last one of an id counts."""
        _require_side(side)
        count, now = 0, time.time_ns() // 1000
        with self._writing() as connection:
            for some in _batches(entries):
                number = self._next(connection)
                rows = {row["id"]: row for row in (_row(side, entry, now) for entry in some)}
                self._replace(connection, side, rows, number)
                count += len(some)
        return count

    def delete(self, side: Side, id: str) -> bool:
        """Delete an entry; return whether there was one."""
        _require_side(side)
        id = searchable(id)
        with self._writing() as connection:
            number = self._next(connection)
            gone = connection.execute(
                delete(ENTRIES).where(ENTRIES.c.side == side, ENTRIES.c.id == id)
            )
            if not gone.rowcount:
                return False
            self._upsert(connection, CHANGES, [{"side": side, "id": id, "number": number}])
            if side == "item":  # an item without entry and events is new again
                met = exists().where(EVENTS.c.item_id == id)
                connection.execute(delete(FIRST_MET).where(FIRST_MET.c.item_id == id, ~met))
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
        with self._reading() as connection:
            return [_entry(row) for row in connection.execute(query)]

    def hidden_items(self) -> list[str]:
        """Return the ids of the items that are never recommended."""
        wanted = select(ENTRIES.c.id).where(ENTRIES.c.hidden, ENTRIES.c.side == "item")
        with self._reading() as connection:
            return list(connection.execute(wanted.order_by(ENTRIES.c.id)).scalars())

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
        with self._reading() as connection:
            return {row[0]: int(row[1]) for row in connection.execute(wanted)}

    def items_in(self, categories: Iterable[str]) -> list[str]:
        """Return the ids of the items in any of these categories."""
        found: dict[str, None] = {}
        with self._reading() as connection:
            for some in _batches(dict.fromkeys(map(searchable, categories))):
                wanted = select(ENTRY_CATEGORIES.c.id).where(
                    ENTRY_CATEGORIES.c.category.in_(some), ENTRY_CATEGORIES.c.side == "item"
                )
                found |= dict.fromkeys(connection.execute(wanted).scalars())
        return sorted(found)

    def latest(self, limit: int = 10, category: str | None = None) -> list[tuple[str, float]]:
        """Return the newest items: each id with the time of its first event or entry.

        Hidden items are left out.
        """
        item = FIRST_MET.c.item_id
        hidden = exists().where(ENTRIES.c.side == "item", ENTRIES.c.id == item, ENTRIES.c.hidden)
        wanted = select(FIRST_MET).where(~hidden)
        if category is not None:
            wanted = wanted.where(_in_category(category, item, "item"))
        wanted = wanted.order_by(FIRST_MET.c.time.desc(), item).limit(limit)
        with self._reading() as connection:
            return [(i, when / MICROSECONDS) for i, when in connection.execute(wanted)]

    def catalogue_version(self) -> int:
        """Return the number of the last change of any entry, 0 without changes."""
        wanted = select(COUNTERS.c.value).where(COUNTERS.c.name == _COUNTER)
        with self._reading() as connection:
            return int(connection.execute(wanted).scalar() or 0)

    def changed_after(self, number: int, limit: int = 1000) -> tuple[list[Change], int]:
        """Return the changes after a number, in order, and the number for the next call.

        Entries that were stored together share a number, and are returned together.
        """
        wanted = select(CHANGES).where(CHANGES.c.number > number).order_by(CHANGES.c.number)
        with self._reading() as connection:
            rows = connection.execute(wanted.limit(limit)).all()
            if len(rows) == limit:
                last = CHANGES.c.number <= rows[-1].number
                rows = connection.execute(wanted.where(last)).all()
        found = [Change(row.number, row.side, row.id) for row in rows]
        return found, found[-1].number if found else number

    def _next(self, connection: Connection) -> int:
        """Return the number of a new change; other changes wait until this one is committed."""
        made = self._insert(COUNTERS).values(name=_COUNTER, value=1)
        made = made.on_conflict_do_update(
            index_elements=["name"], set_={"value": COUNTERS.c.value + 1}
        )
        return int(connection.execute(made.returning(COUNTERS.c.value)).scalar_one())

    def _replace(
        self, connection: Connection, side: Side, rows: Mapping[str, dict[str, Any]], number: int
    ) -> None:
        self._upsert(connection, ENTRIES, list(rows.values()))
        own = ENTRY_CATEGORIES.c
        connection.execute(delete(ENTRY_CATEGORIES).where(own.side == side, own.id.in_(rows)))
        pairs = [
            {"category": category, "side": side, "id": id}
            for id, row in rows.items()
            for category in json.loads(row["categories"])
        ]
        if pairs:
            connection.execute(ENTRY_CATEGORIES.insert(), pairs)
        self._upsert(
            connection, CHANGES, [{"side": side, "id": id, "number": number} for id in rows]
        )
        if side == "item":
            met = self._insert(FIRST_MET).on_conflict_do_nothing()
            connection.execute(
                met, [{"item_id": id, "time": row["updated"]} for id, row in rows.items()]
            )


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


def _row(side: Side, entry: Entry, now: int) -> dict[str, Any]:
    what = f"an entry of {'an item' if side == 'item' else 'a user'}"
    id = checked_id(entry.id, f"id of {what}")
    name = optional_text(entry.name, f"name of {what}", most=MOST_LONG)
    categories = [
        checked_text(one, f"category of {what}") for one in dict.fromkeys(entry.categories)
    ]
    require_at_most(categories, _MOST_CATEGORIES, f"categories of {what}")
    require_at_most(entry.features, _MOST_FEATURES, f"features of {what}")
    return {
        "side": side,
        "id": id,
        "name": name,
        "picture": optional_text(entry.picture, f"picture of {what}", most=MOST_LONG),
        "categories": _json(categories),
        "features": _json(dict(_feature(n, v, what) for n, v in entry.features.items())),
        "hidden": bool(entry.hidden),
        "updated": now,
        "found_by_id": id.casefold(),
        "found_by_name": (name or "").casefold(),
    }


def _feature(name: Any, value: Any, what: str) -> tuple[str, float | str]:
    name = checked_text(name, f"name of a feature of {what}")
    if isinstance(value, str):
        return name, optional_text(value, f"feature of {what}", most=MOST_LONG) or ""
    return name, finite_number(value, f"feature of {what}")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _entry(row: Row[Any]) -> Entry:
    return Entry(
        id=row.id,
        name=row.name,
        picture=row.picture,
        categories=tuple(json.loads(row.categories)),
        features=json.loads(row.features),
        hidden=bool(row.hidden),
        updated=row.updated / MICROSECONDS,
    )
