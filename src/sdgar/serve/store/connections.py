"""Connections to SQLite files and PostgreSQL servers, and short transactions on them.

SQLite keeps a log next to the file (WAL), so that readers do not wait for writers, and waits for
the disk at each commit (``synchronous=FULL``). A write takes its lock when it begins (BEGIN
IMMEDIATE), so that it never fails halfway.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Table,
    collate,
    create_engine,
    event,
    exc,
    make_url,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.pool import QueuePool

from sdgar.errors import ArtifactError, DataError, ResourceError, SdgarError, UsageError
from sdgar.serve.store.address import Address

WRITES = "sdgar_writes"
"""The execution option of a connection that writes."""
_WAIT_SECONDS = 30
"""The seconds that a transaction waits for its turn."""
_CONNECT_SECONDS = 10
_POOL: dict[str, Any] = {"pool_size": 8, "max_overflow": 8, "pool_timeout": _WAIT_SECONDS}


def engine_of(address: Address, *, read_only: bool, must_exist: bool) -> Engine:
    """Return the engine of a store; raise if its file is required and missing."""
    if address.path is not None:
        _require_file(address, address.path, must_exist=must_exist or read_only)
        return _sqlite(address.path.absolute(), read_only=read_only)
    return _postgresql(address, read_only=read_only)


def _require_file(address: Address, path: Path, *, must_exist: bool) -> None:
    if path.is_dir():
        raise UsageError(
            f"the store {address} is a folder. Name a file in it: {address}/store.db.",
            code="bad_store",
        )
    if not path.exists() and must_exist:
        raise UsageError(
            f"there is no store {address}. Check the path; `sdgar serve` and `sdgar keys add` "
            "create a store.",
            code="no_such_store",
        )
    if not path.parent.is_dir():
        raise UsageError(
            f"the store {address} cannot be created: there is no folder {path.parent}. Create it "
            "first.",
            code="no_such_store",
        )


def _sqlite(path: Path, *, read_only: bool) -> Engine:
    engine = create_engine(
        "sqlite://",
        creator=lambda: _open_sqlite(path, read_only=read_only),
        poolclass=QueuePool,
        hide_parameters=True,
        **_POOL,
    )

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # By itself, sqlite3 begins at the first write only, and not for CREATE TABLE.
        writes = connection.get_execution_options().get(WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _open_sqlite(path: Path, *, read_only: bool) -> sqlite3.Connection:
    mode = "mode=rw" if read_only else "mode=rwc"
    if read_only and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        # The file cannot change, unless a log next to it holds writes that are not merged yet.
        logged = path.with_name(f"{path.name}-wal").exists()
        mode = "mode=ro" if logged else "immutable=1"
    found = sqlite3.connect(
        f"file:{quote(str(path))}?{mode}",
        uri=True,
        timeout=_WAIT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        found.execute(f"PRAGMA busy_timeout = {_WAIT_SECONDS * 1000}")
        if read_only:
            found.execute("PRAGMA query_only = ON")
        else:
            found.execute("PRAGMA journal_mode = WAL").fetchone()
            found.execute("PRAGMA synchronous = FULL")
            found.execute(
                "PRAGMA fullfsync = ON"
            )  # on macOS, fsync alone does not wait for the disk
        found.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        found.close()
        raise
    return found


def _postgresql(address: Address, *, read_only: bool) -> Engine:
    try:
        url = make_url(address.url).set(drivername="postgresql+psycopg")
    except (exc.ArgumentError, ValueError):  # their text may quote the password
        raise UsageError(
            f"the address {address} cannot be parsed. Write "
            "postgresql://USER:PASSWORD@HOST:PORT/NAME, with %40 for @ and %2F for / in a "
            "password.",
            code="bad_store",
        ) from None
    arguments: dict[str, Any] = {}
    if "connect_timeout" not in url.query:
        arguments["connect_timeout"] = _CONNECT_SECONDS
    if "application_name" not in url.query:
        arguments["application_name"] = "sdgar"
    try:
        engine = create_engine(
            url, connect_args=arguments, pool_pre_ping=True, hide_parameters=True, **_POOL
        )
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the store {address} needs the driver psycopg, which is not installed. Install it "
            "with: pip install 'sdgar[serve]'.",
            code="missing_driver",
        ) from error

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connection.autocommit = True
        if connection.execute("SHOW synchronous_commit").fetchone()[0] == "off":
            # Acknowledged events must survive a crash, whatever the server's default is.
            connection.execute("SET synchronous_commit = on")
        encoding = connection.execute("SHOW server_encoding").fetchone()[0]
        connection.autocommit = False
        connection.read_only = read_only
        if encoding != "UTF8":
            raise DataError(
                f"the store {address} has the encoding {encoding}, which cannot hold every text. "
                "Create it with: createdb --encoding UTF8 --template template0 NAME.",
                code="bad_encoding",
            )

    return engine


EVENTS_LOCK, SCHEMA_LOCK = 0x7364676172_01, 0x7364676172_02
"""The numbers of the advisory locks for adding events and for changing tables on PostgreSQL."""


class Transactions:
    """Transactions on the engine of a store: reading and writing."""

    def __init__(self, engine: Engine, address: Address, *, read_only: bool) -> None:
        self.address = address
        """The address of the store; its text has no password."""
        self._engine = engine
        self._writer = engine.execution_options(**{WRITES: True})
        self._read_only = read_only

    @property
    def is_postgresql(self) -> bool:
        """Whether the store is a PostgreSQL database."""
        return self.address.path is None

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with translated_errors(self.address), self._engine.begin() as connection:
            yield connection

    def _rows(self, query: Executable) -> Sequence[Any]:
        """Return the rows of a query."""
        with self._reading() as connection:
            return connection.execute(query).all()

    def _value(self, query: Executable) -> Any:
        """Return the first value of a query, or None."""
        with self._reading() as connection:
            return connection.execute(query).scalar()

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        if self._read_only:
            raise UsageError(
                f"the store {self.address} is open for reading only.", code="read_only_store"
            )
        with translated_errors(self.address), self._writer.begin() as connection:
            yield connection

    def _hold_lock(self, connection: Connection, lock: int) -> None:
        """Wait for a lock, and hold it until this transaction is visible to all.

        SQLite needs no lock: it allows one writing transaction at a time.
        """
        if self.is_postgresql:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": lock})

    def _insert(self, table: Table) -> Any:
        """Return an insert statement that supports ON CONFLICT."""
        return postgresql.insert(table) if self.is_postgresql else sqlite.insert(table)

    def _upsert(
        self,
        connection: Connection,
        table: Table,
        rows: Sequence[Mapping[str, Any]],
    ) -> None:
        """Insert rows; replace existing rows with the same primary key."""
        if not rows:
            return
        made = self._insert(table)
        keys = [column.name for column in table.primary_key]
        others = {c.name: made.excluded[c.name] for c in table.columns if c.name not in keys}
        connection.execute(made.on_conflict_do_update(index_elements=keys, set_=others), rows)

    def _in_byte_order(self, column: Column[Any]) -> ColumnElement[Any]:
        """Return a column ordered by its bytes, whatever the locale of the database."""
        return collate(column, "C") if self.is_postgresql else column


_ERRORS: dict[str, tuple[type[SdgarError], str, str]] = {
    "SQLITE_BUSY": (
        ResourceError,
        "store_busy",
        "Another process has locked it. Try again, or use PostgreSQL for several servers.",
    ),
    "SQLITE_FULL": (ResourceError, "disk_full", "Free some space."),
    "SQLITE_NOTADB": (DataError, "not_a_store", "Choose another name for the store."),
    "SQLITE_CORRUPT": (ArtifactError, "damaged_store", "Restore the file from a copy."),
    "SQLITE_READONLY": (UsageError, "read_only_store", "Check the permissions of the file."),
    "SQLITE_PERM": (ResourceError, "file_access", "Check the permissions of the file."),
    "SQLITE_CANTOPEN": (ResourceError, "file_access", "Check the path and its permissions."),
    "SQLITE_IOERR": (ResourceError, "file_access", "Check the disk."),
    "28": (ResourceError, "store_refused", "Check user and password, PGPASSWORD and .pgpass."),
    "3D": (ResourceError, "no_such_store", "Create the database first: createdb NAME."),
    "25006": (UsageError, "read_only_store", "It is open for reading only."),
    "42501": (ResourceError, "store_refused", "Grant the user the right to create and use tables."),
    "53100": (ResourceError, "disk_full", "Free some space on the server."),
    "53": (ResourceError, "store_busy", "The server is out of resources. Try again later."),
    "57": (ResourceError, "store_unreachable", "Check that the server runs."),
    "08": (ResourceError, "store_unreachable", "Check that the server runs."),
}
"""What the names of errors of SQLite and the codes of PostgreSQL begin with, and their cures."""
_UNREACHABLE = (
    ResourceError,
    "store_unreachable",
    "Check that the server runs, and the host, port, user and password of the address.",
)


@contextmanager
def translated_errors(address: Address) -> Iterator[None]:
    """Raise an ``SdgarError`` for an error of the database; leave other errors as they are."""
    try:
        yield
    except exc.TimeoutError as error:
        raise ResourceError(
            f"the store {address} has no free connection. Try again, or use fewer threads.",
            code="store_busy",
        ) from error
    except exc.DBAPIError as error:
        translated = _translated(address, error)
        if translated is None:
            raise
        raise translated from error


def _translated(address: Address, error: exc.DBAPIError) -> SdgarError | None:
    """Return the error for one of the database; None if its cause is unknown."""
    name = getattr(error.orig, "sqlite_errorname", None) or getattr(error.orig, "sqlstate", None)
    found = next((one for known, one in _ERRORS.items() if (name or "").startswith(known)), None)
    if name is None and address.path is None and isinstance(error, exc.OperationalError):
        found = _UNREACHABLE
    if found is None:
        return None
    kind, code, cure = found
    text = " ".join(str(error.orig).split()).rstrip(".")
    for secret in filter(None, (address.password, unquote(address.password or ""))):
        text = text.replace(secret, "***")
    return kind(f"the store {address} cannot be used: {text}. {cure}", code=code)
