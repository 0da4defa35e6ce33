"""Events of a store as tables: read as training data, or exported to a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sdgar.data.feedback import BELOW_ZERO
from sdgar.data.read_options import ReadOptions
from sdgar.data.readers.chunks import Chunk, spelled_integers
from sdgar.data.tables import write_pieces
from sdgar.errors import DataError, UsageError
from sdgar.serve.store import Address, Database

_READ = ("user", "item", "kind", "time", "weight")
"""The columns of a store for readers."""
_EXPORTED = ("number", "user", "item", "kind", "time", "weight", "request", "key", "received")
"""The columns of an exported table."""
_TIMES = ("time", "received")
_TYPES: dict[str, Any] = dict.fromkeys(("number", *_TIMES), pl.Int64) | {"weight": pl.Float64}
"""The types of columns; all others are text."""


def _frame(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> pl.DataFrame:
    """Return columns of a store as a table; times are microseconds since 1970."""
    pairs = zip(names, columns, strict=True)
    return pl.DataFrame([pl.Series(n, column, _TYPES.get(n, pl.String)) for n, column in pairs])


class StoredEvents:
    """The events of a store up to the newest one, while the store is open.

    An event without a weight has the weight 1. An event with a weight below 0 is negative: its
    kind gets the suffix ``BELOW_ZERO``.
    """

    def __init__(self, store: Database) -> None:
        self._store, self._last = store, store.last_number()
        if store.address.last is not None:
            self._last = min(self._last, store.address.last)
        if not self._last:
            raise DataError(
                f"the store {store.address} has no events yet. Send some to a server that uses it.",
                code="no_rows",
            )
        self._weighted = store.has_weights()
        self.names = tuple(n for n in _READ if n != "weight" or self._weighted)
        """The columns of the store; ``weight`` is among them if any event has a weight."""

    def chunks(self, used: dict[str, str]) -> Iterator[Chunk]:
        """Yield the used columns of all events; the number of an event is its row number."""
        names = [n for n in self.names if n in used.values() or n == "weight"]
        parts = [_value(name, self._weighted).alias(role) for role, name in used.items()]
        for rows in self._store.event_rows(names, last=self._last):
            numbers, *columns = zip(*rows, strict=True)
            frame = _frame(names, columns).select(parts)
            yield Chunk(self._store.address.name, frame, np.array(numbers, np.int64), "row")


@contextmanager
def stored_events(address: Address, options: ReadOptions) -> Iterator[StoredEvents]:
    """Open the events of a store; raise for an option of text files."""
    if options.delimiter is not None or options.header_columns is not None:
        raise UsageError(
            "--delimiter and --columns are for text files only. Leave them out to read a store.",
            code="unused_option",
        )
    with Database.open(address, read_only=True) as store:
        yield StoredEvents(store)


def _value(name: str, weighted: bool) -> pl.Expr:
    column = pl.col(name)
    if name == "time":
        return column.cast(pl.Datetime("us"))
    if name == "weight":
        return pl.when(column < 0).then(1.0).otherwise(column.fill_null(1.0))
    if name == "kind" and weighted:
        return pl.when(pl.col("weight") < 0).then(column + BELOW_ZERO).otherwise(column)
    return column


def export_events(address: str | Address, path: Path) -> int:
    """Write all present events of a store to a table, complete or not at all; return their number.

    Ids are integers if all of them are spelled as integers, the same as for text files.
    """
    with Database.open(address, read_only=True) as store:
        last = store.last_number()
        casts = [pl.col(name).cast(pl.Datetime("us", "UTC")) for name in _TIMES]
        casts += [pl.col(name).cast(_id_type(store, name, last)) for name in ("user", "item")]
        weighted = store.has_weights()
        names = [name for name in _EXPORTED if name != "weight" or weighted]
        count = 0

        def frames() -> Iterator[pl.DataFrame]:
            nonlocal count
            yield _frame(names, [() for _ in names]).with_columns(casts)
            for rows in store.event_rows(names[1:], last=last):
                count += len(rows)
                yield _frame(names, list(zip(*rows, strict=True))).with_columns(casts)

        write_pieces(frames(), path)
    return count


def _id_type(store: Database, name: str, last: int) -> Any:
    """Return the type that keeps the spelling of all ids of a column."""
    fitting: list[Any] = [pl.Int64, pl.UInt64]
    for rows in store.event_rows([name], last=last):
        ids = pl.Series([row[-1] for row in rows], dtype=pl.String)
        fitting = [one for one in fitting if spelled_integers(ids, one) is not None]
        if not fitting:
            break
    return fitting[0] if fitting and last else pl.String
