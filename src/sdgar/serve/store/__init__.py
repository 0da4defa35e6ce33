"""The store of a service: events, items, users, API keys and impressions.

    store = Database.open("sqlite:///store.db")
    store.add_events([Event("ann", "7", kind="view")])   # on the disk when this returns

It is a SQLite file, or a PostgreSQL database that several servers share. ``Database`` is imported
on first use, so that an address can be parsed without SQLAlchemy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sdgar.errors import UsageError
from sdgar.serve.store.address import Address
from sdgar.serve.store.records import (
    AddedEvents,
    Entry,
    Event,
    Impression,
    Key,
    ModelRequest,
    Rate,
    ServerReport,
    Side,
    StoredEvent,
)

if TYPE_CHECKING:
    from sdgar.serve.store.database import Database

__all__ = [
    "AddedEvents", "Address", "Database", "Entry", "Event", "Impression", "Key", "ModelRequest",
    "Rate", "ServerReport", "Side", "StoredEvent",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name != "Database":
        raise AttributeError(f"module 'sdgar.serve.store' has no attribute {name!r}")
    try:
        from sdgar.serve.store.database import Database
    except ModuleNotFoundError as error:
        if error.name != "sqlalchemy":
            raise
        raise UsageError(
            "a store needs SQLAlchemy, which is not installed. Install it with: "
            "pip install 'sdgar[serve]'.",
            code="missing_driver",
        ) from error
    return Database
