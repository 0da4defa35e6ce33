"""Events: stored in one transaction, read by number or by user.

Numbers ascend in the order in which events become visible. On PostgreSQL a sequence alone does not
promise that: a transaction that took number 7 may commit after one that took 8, and a reader who
saw 8 would never look for 7. So a transaction that adds events holds an advisory lock from before
it takes numbers until its commit is seen by all.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Row, func, select

from sdgar.serve.store import texts
from sdgar.serve.store.records import Added, Event, Stored
from sdgar.serve.store.tables import EVENTS, FIRST_MET
from sdgar.serve.store.transactions import EVENTS_LOCK, Transactions

_HOUR = 3600 * texts.MICROSECONDS
_BATCH = 50_000
"""The most events that are read at a time."""


class Events(Transactions):
    """The part of a store that holds events."""

    def add_events(self, events: Iterable[Event]) -> Added:
        """Store events, all or none; when this returns they are on the disk.

        An event whose key was stored before is not stored again, whoever sent it.
        """
        now = time.time_ns() // 1000
        rows = [_row(event, now) for event in events]
        if not rows:
            return Added(0, 0)
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
            self._alone(connection, EVENTS_LOCK)
            stored = connection.execute(made.returning(EVENTS.c.number), rows).all()
            if stored:
                pairs = [{"item_id": item, "time": when} for item, when in sorted(first.items())]
                connection.execute(met, pairs)
        return Added(len(stored), len(rows) - len(stored))

    def events_after(self, number: int, limit: int = 1000) -> tuple[list[Stored], int]:
        """Return events with higher numbers in their order, and the last number among them.

        Who asks again with that number misses no event and sees none twice, whatever is added
        meanwhile. Without new events the number is the one that was given.
        """
        wanted = select(EVENTS).where(EVENTS.c.number > number).order_by(EVENTS.c.number)
        with self._reading() as connection:
            found = [_stored(row) for row in connection.execute(wanted.limit(limit))]
        return found, found[-1].number if found else number

    def last_number(self) -> int:
        """Return the number of the newest event; 0 if there is none."""
        with self._reading() as connection:
            return int(connection.execute(select(func.max(EVENTS.c.number))).scalar() or 0)

    def events_of(self, user: str, limit: int = 1000) -> list[Stored]:
        """Return the newest events of a user by the time when they happened, the newest last."""
        wanted = (
            select(EVENTS)
            .where(EVENTS.c.user_id == texts.sought(user))
            .order_by(EVENTS.c.time.desc(), EVENTS.c.number.desc())
        )
        with self._reading() as connection:
            return [_stored(row) for row in connection.execute(wanted.limit(limit))][::-1]

    def count_events(self, user: str | None = None) -> int:
        """Count all events, or those of a user."""
        wanted = select(func.count()).select_from(EVENTS)
        if user is not None:
            wanted = wanted.where(EVENTS.c.user_id == texts.sought(user))
        with self._reading() as connection:
            return int(connection.execute(wanted).scalar_one())

    def events_of_item(self, item: str) -> int:
        """Count the events of an item."""
        wanted = select(func.count()).where(EVENTS.c.item_id == texts.sought(item))
        with self._reading() as connection:
            return int(connection.execute(wanted).scalar_one())

    def events_per_hour(self, hours: int = 24) -> list[int]:
        """Return how many events arrived in each of the last hours; the last one ends now."""
        start = time.time_ns() // 1000 - hours * _HOUR
        hour = ((EVENTS.c.received - start) // _HOUR).label("hour")
        wanted = select(hour, func.count()).where(EVENTS.c.received > start).group_by(hour)
        counts = [0] * hours
        with self._reading() as connection:
            for at, count in connection.execute(wanted):
                counts[min(int(at), hours - 1)] += int(count)
        return counts

    def has_weights(self) -> bool:
        """Tell whether any event has a weight."""
        wanted = select(EVENTS.c.number).where(EVENTS.c.weight.is_not(None)).limit(1)
        with self._reading() as connection:
            return connection.execute(wanted).first() is not None

    def event_rows(
        self, columns: Sequence[str], *, last: int, batch: int = _BATCH
    ) -> Iterator[Sequence[Row[Any]]]:
        """Yield some columns of the events up to a number, in their order and in batches.

        Each batch is a short transaction of its own: events are only ever added at the end.
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
        "user_id": texts.an_id(event.user, "user id of an event"),
        "item_id": texts.an_id(event.item, "item id of an event"),
        "kind": texts.a_text(event.kind, "kind of an event"),
        "time": now if event.time is None else texts.microseconds(event.time, "time of an event"),
        "weight": None if weight is None else texts.a_number(weight, "weight of an event"),
        "event_key": texts.maybe(event.key, "key of an event"),
        "request": texts.maybe(event.request, "request of an event"),
        "received": now,
    }


def _stored(row: Row[Any]) -> Stored:
    return Stored(
        number=row.number,
        user=row.user_id,
        item=row.item_id,
        kind=row.kind,
        time=row.time / texts.MICROSECONDS,
        weight=row.weight,
        key=row.event_key,
        request=row.request,
        received=row.received / texts.MICROSECONDS,
    )
