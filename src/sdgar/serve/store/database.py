"""The store as one object: events, entries, impressions, API keys and model deployments."""

from __future__ import annotations

import hashlib
import secrets
import time
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, Row, Table, func, select, text, update

from sdgar.errors import UsageError, unknown_name
from sdgar.serve.store.address import Address
from sdgar.serve.store.connections import SCHEMA_LOCK, Transactions, engine_of, translated_errors
from sdgar.serve.store.entries import EntryTable
from sdgar.serve.store.events import EventTable
from sdgar.serve.store.impressions import ImpressionTable
from sdgar.serve.store.records import (
    MICROSECONDS,
    MOST_LONG,
    ROLES,
    Key,
    ModelRequest,
    ServerReport,
    checked_text,
    optional_text,
    searchable,
    to_microseconds,
)
from sdgar.serve.store.schema import (
    KEYS,
    METADATA,
    REPORTS,
    REQUESTED_MODELS,
    SCHEMA_VERSION,
    migrate,
    newest_version,
    require_current,
    schema_version,
)

_ID_BYTES, _SECRET_BYTES = 6, 32


class KeyTable(Transactions):
    """The API keys of a store: the secret is shown once, and only its hash is stored."""

    def add_key(self, name: str, role: str, expires: float | None = None) -> str:
        """Create a key that expires at a time (None: never), and return its secret.

        The secret reads ``sdgar_ID_SECRET`` and cannot be shown again.
        """
        if role not in ROLES:
            raise unknown_name("role", role, ROLES)
        id = secrets.token_hex(_ID_BYTES)
        secret = f"sdgar_{id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
        row = {
            "id": id,
            "name": checked_text(name, "name of a key"),
            "role": role,
            "hash": hashlib.sha256(secret.encode()).hexdigest(),
            "created": time.time_ns() // 1000,
            "expires": None if expires is None else to_microseconds(expires, "end of a key"),
            "revoked": False,
        }
        with self._writing() as connection:
            connection.execute(KEYS.insert().values(row))
        return secret

    def keys(self) -> list[Key]:
        """Return all keys without their secrets, oldest first."""
        wanted = select(KEYS).order_by(KEYS.c.created, KEYS.c.id)
        with self._reading() as connection:
            return [_key(row) for row in connection.execute(wanted)]

    def find_key(self, id: str) -> Key | None:
        """Return the key with this id, or None."""
        with self._reading() as connection:
            row = connection.execute(select(KEYS).where(KEYS.c.id == searchable(id))).first()
        return None if row is None else _key(row)

    def revoke_key(self, id: str) -> bool:
        """Revoke a key for good; return whether there is one with this id."""
        wanted = update(KEYS).where(KEYS.c.id == searchable(id))
        with self._writing() as connection:
            done = connection.execute(wanted.values(revoked=True))
        return bool(done.rowcount)


def _key(row: Row[Any]) -> Key:
    return Key(
        id=row.id,
        name=row.name,
        role=row.role,
        hash=row.hash,
        created=row.created / MICROSECONDS,
        expires=None if row.expires is None else row.expires / MICROSECONDS,
        revoked=bool(row.revoked),
    )


class DeploymentTable(Transactions):
    """The requests for models and the servers' reports, by which servers agree on a model."""

    def request_model(self, version: str, name: str, group: str = "") -> int:
        """Request a model from all servers of a group; return the number of the request."""
        row = {
            "whose": optional_text(group, "name of a group") or "",
            "version": checked_text(version, "version of a model"),
            "name": checked_text(name, "name of a model", most=MOST_LONG),
            "time": time.time_ns() // 1000,
        }
        with self._writing() as connection:
            made = connection.execute(REQUESTED_MODELS.insert().values(row))
            (number,) = made.inserted_primary_key or (0,)
        return int(number)

    def requested_model(self, group: str = "") -> ModelRequest | None:
        """Return the latest request for a model of a group of servers, or None."""
        own = select(REQUESTED_MODELS).where(REQUESTED_MODELS.c.whose == group)
        with self._reading() as connection:
            row = connection.execute(
                own.order_by(REQUESTED_MODELS.c.number.desc()).limit(1)
            ).first()
        if row is None:
            return None
        return ModelRequest(row.number, row.version, row.name, row.time / MICROSECONDS)

    def report(self, server: str, version: str, state: str, reason: str = "") -> None:
        """Store the report of a server on a model; its last report counts."""
        row = {
            "server": checked_text(server, "name of a server"),
            "version": checked_text(version, "version of a model"),
            "state": checked_text(state, "state of a server"),
            "reason": optional_text(reason, "reason of a server", most=MOST_LONG) or "",
            "time": time.time_ns() // 1000,
        }
        with self._writing() as connection:
            self._upsert(connection, REPORTS, [row])

    def reports(self) -> list[ServerReport]:
        """Return the last report of every server, ordered by name."""
        with self._reading() as connection:
            rows = connection.execute(select(REPORTS).order_by(REPORTS.c.server)).all()
        return [
            ServerReport(row.server, row.version, row.state, row.reason, row.time / MICROSECONDS)
            for row in rows
        ]


class Database(EventTable, EntryTable, KeyTable, ImpressionTable, DeploymentTable):
    """A store of events, entries, keys, impressions and model requests; it is thread-safe."""

    @classmethod
    def open(
        cls, url: str | Address, *, read_only: bool = False, must_exist: bool = False
    ) -> Database:
        """Open a store by its address; unless it is only read, create it or bring it up to date.

        With ``read_only`` or ``must_exist`` a missing file is an error.
        """
        address = Address.of(url)
        engine = engine_of(address, read_only=read_only, must_exist=must_exist)
        store = cls(engine, address, read_only=read_only)
        try:
            store._prepare()
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Close all unused connections."""
        self._engine.dispose()

    def ping(self) -> None:
        """Raise if the store does not respond."""
        with self._reading() as connection:
            connection.execute(text("SELECT 1"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def _prepare(self) -> None:
        """Create or migrate the tables if needed; one of several servers does so, others wait."""
        with self._reading() as connection:
            version = schema_version(connection, self.address)
        if self._read_only:
            require_current(version, self.address)
        elif version < newest_version():
            with self._writing() as connection:
                self._hold_lock(connection, SCHEMA_LOCK)
                version = schema_version(connection, self.address)
                migrate(connection, version)


_AT_ONCE = 5_000


def copy_store(source: Database, target: Database) -> dict[str, int]:
    """Copy all rows of a store into an empty one, all or none; return the row count per table.

    Rows keep their numbers. The source is read at one moment.
    """
    tables = [table for table in METADATA.sorted_tables if table is not SCHEMA_VERSION]
    counts: dict[str, int] = {}
    with translated_errors(source.address), source._engine.connect() as reading:
        if source.is_postgresql:
            reading = reading.execution_options(isolation_level="REPEATABLE READ")
        with reading.begin(), target._writing() as writing:
            for table in tables:
                if writing.execute(select(func.count()).select_from(table)).scalar():
                    raise UsageError(
                        f"the store {target.address} has rows in {table.name} already. Copy into a "
                        "new store.",
                        code="store_not_empty",
                    )
            for table in tables:
                counts[table.name] = _copy_table(reading, writing, table)
                if target.is_postgresql:
                    _advance_sequence(writing, table)
    return counts


def _copy_table(reading: Connection, writing: Connection, table: Table) -> int:
    count = 0
    rows = reading.execute(select(table).execution_options(yield_per=_AT_ONCE))
    for some in rows.mappings().partitions():
        writing.execute(table.insert(), [dict(row) for row in some])
        count += len(some)
    return count


def _advance_sequence(writing: Connection, table: Table) -> None:
    """Set a sequence of PostgreSQL to the number after the copied ones."""
    column = table.autoincrement_column
    if column is None or column.name != "number":
        return
    writing.execute(
        text(
            f"SELECT setval(pg_get_serial_sequence('{table.name}', 'number'), "
            f"(SELECT COALESCE(MAX(number), 0) + 1 FROM {table.name}), false)"
        )
    )
