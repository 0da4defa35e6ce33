"""Connect to SQLite files and PostgreSQL servers, so that what is committed stays.

SQLite keeps a log beside the file (WAL), so that readers do not wait for writers, and waits for the
disk at each commit (``synchronous=FULL``). A write takes its lock when it begins (BEGIN IMMEDIATE):
it then waits for its turn, and never fails in the middle.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, exc, make_url
from sqlalchemy.pool import QueuePool

from sdgar.errors import DataError, UsageError
from sdgar.serve.store.address import Address

WRITES = "sdgar_writes"
"""The execution option of a connection that writes."""
_WAIT_SECONDS = 30
"""The seconds that a transaction waits for its turn."""
_CONNECT_SECONDS = 10
_POOL: dict[str, Any] = {"pool_size": 8, "max_overflow": 8, "pool_timeout": _WAIT_SECONDS}


def engine_of(address: Address, *, read_only: bool, must_exist: bool) -> Engine:
    """Make the engine of a store; a file that should be there and is not is an error."""
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
            f"there is no store {address}. Check the path; `sdgar serve` and `sdgar keys add` make "
            "a store.",
            code="no_such_store",
        )
    if not path.parent.is_dir():
        raise UsageError(
            f"the store {address} cannot be made: there is no folder {path.parent}. Make it first.",
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
        # sqlite3 itself would begin only with the first write, and leave out tables that are made.
        writes = connection.get_execution_options().get(WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _open_sqlite(path: Path, *, read_only: bool) -> sqlite3.Connection:
    mode = "mode=rw" if read_only else "mode=rwc"
    if read_only and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        # Nobody can write it, so a log beside it is all that could still change it.
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
            found.execute("PRAGMA fullfsync = ON")  # macOS waits for the disk only if asked so
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
            f"the address {address} cannot be understood. Write "
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
            connection.execute("SET synchronous_commit = on")  # what is acknowledged is stored
        encoding = connection.execute("SHOW server_encoding").fetchone()[0]
        connection.autocommit = False
        connection.read_only = read_only
        if encoding != "UTF8":
            raise DataError(
                f"the store {address} has the encoding {encoding}, which cannot hold every text. "
                "Make it with: createdb --encoding UTF8 --template template0 NAME.",
                code="bad_encoding",
            )

    return engine
