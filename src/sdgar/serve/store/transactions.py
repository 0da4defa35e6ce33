"""Short transactions on a store, from any thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Engine, Table, collate, text
from sqlalchemy.dialects import postgresql, sqlite

from sdgar.errors import UsageError
from sdgar.serve.store.address import Address
from sdgar.serve.store.connecting import WRITES
from sdgar.serve.store.failures import named

EVENTS_LOCK, SCHEMA_LOCK = 0x7364676172_01, 0x7364676172_02
"""The numbers of the locks that writers of events and of tables take on PostgreSQL."""


class Transactions:
    """The engine of a store, and the two kinds of transactions on it."""

    def __init__(self, engine: Engine, address: Address, *, read_only: bool) -> None:
        self.address = address
        """The address of the store; as text, it is without a password."""
        self._engine = engine
        self._writer = engine.execution_options(**{WRITES: True})
        self._read_only = read_only

    @property
    def is_postgresql(self) -> bool:
        """Whether the store is a PostgreSQL database."""
        return self.address.path is None

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with named(self.address), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        if self._read_only:
            raise UsageError(
                f"the store {self.address} is open for reading alone.", code="read_only_store"
            )
        with named(self.address), self._writer.begin() as connection:
            yield connection

    def _alone(self, connection: Connection, lock: int) -> None:
        """Wait until no other transaction holds a lock, and hold it until this one is seen by all.

        SQLite lets one transaction write at a time anyway.
        """
        if self.is_postgresql:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": lock})

    def _insert(self, table: Table) -> Any:
        """Return an insert that can say what happens to rows that are there already."""
        return postgresql.insert(table) if self.is_postgresql else sqlite.insert(table)

    def _upsert(
        self,
        connection: Connection,
        table: Table,
        rows: Sequence[Mapping[str, Any]],
    ) -> None:
        """Insert rows, or replace those with the same primary key."""
        if not rows:
            return
        made = self._insert(table)
        keys = [column.name for column in table.primary_key]
        others = {c.name: made.excluded[c.name] for c in table.columns if c.name not in keys}
        connection.execute(made.on_conflict_do_update(index_elements=keys, set_=others), rows)

    def _by_bytes(self, column: Column[Any]) -> ColumnElement[Any]:
        """Return a column in the order of its bytes, whatever the language of the database."""
        return collate(column, "C") if self.is_postgresql else column
