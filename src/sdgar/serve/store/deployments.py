"""Which model all servers should serve, and what each of them says of it."""

from __future__ import annotations

import time

from sqlalchemy import select

from sdgar.serve.store import texts
from sdgar.serve.store.records import Report, Wanted
from sdgar.serve.store.tables import REPORTS, WISHES
from sdgar.serve.store.transactions import Transactions


class Deployments(Transactions):
    """The part of a store by which servers agree on a model."""

    def want(self, version: str, name: str, whose: str = "") -> int:
        """Say which model all servers of a group should serve; return the number of the wish."""
        row = {
            "whose": texts.maybe(whose, "name of a group") or "",
            "version": texts.a_text(version, "version of a model"),
            "name": texts.a_text(name, "name of a model", most=texts.MOST_LONG),
            "time": time.time_ns() // 1000,
        }
        with self._writing() as connection:
            made = connection.execute(WISHES.insert().values(row))
            (number,) = made.inserted_primary_key or (0,)
        return int(number)

    def wanted(self, whose: str = "") -> Wanted | None:
        """Return the model that a group of servers should serve; None if none was named yet."""
        own = select(WISHES).where(WISHES.c.whose == whose)
        with self._reading() as connection:
            row = connection.execute(own.order_by(WISHES.c.number.desc()).limit(1)).first()
        if row is None:
            return None
        return Wanted(row.number, row.version, row.name, row.time / texts.MICROSECONDS)

    def report(self, server: str, version: str, state: str, reason: str = "") -> None:
        """Say what a server does with a model; its last report counts."""
        row = {
            "server": texts.a_text(server, "name of a server"),
            "version": texts.a_text(version, "version of a model"),
            "state": texts.a_text(state, "state of a server"),
            "reason": texts.maybe(reason, "reason of a server", most=texts.MOST_LONG) or "",
            "time": time.time_ns() // 1000,
        }
        with self._writing() as connection:
            self._upsert(connection, REPORTS, [row])

    def reports(self) -> list[Report]:
        """Return the last report of every server, by their names."""
        with self._reading() as connection:
            rows = connection.execute(select(REPORTS).order_by(REPORTS.c.server)).all()
        return [
            Report(row.server, row.version, row.state, row.reason, row.time / texts.MICROSECONDS)
            for row in rows
        ]
