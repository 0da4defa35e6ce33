"""The tables of a store, and the steps that bring an older store up to date.

Times are to_microseconds since 1970, ids are text. A new store gets the tables below. An older one
takes the steps that it lacks, in the order of their numbers. To change a table, add such a step; a
step never changes once it was published.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    func,
    insert,
    inspect,
    select,
)

from sdgar.errors import ArtifactError, DataError
from sdgar.serve.store.address import Address

METADATA = MetaData()
"""All tables of a store."""
_NUMBER = BigInteger().with_variant(Integer, "sqlite")
"""The type of autoincrement columns; SQLite allows only INTEGER there."""

SCHEMA_VERSION = Table(
    "schema_version",
    METADATA,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("applied", BigInteger, nullable=False),
)
EVENTS = Table(
    "events",
    METADATA,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("user_id", Text, nullable=False),
    Column("item_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("weight", Double),
    Column("event_key", Text),
    Column("request", Text),
    Column("received", BigInteger, nullable=False),
    sqlite_autoincrement=True,  # the number of a deleted event is never used again
)
Index("events_key", EVENTS.c.event_key, unique=True)
Index("events_user", EVENTS.c.user_id, EVENTS.c.time, EVENTS.c.number)
Index("events_item", EVENTS.c.item_id)
Index("events_request", EVENTS.c.request)
Index("events_received", EVENTS.c.received)

FIRST_MET = Table(
    "first_met",
    METADATA,
    Column("item_id", Text, primary_key=True),
    Column("time", BigInteger, nullable=False),
)
"""The time of the first event or entry of each item, for the newest items."""
Index("first_met_time", FIRST_MET.c.time)

ENTRIES = Table(
    "entries",
    METADATA,
    Column("side", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("name", Text),
    Column("picture", Text),
    Column("categories", Text, nullable=False),
    Column("features", Text, nullable=False),
    Column("hidden", Boolean, nullable=False),
    Column("updated", BigInteger, nullable=False),
    Column("found_by_id", Text, nullable=False),
    Column("found_by_name", Text, nullable=False),
)
"""Entries of items and users: ``categories`` and ``features`` are JSON, ``found_by_…`` are the id
and the name in lower case."""
Index("entries_hidden", ENTRIES.c.hidden, ENTRIES.c.side)

ENTRY_CATEGORIES = Table(
    "entry_categories",
    METADATA,
    Column("category", Text, primary_key=True),
    Column("side", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    ForeignKeyConstraint(["side", "id"], ["entries.side", "entries.id"], ondelete="CASCADE"),
)
Index("entry_categories_entry", ENTRY_CATEGORIES.c.side, ENTRY_CATEGORIES.c.id)

CHANGES = Table(
    "entry_changes",
    METADATA,
    Column("side", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
)
"""The number of the last change of each entry, deleted entries included."""
Index("entry_changes_number", CHANGES.c.number)

COUNTERS = Table(
    "counters",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)
KEYS = Table(
    "api_keys",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger),
    Column("revoked", Boolean, nullable=False),
)
IMPRESSIONS = Table(
    "impressions",
    METADATA,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("request", Text, nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("user_id", Text),
    Column("items", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("variant", Text, nullable=False),
    Column("basis", Text, nullable=False),
    sqlite_autoincrement=True,
)
"""The recommendations that were shown; ``items`` is a JSON list of ids."""
Index("impressions_request", IMPRESSIONS.c.request)
Index("impressions_variant", IMPRESSIONS.c.variant, IMPRESSIONS.c.time)

REQUESTED_MODELS = Table(
    "wished_models",
    METADATA,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("whose", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("time", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)
REPORTS = Table(
    "server_reports",
    METADATA,
    Column("server", Text, primary_key=True),
    Column("version", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("time", BigInteger, nullable=False),
)


@dataclass(frozen=True, slots=True)
class SchemaStep:
    """One change of the tables."""

    number: int
    """The version of the schema after this step; the first step has number 2."""
    what: str
    """What changes, in words."""
    apply: Callable[[Connection], None]
    """The function that changes the tables."""


STEPS: tuple[SchemaStep, ...] = ()
"""All steps from the first schema, which has version 1, to the tables above."""


def newest_version() -> int:
    """Return the version of the schema of this code."""
    return 1 + len(STEPS)


def schema_version(connection: Connection, address: Address) -> int:
    """Return the version of a store's schema, 0 without tables; raise for a foreign database."""
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
    if version > newest_version():
        raise ArtifactError(
            f"the store {address} was made by a newer sdgar: its tables have version {version}, "
            f"and this sdgar supports up to {newest_version()}. Upgrade it: pip install --upgrade "
            "'sdgar[serve]'.",
            code="newer_store",
        )
    return version


def require_current(version: int, address: Address) -> None:
    """Raise if a store that is open for reading only has no tables, or older ones."""
    if version == 0:
        raise DataError(
            f"{address} holds no store yet. `sdgar serve` and `sdgar keys add` create one.",
            code="no_such_store",
        )
    if version < newest_version():
        raise ArtifactError(
            f"the tables of the store {address} have version {version}, and {newest_version()} is "
            "required. Open it once for writing, as `sdgar serve` does: that brings it up to date.",
            code="older_store",
        )


def migrate(connection: Connection, version: int) -> None:
    """Create the tables of a new store, or apply the steps that an older one lacks."""
    if version == 0:
        METADATA.create_all(connection)
    for step in STEPS:
        if 0 < version < step.number:
            step.apply(connection)
    now = time.time_ns() // 1000
    for number in range(version + 1, newest_version() + 1):
        connection.execute(insert(SCHEMA_VERSION).values(version=number, applied=now))
