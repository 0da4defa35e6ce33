"""The store of a service: events, items, users, API keys and impressions.

    store = Database.open("sqlite:///store.db")
    store.add_events([Event("ann", "7", kind="view")])   # on the disk when this returns

It is a SQLite file, or a PostgreSQL database that several servers share. Names are imported on
first use, so that an address can be parsed without SQLAlchemy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.serve.store.address import Address as Address
    from sdgar.serve.store.database import Database as Database
    from sdgar.serve.store.records import AddedEvents as AddedEvents
    from sdgar.serve.store.records import Entry as Entry
    from sdgar.serve.store.records import Event as Event
    from sdgar.serve.store.records import Impression as Impression
    from sdgar.serve.store.records import Key as Key
    from sdgar.serve.store.records import ModelRequest as ModelRequest
    from sdgar.serve.store.records import Rate as Rate
    from sdgar.serve.store.records import ServerReport as ServerReport
    from sdgar.serve.store.records import StoredEvent as StoredEvent

_HOME = {"Address": "address", "Database": "database"} | dict.fromkeys(
    ("AddedEvents", "Entry", "Event", "Impression", "Key", "ModelRequest", "Rate",
     "ServerReport", "StoredEvent"),
    "records",
)  # fmt: skip

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        msg = f"module 'sdgar.serve.store' has no attribute {name!r}"
        raise AttributeError(msg)
    try:
        home = import_module(f"sdgar.serve.store.{_HOME[name]}")
    except ModuleNotFoundError as error:
        if error.name != "sqlalchemy":
            raise
        raise UsageError(
            "a store needs SQLAlchemy, which is not installed. Install it with: "
            "pip install 'sdgar[serve]'.",
            code="missing_driver",
        ) from error
    return getattr(home, name)
