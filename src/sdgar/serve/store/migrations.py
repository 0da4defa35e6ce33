"""The tables of a store are made once, and changed step by step when a newer version needs it.

A new store gets the tables of ``tables.py``. An older one takes the steps that it lacks, each in
the order of its number; a step is never changed once it was published.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, inspect, select

from sdgar.errors import ArtifactError, DataError
from sdgar.serve.store import tables
from sdgar.serve.store.address import Address


@dataclass(frozen=True, slots=True)
class Step:
    """A change of the tables."""

    number: int
    """The version of the schema after it; the first step has 2."""
    what: str
    """What changes, in words."""
    take: Callable[[Connection], None]
    """The function that changes the tables."""


STEPS: tuple[Step, ...] = ()
"""All steps from the first schema, which has the number 1, to that of ``tables.py``."""


def newest() -> int:
    """Return the version of the schema that this code knows."""
    return 1 + len(STEPS)


def version_of(connection: Connection, address: Address) -> int:
    """Return the version of a store's schema, 0 if it has no tables; raise if it is not ours."""
    names = set(inspect(connection).get_table_names())
    if tables.SCHEMA_VERSION.name not in names:
        foreign = names if address.path is not None else names & set(tables.METADATA.tables)
        if foreign:
            raise DataError(
                f"{address} is a database of something else: it has the tables "
                f"{', '.join(sorted(foreign)[:5])}, and no {tables.SCHEMA_VERSION.name}. Choose "
                "another one.",
                code="not_a_store",
            )
        return 0
    found = connection.execute(select(func.max(tables.SCHEMA_VERSION.c.version))).scalar()
    version = int(found or 0)
    if version > newest():
        raise ArtifactError(
            f"the store {address} was made by a newer sdgar: its tables are of version {version}, "
            f"and this one knows {newest()}. Upgrade it: pip install --upgrade 'sdgar[serve]'.",
            code="newer_store",
        )
    return version


def require_current(version: int, address: Address) -> None:
    """Raise if a store that may only be read has no tables, or older ones."""
    if version == 0:
        raise DataError(
            f"{address} holds no store yet. `sdgar serve` and `sdgar keys add` make one.",
            code="no_such_store",
        )
    if version < newest():
        raise ArtifactError(
            f"the tables of the store {address} are of version {version}, and {newest()} is "
            "needed. Open it once for writing, as `sdgar serve` does: that brings it up to date.",
            code="older_store",
        )


def migrate(connection: Connection, version: int) -> None:
    """Make the tables of a new store, or take the steps that an older one lacks."""
    if version == 0:
        tables.METADATA.create_all(connection)
    for step in STEPS:
        if 0 < version < step.number:
            step.take(connection)
    known = range(1, newest() + 1) if version == 0 else range(version + 1, newest() + 1)
    now = time.time_ns() // 1000
    for number in known:
        connection.execute(insert(tables.SCHEMA_VERSION).values(version=number, applied=now))
