"""The tables of a store. Times are microseconds since 1970, ids are text.

Whoever changes a table adds the step from the old one to ``migrations.py``.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
)

METADATA = MetaData()
"""All tables of a store."""
_NUMBER = BigInteger().with_variant(Integer, "sqlite")
"""The type of numbers that count up by themselves; SQLite has but one integer type for that."""

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
    sqlite_autoincrement=True,  # the number of an event is never given to another
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
"""The time of the first event or entry of each item, for what is new."""
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
"""Entries of items and users; ``categories`` and ``features`` are JSON, ``found_by_…`` has the id
and the name without case."""
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
"""The number of the last change of each entry, also of one that is deleted."""
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
"""The lists that were shown; ``items`` is a JSON list of ids."""
Index("impressions_request", IMPRESSIONS.c.request)
Index("impressions_variant", IMPRESSIONS.c.variant, IMPRESSIONS.c.time)

WISHES = Table(
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
