"""The store as one object: events, entries, impressions, API keys and model deployments."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Self

from sqlalchemy import Connection, Table, func, insert, inspect, select, text, update

from sdgar.errors import ArtifactError, DataError, UsageError, unknown_name
from sdgar.serve.store.address import Address
from sdgar.serve.store.connections import SCHEMA_LOCK, Transactions, engine_of, translated_errors
from sdgar.serve.store.entries import EntryTable
from sdgar.serve.store.events import EventTable
from sdgar.serve.store.impressions import ImpressionTable
from sdgar.serve.store.records import ROLES, Key, ModelRequest, ServerReport
from sdgar.serve.store.schema import (
    KEYS,
    METADATA,
    REPORTS,
    REQUESTED_MODELS,
    SCHEMA_VERSION,
    now,
    searchable,
    to_records,
    to_row,
)

_ID_BYTES, _SECRET_BYTES = 6, 32


class KeyTable(Transactions):
    """The API keys of a store: the secret is shown once, and only its hash is stored."""

    def add_key(self, name: str, role: str, expires: float | None = None) -> str:
        """Create an API key, and return its secret ``sdgar_ID_SECRET``, which is shown only now."""
        if role not in ROLES:
            raise unknown_name("role", role, ROLES)
        id = secrets.token_hex(_ID_BYTES)
        secret = f"sdgar_{id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
        digest = hashlib.sha256(secret.encode()).hexdigest()
        row = to_row(KEYS, Key(id, name, role, digest, time.time(), expires), "a key")
        with self._writing() as connection:
            connection.execute(KEYS.insert().values(row))
        return secret

    def keys(self) -> list[Key]:
        """Return all keys without their secrets, oldest first."""
        wanted = select(KEYS).order_by(KEYS.c.created, KEYS.c.id)
        return to_records(Key, KEYS, self._rows(wanted))

    def revoke_key(self, id: str) -> bool:
        """Revoke a key for good; return whether there is one with this id."""
        wanted = update(KEYS).where(KEYS.c.id == searchable(id))
        with self._writing() as connection:
            done = connection.execute(wanted.values(revoked=True))
        return bool(done.rowcount)


class DeploymentTable(Transactions):
    """Which model each group of servers should load, and which model each server reports."""

    def request_model(self, version: str, name: str, group: str = "") -> int:
        """Request that a group's servers switch to a model; return the number of the request."""
        request = ModelRequest(0, version, name, time.time(), group)
        row = to_row(REQUESTED_MODELS, request, "a requested model")
        with self._writing() as connection:
            made = connection.execute(REQUESTED_MODELS.insert().values(row))
            (number,) = made.inserted_primary_key or (0,)
        return int(number)

    def latest_request(self, group: str = "") -> ModelRequest | None:
        """Return the latest request of a group of servers; None if there is none."""
        own = select(REQUESTED_MODELS).where(REQUESTED_MODELS.c.group == group)
        rows = self._rows(own.order_by(REQUESTED_MODELS.c.number.desc()).limit(1))
        return next(iter(to_records(ModelRequest, REQUESTED_MODELS, rows)), None)

    def add_report(self, server: str, version: str, state: str, reason: str = "") -> None:
        """Store a server's report, which replaces its earlier one."""
        report = ServerReport(server, version, state, reason, time.time())
        with self._writing() as connection:
            self._upsert(connection, REPORTS, [to_row(REPORTS, report, "a report")])

    def reports(self) -> list[ServerReport]:
        """Return the last report of every server, ordered by name."""
        return to_records(
            ServerReport, REPORTS, self._rows(select(REPORTS).order_by(REPORTS.c.server))
        )


MIGRATIONS: tuple[Callable[[Connection], None], ...] = ()
"""Functions that change the tables of an older store, from version 1 to the newest.

A new store gets the newest tables, and an older one the missing migrations. To change a table, add
a migration; a migration never changes once it was published.
"""


def supported_schema_version() -> int:
    """Return the version of the schema that this code supports."""
    return 1 + len(MIGRATIONS)


def schema_version(connection: Connection, address: Address) -> int:
    """Return a store's schema version, 0 without tables; raise if it belongs to another program."""
    names = set(inspect(connection).get_table_names())
    if SCHEMA_VERSION.name not in names:
        foreign = names if address.path is not None else names & set(METADATA.tables)
        if foreign:
            raise DataError(
                f"{address} is a database of another program: it has the tables "
                f"{', '.join(sorted(foreign)[:5])}, and no {SCHEMA_VERSION.name}. Choose "
                "another one.",
                code="not_a_store",
            )
        return 0
    found = connection.execute(select(func.max(SCHEMA_VERSION.c.version))).scalar()
    version = int(found or 0)
    if version > supported_schema_version():
        raise ArtifactError(
            f"the store {address} was made by a newer sdgar: its tables have version {version}, "
            f"and this sdgar supports up to {supported_schema_version()}. Upgrade it: pip "
            "install --upgrade 'sdgar[serve]'.",
            code="newer_store",
        )
    return version


def require_current(version: int, address: Address) -> None:
    """Raise if a read-only store has no tables or an older schema."""
    if version == 0:
        raise DataError(
            f"{address} holds no store yet. `sdgar serve` and `sdgar keys add` create one.",
            code="no_such_store",
        )
    if version < supported_schema_version():
        raise ArtifactError(
            f"the tables of the store {address} have version {version}, and version "
            f"{supported_schema_version()} is required. Open it once for writing, as `sdgar serve` "
            "does: that brings it up to date.",
            code="older_store",
        )


def migrate(connection: Connection, version: int) -> None:
    """Create the tables of a new store, or apply the missing migrations to an older one."""
    if version == 0:
        METADATA.create_all(connection)
    else:
        for migration in MIGRATIONS[version - 1 :]:
            migration(connection)
    for number in range(version + 1, supported_schema_version() + 1):
        connection.execute(insert(SCHEMA_VERSION).values(version=number, applied=now()))


class Database(EventTable, EntryTable, KeyTable, ImpressionTable, DeploymentTable):
    """A store of events, entries, keys, impressions and model requests; it is thread-safe."""

    @classmethod
    def open(
        cls, url: str | Address, *, read_only: bool = False, must_exist: bool = False
    ) -> Database:
        """Open a store by its address; unless ``read_only``, create it or upgrade its schema.

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _prepare(self) -> None:
        """Create or migrate tables if needed; of several servers one does it, and others wait."""
        with self._reading() as connection:
            version = schema_version(connection, self.address)
        if self._read_only:
            require_current(version, self.address)
        elif version < supported_schema_version():
            with self._writing() as connection:
                self._hold_lock(connection, SCHEMA_LOCK)
                version = schema_version(connection, self.address)
                migrate(connection, version)


_ROWS_PER_BATCH = 5_000


def copy_store(source: Database, target: Database) -> dict[str, int]:
    """Copy all rows of a store into an empty one in one transaction; return counts by table.

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
    rows = reading.execute(select(table).execution_options(yield_per=_ROWS_PER_BATCH))
    for some in rows.partitions():
        rows_by_key = [dict(zip(table.c.keys(), row, strict=True)) for row in some]
        writing.execute(table.insert(), rows_by_key)
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
