"""The tables of a store, and how records become their rows.

A column holds a field of records. Its kind says how a value is checked, stored and read again:
times are microseconds since 1970, ids are text.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass, fields
from typing import Any, TypeVar

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

from sdgar.errors import DataError

Record = TypeVar("Record")
_MOST_BYTES = 256
"""The maximum size of an id in UTF-8 bytes, the same as in files of events."""
_MOST_LONG = 2048
"""The maximum length of a name, of the address of a picture, or of a text feature."""
_MOST_CATEGORIES, _MOST_FEATURES = 100, 1000
MICROSECONDS = 1_000_000
"""Microseconds per second; times are stored as integers."""
_LAST_SECOND = 253_402_300_800
"""The beginning of the year 10000, the limit for times in files too."""


def now() -> int:
    """Return the present in microseconds since 1970."""
    return time.time_ns() // 1000


def searchable(value: Any) -> str:
    """Return a text to search for; an empty one, which no row has, if no store can hold it."""
    text = str(value)
    can_be_stored = "\0" not in text and text.encode(errors="ignore").decode() == text
    return text if can_be_stored else ""


def _id(value: Any, what: str) -> str:
    """Return an id as text; raise if it is missing, too long, or neither text nor integer."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    text = _text(value, what)
    if len(text.encode()) > _MOST_BYTES:
        raise _refused(what, value, f"has more than {_MOST_BYTES} bytes")
    return text


def _text(value: Any, what: str, most: int = 256) -> str:
    """Return a text; raise if it is empty, too long, or cannot be stored in a database."""
    if not isinstance(value, str):
        raise _refused(what, value, f"has type {type(value).__name__} and must be text")
    if not value:
        raise _refused(what, value, "is empty")
    if len(value) > most:
        raise _refused(what, value, f"has more than {most:,} characters")
    if "\0" in value:
        raise _refused(what, value, "has a NUL character, which databases cannot store")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _refused(what, value, "is not valid Unicode") from None
    return value


def _long_text(value: Any, what: str) -> str:
    """Return a longer text, which may be empty."""
    return "" if value in (None, "") else _text(value, what, _MOST_LONG)


def _number(value: Any, what: str) -> float:
    """Return a finite number; raise for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _refused(what, value, "must be a finite number")
    return float(value)


def to_microseconds(seconds: Any, what: str) -> int:
    """Return a time as microseconds since 1970; raise if it is out of range."""
    number = _number(seconds, what)
    if not 0 <= number < _LAST_SECOND:
        raise _refused(what, seconds, "must be in seconds since 1970, before the year 10000")
    return round(number * MICROSECONDS)


def _ids(value: Any, what: str) -> str:
    return _json([_id(one, what) for one in value])


def _categories(value: Any, what: str) -> str:
    names = [_text(one, what) for one in dict.fromkeys(value)]
    _require_at_most(_MOST_CATEGORIES, names, what)
    return _json(names)


def _features(value: Any, what: str) -> str:
    _require_at_most(_MOST_FEATURES, value, what)
    return _json(
        {
            _text(name, what): (_long_text if isinstance(one, str) else _number)(one, what)
            for name, one in value.items()
        }
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _require_at_most(most: int, values: Sized, what: str) -> None:
    if len(values) > most:
        raise DataError(
            f"the {what} are {len(values):,}, and {most:,} are allowed. Nothing was stored.",
            code="bad_record",
        )


def _refused(what: str, value: Any, why: str) -> DataError:
    return DataError(f"the {what} {value!r:.60} {why}. Nothing was stored.", code="bad_record")


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """How the values of a column are checked, stored and read again."""

    type: Any
    """The type of the column in the database."""
    stored: Callable[[Any, str], Any]
    """Returns the stored value; raises for one that cannot be stored, with words on what it is."""
    read: Callable[[Any], Any] = lambda value: value
    """Returns the value of a record."""


ID = ColumnKind(Text, _id)
TEXT = ColumnKind(Text, _text)
LONG_TEXT = ColumnKind(Text, _long_text)
NUMBER = ColumnKind(Double, _number)
FLAG = ColumnKind(Boolean, lambda value, what: bool(value), bool)
TIME = ColumnKind(BigInteger, to_microseconds, lambda value: value / MICROSECONDS)
IDS = ColumnKind(Text, _ids, lambda value: tuple(json.loads(value)))
CATEGORIES = ColumnKind(Text, _categories, lambda value: tuple(json.loads(value)))
FEATURES = ColumnKind(Text, _features, json.loads)


def column(
    name: str, kind: ColumnKind, *, field: str | None = None, nullable: bool = False, **more: Any
) -> Column[Any]:
    """Return a column for a field of records, by default of the same name."""
    info = {"kind": kind}
    return Column(name, kind.type, key=field or name, info=info, nullable=nullable, **more)


def to_row(table: Table, record: object, what: str, **others: Any) -> dict[str, Any]:
    """Return a row with the checked fields of a record, and with other values as they are."""
    row = dict(others)
    for at in table.columns:
        if at.key in row or "kind" not in at.info:
            continue
        value = getattr(record, at.key)
        missing = at.nullable and value in (None, "")
        row[at.key] = None if missing else at.info["kind"].stored(value, f"{at.key} of {what}")
    return row


def to_records(kind: type[Record], table: Table, rows: Iterable[Any]) -> list[Record]:
    """Return the records of rows that have all columns of a table, in order."""
    wanted = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    reads = [
        (at.key, place, at.info["kind"].read if "kind" in at.info else None)
        for place, at in enumerate(table.columns)
        if at.key in wanted
    ]
    return [
        kind(
            **{
                key: row[place] if read is None or row[place] is None else read(row[place])
                for key, place, read in reads
            }
        )
        for row in rows
    ]


METADATA = MetaData()
"""All tables of a store."""


def _numbered() -> Column[int]:
    """Return the autoincrement column of a table; SQLite allows only INTEGER there."""
    kind = BigInteger().with_variant(Integer, "sqlite")
    return Column("number", kind, primary_key=True, autoincrement=True)


SCHEMA_VERSION = Table(
    "schema_version",
    METADATA,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("applied", BigInteger, nullable=False),
)
EVENTS = Table(
    "events",
    METADATA,
    _numbered(),
    column("user_id", ID, field="user"),
    column("item_id", ID, field="item"),
    column("kind", TEXT),
    column("time", TIME),
    column("weight", NUMBER, nullable=True),
    column("event_key", TEXT, field="key", nullable=True),
    column("request", TEXT, nullable=True),
    column("received", TIME),
    sqlite_autoincrement=True,  # the number of a deleted event is never used again
)
Index("events_key", EVENTS.c.key, unique=True)
Index("events_user", EVENTS.c.user, EVENTS.c.time, EVENTS.c.number)
Index("events_item", EVENTS.c.item)
Index("events_request", EVENTS.c.request)
Index("events_received", EVENTS.c.received)

FIRST_MET = Table(
    "first_met",
    METADATA,
    Column("item_id", Text, key="item", primary_key=True),
    Column("time", BigInteger, nullable=False),
)
"""The time of the first event or entry of each item, for the newest items."""
Index("first_met_time", FIRST_MET.c.time)

ENTRIES = Table(
    "entries",
    METADATA,
    Column("side", Text, primary_key=True),
    column("id", ID, primary_key=True),
    column("name", LONG_TEXT, nullable=True),
    column("picture", LONG_TEXT, nullable=True),
    column("categories", CATEGORIES),
    column("features", FEATURES),
    column("hidden", FLAG),
    column("updated", TIME),
    Column("found_by_id", Text, nullable=False),
    Column("found_by_name", Text, nullable=False),
)
"""Entries of items and users; ``found_by_…`` are the id and the name in lower case."""
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

COUNTERS = Table(
    "counters",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)
KEYS = Table(
    "api_keys",
    METADATA,
    column("id", TEXT, primary_key=True),
    column("name", TEXT),
    column("role", TEXT),
    column("hash", TEXT),
    column("created", TIME),
    column("expires", TIME, nullable=True),
    column("revoked", FLAG),
)
IMPRESSIONS = Table(
    "impressions",
    METADATA,
    _numbered(),
    column("request", TEXT),
    column("time", TIME),
    column("user_id", ID, field="user", nullable=True),
    column("items", IDS),
    column("model", TEXT),
    column("variant", TEXT),
    column("basis", TEXT),
    sqlite_autoincrement=True,
)
"""The recommendations that were shown."""
Index("impressions_request", IMPRESSIONS.c.request)
Index("impressions_variant", IMPRESSIONS.c.variant, IMPRESSIONS.c.time)

REQUESTED_MODELS = Table(
    "wished_models",
    METADATA,
    _numbered(),
    column("whose", LONG_TEXT, field="group"),
    column("version", TEXT),
    column("name", LONG_TEXT),
    column("time", TIME),
    sqlite_autoincrement=True,
)
REPORTS = Table(
    "server_reports",
    METADATA,
    column("server", TEXT, primary_key=True),
    column("version", TEXT),
    column("state", TEXT),
    column("reason", LONG_TEXT),
    column("time", TIME),
)
