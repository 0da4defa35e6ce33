"""Read the events of a store: its columns, and its rows in batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import numpy as np
import polars as pl

from sdgar.data.kinds import BELOW
from sdgar.data.read_options import ReadOptions
from sdgar.data.readers.chunks import Chunk
from sdgar.errors import DataError, UsageError
from sdgar.serve.store.address import Address

COLUMNS = {
    "user": "user_id",
    "item": "item_id",
    "kind": "kind",
    "time": "time",
    "weight": "weight",
}
"""The columns that a store has for readers, by name; the values are their names in its table."""
_TYPES: dict[str, Any] = {"time": pl.Int64, "weight": pl.Float64}


class StoredEvents:
    """The events of a store up to the newest one, while it is open.

    An event without a weight has the weight 1. One with a weight below 0 speaks against its item:
    its kind gets the ending ``BELOW``.
    """

    def __init__(self, address: Address, options: ReadOptions) -> None:
        if options.delimiter is not None or options.header_columns is not None:
            raise UsageError(
                "--delimiter and --columns are for text files, and a store is none. Leave them "
                "out.",
                code="unused_option",
            )
        self._address = address
        self._open = ExitStack()
        self.names: tuple[str, ...] = ()
        """The columns of the store, of which weights are there if any event has one."""

    def __enter__(self) -> Self:
        from sdgar.serve.store import Database

        with ExitStack() as opening:
            self._store = opening.enter_context(Database.open(self._address, read_only=True))
            self._last = self._store.last_number()
            if self._address.last is not None:
                self._last = min(self._last, self._address.last)
            if not self._last:
                raise DataError(
                    f"the store {self._address} has no events yet. Send some to a server that "
                    "uses it.",
                    code="no_rows",
                )
            self._weighted = self._store.has_weights()
            self.names = tuple(n for n in COLUMNS if n != "weight" or self._weighted)
            self._open = opening.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._open.close()

    def chunks(self, used: dict[str, str]) -> Iterator[Chunk]:
        """Yield the used columns of all events; rows are known by their numbers."""
        names = [n for n in self.names if n in used.values() or n == "weight"]
        wanted = [COLUMNS[name] for name in names]
        parts = [_value(name, self._weighted).alias(role) for role, name in used.items()]
        for rows in self._store.event_rows(wanted, last=self._last):
            numbers, *columns = zip(*rows, strict=True)
            frame = pl.DataFrame(
                [
                    pl.Series(name, values, dtype=_TYPES.get(name, pl.String))
                    for name, values in zip(names, columns, strict=True)
                ]
            )
            yield Chunk(self._address.name, frame.select(parts), np.array(numbers, np.int64), "row")


def _value(name: str, weighted: bool) -> pl.Expr:
    column = pl.col(name)
    if name == "time":
        return column.cast(pl.Datetime("us"))
    if name == "weight":
        return pl.when(column < 0).then(1.0).otherwise(column.fill_null(1.0))
    if name == "kind" and weighted:
        return pl.when(pl.col("weight") < 0).then(column + BELOW).otherwise(column)
    return column
