"""Events: stored in one transaction, read by number or by user.

Numbers ascend in the order in which events become visible. On PostgreSQL a sequence alone does not
guarantee this: a transaction with number 7 may commit after one with number 8, and a reader who
saw 8 would miss 7. So a transaction that adds events holds an advisory lock from before it takes
numbers until its commit is visible to all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, select

from sdgar.serve.store.connections import EVENTS_LOCK, Transactions
from sdgar.serve.store.records import AddedEvents, Event, StoredEvent
from sdgar.serve.store.schema import (
    EVENTS,
    FIRST_MET,
    MICROSECONDS,
    now,
    searchable,
    to_records,
    to_row,
)

_HOUR = 3600 * MICROSECONDS
_BATCH = 50_000
"""The number of events that are read at a time."""


class EventTable(Transactions):
    """The events of a store."""

    def add_events(self, events: Iterable[Event]) -> AddedEvents:
        """Store events, all or none; they are on the disk when this returns.

        An event is not stored again if the store has its key already.
        """
        arrival = {"received": now()}
        with_time = arrival | {"time": arrival["received"]}
        rows = [
            to_row(EVENTS, event, "an event", **(with_time if event.time is None else arrival))
            for event in events
        ]
        if not rows:
            return AddedEvents(0, 0)
        first: dict[str, int] = {}
        for row in rows:
            first[row["item"]] = min(row["time"], first.get(row["item"], row["time"]))
        made = self._insert(EVENTS).on_conflict_do_nothing(index_elements=[EVENTS.c.key])
        with self._writing() as connection:
            self._hold_lock(connection, EVENTS_LOCK)
            stored = connection.execute(made.returning(EVENTS.c.number), rows).all()
            if stored:
                self._note_first_met(connection, first)
        return AddedEvents(len(stored), len(rows) - len(stored))

    def _note_first_met(self, connection: Connection, first: Mapping[str, int]) -> None:
        """Store the time when each item was first met, unless an earlier one is stored."""
        met = self._insert(FIRST_MET)
        met = met.on_conflict_do_update(
            index_elements=[FIRST_MET.c.item],
            set_={"time": met.excluded.time},
            where=met.excluded.time < FIRST_MET.c.time,
        )
        pairs = [{"item": item, "time": when} for item, when in sorted(first.items())]
        connection.execute(met, pairs)

    def events_after(self, number: int, limit: int = 1000) -> tuple[list[StoredEvent], int]:
        """Return events with higher numbers in order, and the last number among them.

        A caller who continues with that number sees every event once, whatever is added
        meanwhile. Without new events, the same number is returned.
        """
        wanted = select(EVENTS).where(EVENTS.c.number > number).order_by(EVENTS.c.number)
        found = to_records(StoredEvent, EVENTS, self._rows(wanted.limit(limit)))
        return found, found[-1].number if found else number

    def last_number(self) -> int:
        """Return the number of the newest event, 0 without events."""
        return int(self._value(select(func.max(EVENTS.c.number))) or 0)

    def events_of(self, user: str, limit: int = 1000) -> list[StoredEvent]:
        """Return the newest events of a user, ordered by their time, the newest last."""
        wanted = (
            select(EVENTS)
            .where(EVENTS.c.user == searchable(user))
            .order_by(EVENTS.c.time.desc(), EVENTS.c.number.desc())
        )
        return to_records(StoredEvent, EVENTS, self._rows(wanted.limit(limit)))[::-1]

    def count_events(self, user: str | None = None, *, item: str | None = None) -> int:
        """Return the number of events, of all, or of a user or an item."""
        wanted = select(func.count()).select_from(EVENTS)
        if user is not None:
            wanted = wanted.where(EVENTS.c.user == searchable(user))
        if item is not None:
            wanted = wanted.where(EVENTS.c.item == searchable(item))
        return int(self._value(wanted))

    def events_per_hour(self, hours: int = 24) -> list[int]:
        """Return the number of events received in each of the last hours; the last one ends now."""
        start = now() - hours * _HOUR
        hour = ((EVENTS.c.received - start) // _HOUR).label("hour")
        wanted = select(hour, func.count()).where(EVENTS.c.received > start).group_by(hour)
        counts = [0] * hours
        for at, count in self._rows(wanted):
            counts[min(int(at), hours - 1)] += int(count)
        return counts

    def has_weights(self) -> bool:
        """Return whether any event has a weight."""
        wanted = select(EVENTS.c.number).where(EVENTS.c.weight.is_not(None)).limit(1)
        return self._value(wanted) is not None

    def event_rows(
        self, columns: Sequence[str], *, last: int, batch: int = _BATCH
    ) -> Iterator[Sequence[Row[Any]]]:
        """Yield some columns of the events up to a number, in order and in batches.

        Each batch is a separate short transaction, because events are only added at the end.
        """
        chosen = [EVENTS.c.number, *(EVENTS.c[name] for name in columns)]
        wanted = select(*chosen).where(EVENTS.c.number <= last).order_by(EVENTS.c.number)
        number = -1
        while rows := self._rows(wanted.where(EVENTS.c.number > number).limit(batch)):
            number = rows[-1].number
            yield rows
