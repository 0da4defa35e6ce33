"""Events: stored in one transaction, read by number or by user.

Numbers ascend in the order in which events become visible. On PostgreSQL a sequence alone does not
guarantee this: a transaction with number 7 may commit after one with number 8, and a reader who
saw 8 would miss 7. So a transaction that adds events holds an advisory lock from before it takes
numbers until its commit is visible to all.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Row, func, select

from sdgar.serve.store.connections import EVENTS_LOCK, Transactions
from sdgar.serve.store.records import (
    MICROSECONDS,
    AddedEvents,
    Event,
    StoredEvent,
    checked_id,
    checked_text,
    finite_number,
    optional_text,
    searchable,
    to_microseconds,
)
from sdgar.serve.store.schema import EVENTS, FIRST_MET

_HOUR = 3600 * MICROSECONDS
_BATCH = 50_000
"""The number of events that are read at a time."""


class EventTable(Transactions):
    """The events of a store."""

    def add_events(self, events: Iterable[Event]) -> AddedEvents:
        """Store events, all or none; they are on the disk when this returns.

        An event is not stored again if the store has its key already.
        """
        now = time.time_ns() // 1000
        rows = [_row(event, now) for event in events]
        if not rows:
            return AddedEvents(0, 0)
        first: dict[str, int] = {}
        for row in rows:
            first[row["item_id"]] = min(row["time"], first.get(row["item_id"], row["time"]))
        made = self._insert(EVENTS).on_conflict_do_nothing(index_elements=["event_key"])
        met = self._insert(FIRST_MET)
        met = met.on_conflict_do_update(
            index_elements=["item_id"],
            set_={"time": met.excluded.time},
            where=met.excluded.time < FIRST_MET.c.time,
        )
        with self._writing() as connection:
            self._hold_lock(connection, EVENTS_LOCK)
            stored = connection.execute(made.returning(EVENTS.c.number), rows).all()
            if stored:
                pairs = [{"item_id": item, "time": when} for item, when in sorted(first.items())]
                connection.execute(met, pairs)
        return AddedEvents(len(stored), len(rows) - len(stored))

    def events_after(self, number: int, limit: int = 1000) -> tuple[list[StoredEvent], int]:
        """Return events with higher numbers in order, and the last number among them.

        A caller who continues with that number sees every event once, whatever is added
        meanwhile. Without new events, the same number is returned.
        """
        wanted = select(EVENTS).where(EVENTS.c.number > number).order_by(EVENTS.c.number)
        with self._reading() as connection:
            found = [_stored(row) for row in connection.execute(wanted.limit(limit))]
        return found, found[-1].number if found else number

    def last_number(self) -> int:
        """Return the number of the newest event, 0 without events."""
        with self._reading() as connection:
            return int(connection.execute(select(func.max(EVENTS.c.number))).scalar() or 0)

    def events_of(self, user: str, limit: int = 1000) -> list[StoredEvent]:
        """Return the newest events of a user, ordered by their time, the newest last."""
        wanted = (
            select(EVENTS)
            .where(EVENTS.c.user_id == searchable(user))
            .order_by(EVENTS.c.time.desc(), EVENTS.c.number.desc())
        )
        with self._reading() as connection:
            return [_stored(row) for row in connection.execute(wanted.limit(limit))][::-1]

    def count_events(self, user: str | None = None) -> int:
        """Return the number of events, of all users or of one."""
        wanted = select(func.count()).select_from(EVENTS)
        if user is not None:
            wanted = wanted.where(EVENTS.c.user_id == searchable(user))
        with self._reading() as connection:
            return int(connection.execute(wanted).scalar_one())

    def events_of_item(self, item: str) -> int:
        """Return the number of events of an item."""
        wanted = select(func.count()).where(EVENTS.c.item_id == searchable(item))
        with self._reading() as connection:
            return int(connection.execute(wanted).scalar_one())

    def events_per_hour(self, hours: int = 24) -> list[int]:
        """Return the number of events received in each of the last hours; the last one ends now."""
        start = time.time_ns() // 1000 - hours * _HOUR
        hour = ((EVENTS.c.received - start) // _HOUR).label("hour")
        wanted = select(hour, func.count()).where(EVENTS.c.received > start).group_by(hour)
        counts = [0] * hours
        with self._reading() as connection:
            for at, count in connection.execute(wanted):
                counts[min(int(at), hours - 1)] += int(count)
        return counts

    def has_weights(self) -> bool:
        """Return whether any event has a weight."""
        wanted = select(EVENTS.c.number).where(EVENTS.c.weight.is_not(None)).limit(1)
        with self._reading() as connection:
            return connection.execute(wanted).first() is not None

    def event_rows(
        self, columns: Sequence[str], *, last: int, batch: int = _BATCH
    ) -> Iterator[Sequence[Row[Any]]]:
        """Yield some columns of the events up to a number, in order and in batches.

        Each batch is a separate short transaction, because events are only added at the end.
        """
        chosen = [EVENTS.c.number, *(EVENTS.c[name] for name in columns)]
        wanted = select(*chosen).where(EVENTS.c.number <= last).order_by(EVENTS.c.number)
        number = -1
        while True:
            with self._reading() as connection:
                after = wanted.where(EVENTS.c.number > number).limit(batch)
                rows = connection.execute(after).all()
            if not rows:
                return
            number = rows[-1].number
            yield rows


def _row(event: Event, now: int) -> dict[str, Any]:
    weight = event.weight
    return {
        "user_id": checked_id(event.user, "user id of an event"),
        "item_id": checked_id(event.item, "item id of an event"),
        "kind": checked_text(event.kind, "kind of an event"),
        "time": now if event.time is None else to_microseconds(event.time, "time of an event"),
        "weight": None if weight is None else finite_number(weight, "weight of an event"),
        "event_key": optional_text(event.key, "key of an event"),
        "request": optional_text(event.request, "request of an event"),
        "received": now,
    }


def _stored(row: Row[Any]) -> StoredEvent:
    return StoredEvent(
        number=row.number,
        user=row.user_id,
        item=row.item_id,
        kind=row.kind,
        time=row.time / MICROSECONDS,
        weight=row.weight,
        key=row.event_key,
        request=row.request,
        received=row.received / MICROSECONDS,
    )
