"""Write the events of a store as a table, in batches, complete or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from sdgar.data.tables import write_pieces
from sdgar.serve.store import Address, Database

_COLUMNS: dict[str, tuple[str, Any]] = {
    "number": ("number", pl.Int64),
    "user": ("user_id", pl.String),
    "item": ("item_id", pl.String),
    "kind": ("kind", pl.String),
    "time": ("time", pl.Int64),
    "weight": ("weight", pl.Float64),
    "request": ("request", pl.String),
    "key": ("event_key", pl.String),
    "received": ("received", pl.Int64),
}
"""The columns of the table, their names in the store, and their types there."""
_TIMES = ("time", "received")


def export_events(address: str | Address, path: Path) -> int:
    """Write all events that a store has at this moment; return their number.

    Ids are integers if all of them are written as integers are, as where a file of text is read.
    """
    with Database.open(address, read_only=True) as store:
        last = store.last_number()
        types = {name: _id_type(store, name, last) for name in ("user", "item")}
        weighted = store.has_weights()
        names = [name for name in _COLUMNS if name != "weight" or weighted]
        count = 0

        def frames() -> Iterator[pl.DataFrame]:
            nonlocal count
            yield _frame(names, [() for _ in names], types)
            for rows in store.event_rows([_COLUMNS[n][0] for n in names[1:]], last=last):
                count += len(rows)
                yield _frame(names, list(zip(*rows, strict=True)), types)

        write_pieces(frames(), path)
    return count


def _id_type(store: Database, name: str, last: int) -> Any:
    """Return the type that holds all ids of a column as they are written."""
    fitting: list[Any] = [pl.Int64, pl.UInt64]
    for rows in store.event_rows([_COLUMNS[name][0]], last=last):
        ids = pl.Series([row[-1] for row in rows], dtype=pl.String)
        fitting = [one for one in fitting if _spells(ids, one)]
        if not fitting:
            break
    return fitting[0] if fitting and last else pl.String


def _spells(ids: pl.Series, dtype: Any) -> bool:
    integers = ids.cast(dtype, strict=False)
    return integers.null_count() == 0 and bool((integers.cast(pl.String) == ids).all())


def _frame(names: list[str], columns: list[tuple[Any, ...]], types: dict[str, Any]) -> pl.DataFrame:
    raw = pl.DataFrame(
        [
            pl.Series(name, values, dtype=_COLUMNS[name][1])
            for name, values in zip(names, columns, strict=True)
        ]
    )
    return raw.with_columns(
        *(pl.col(name).cast(dtype) for name, dtype in types.items()),
        *(pl.col(name).cast(pl.Datetime("us", "UTC")) for name in _TIMES),
    )
