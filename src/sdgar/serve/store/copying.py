"""Copy a whole store into a new one, such as a SQLite file into a PostgreSQL database."""

from __future__ import annotations

from sqlalchemy import Connection, Table, func, select, text

from sdgar.errors import UsageError
from sdgar.serve.store.database import Database
from sdgar.serve.store.failures import named
from sdgar.serve.store.tables import METADATA, SCHEMA_VERSION

_AT_ONCE = 5_000


def copy(source: Database, target: Database) -> dict[str, int]:
    """Copy all rows with their numbers, all or none; return the number of rows of each table.

    The target must be empty. The source is read as it is at one moment.
    """
    tables = [table for table in METADATA.sorted_tables if table is not SCHEMA_VERSION]
    counts: dict[str, int] = {}
    with named(source.address), source._engine.connect() as reading:
        if source.is_postgresql:
            reading = reading.execution_options(isolation_level="REPEATABLE READ")
        with reading.begin(), target._writing() as writing:
            for table in tables:
                if writing.execute(select(func.count()).select_from(table)).scalar():
                    raise UsageError(
                        f"the store {target.address} has rows in {table.name} already. Copy into a "
                        "new one.",
                        code="store_not_empty",
                    )
            for table in tables:
                counts[table.name] = _copied(reading, writing, table)
                if target.is_postgresql:
                    _count_on(writing, table)
    return counts


def _copied(reading: Connection, writing: Connection, table: Table) -> int:
    count = 0
    rows = reading.execute(select(table).execution_options(yield_per=_AT_ONCE))
    for some in rows.mappings().partitions():
        writing.execute(table.insert(), [dict(row) for row in some])
        count += len(some)
    return count


def _count_on(writing: Connection, table: Table) -> None:
    """Let a sequence of PostgreSQL go on after the numbers that were copied."""
    column = table.autoincrement_column
    if column is None or column.name != "number":
        return
    writing.execute(
        text(
            f"SELECT setval(pg_get_serial_sequence('{table.name}', 'number'), "
            f"(SELECT COALESCE(MAX(number), 0) + 1 FROM {table.name}), false)"
        )
    )
