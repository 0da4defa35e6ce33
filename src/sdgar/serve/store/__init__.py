"""The store of a service: events, items, users, keys, and what was shown to whom.

    store = Database.open("sqlite:///store.db")
    store.add_events([Event("ann", "7", kind="view")])   # on the disk when this returns

It is a SQLite file, or a PostgreSQL database that several servers share. Names are imported when
first used, so that an address can be understood where SQLAlchemy is not installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.serve.store.address import Address as Address
    from sdgar.serve.store.database import Database as Database
    from sdgar.serve.store.records import Added as Added
    from sdgar.serve.store.records import Change as Change
    from sdgar.serve.store.records import Entry as Entry
    from sdgar.serve.store.records import Event as Event
    from sdgar.serve.store.records import Impression as Impression
    from sdgar.serve.store.records import Key as Key
    from sdgar.serve.store.records import Rate as Rate
    from sdgar.serve.store.records import Report as Report
    from sdgar.serve.store.records import Stored as Stored
    from sdgar.serve.store.records import Wanted as Wanted

_HOME = {"Address": "address", "Database": "database"} | dict.fromkeys(
    ("Added", "Change", "Entry", "Event", "Impression", "Key", "Rate", "Report", "Stored",
     "Wanted"),
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
