"""Read tables in memory: Polars, pandas, Arrow, DuckDB, or a dict of columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import polars as pl

from sdgar.data.ids import plain, require_column
from sdgar.data.numbers import microseconds
from sdgar.data.readers.chunks import Chunk, id_column, is_id, typed_chunk, value_column
from sdgar.errors import DataError, UsageError

_SOURCE = "the frame"


class TableSource:
    """A table with named columns; only the columns that are used are converted."""

    def __init__(self, table: Any) -> None:
        # pandas comes before Arrow: its own Arrow export needs pyarrow, which may be missing.
        if _is_pandas(table):
            self._table: Any = table
            self.names = tuple(str(name) for name in table.columns)
        elif isinstance(table, Mapping):
            self._table = table
            self.names = tuple(str(name) for name in table)
        else:
            with _failures_named():
                self._table = _polars(table)
                self.names = tuple(self._table.collect_schema().names())

    def chunk(self, columns_by_role: dict[str, str]) -> Chunk:
        """Return some columns, each named by its role, as a chunk."""
        if isinstance(self._table, pl.LazyFrame):
            names = list(dict.fromkeys(columns_by_role.values()))
            with _failures_named():
                frame = self._table.select(names).collect()
            return typed_chunk(frame, columns_by_role, _SOURCE)
        columns = {role: self._column(role, name) for role, name in columns_by_role.items()}
        lengths = {len(column) for column in columns.values()}
        if len(lengths) > 1:
            raise UsageError(
                f"the columns differ in length: {sorted(lengths)}.", code="column_length"
            )
        return typed_chunk(pl.DataFrame(columns), {role: role for role in columns_by_role}, _SOURCE)

    def _column(self, role: str, name: str) -> pl.Series:
        values = self._table[_original(self._table, name)]
        require_column(values, f"values of column {name!r}")
        if _is_pandas(self._table):
            values = _pandas_values(values)
        if isinstance(values, pl.Series):
            return values
        kind = values.dtype.kind if isinstance(values, np.ndarray) else "O"
        if kind == "M":  # of any time unit; Polars supports only some
            return pl.Series(microseconds(values).view("M8[us]"))
        if kind == "m":
            return pl.Series(values.astype("m8[us]"))
        if kind not in "OTU":
            return pl.Series(values)
        make_series = id_column if is_id(role) else value_column
        return make_series([plain(v) for v in values], name, _SOURCE)


@contextmanager
def _failures_named() -> Iterator[None]:
    """Turn an error of Polars into a DataError with the first line of its message."""
    try:
        yield
    except pl.exceptions.PolarsError as error:
        raise DataError(
            f"the table cannot be read: {str(error).splitlines()[0]}. Check the query or the "
            "columns that it comes from.",
            code="bad_table",
        ) from error


def _is_pandas(table: object) -> bool:
    return type(table).__module__.partition(".")[0] == "pandas" and hasattr(table, "columns")


def _pandas_values(column: Any) -> Any:
    """Return a pandas column's values; missing ones are None if objects, otherwise NaN or NaT.

    A nullable column of integers is taken as objects if values are missing: pandas itself would
    make it floats, which lose digits above 2^53.
    """
    missing = column.isna().to_numpy()
    nullable = not isinstance(column.dtype, np.dtype) and missing.any()
    values = column.to_numpy(dtype=object) if nullable else column.to_numpy()
    if values.dtype.kind == "O":
        values = values.copy()
        values[missing] = None
    return values


def _polars(table: Any) -> pl.LazyFrame:
    if isinstance(table, pl.LazyFrame):
        return table
    if isinstance(table, pl.DataFrame):
        return table.lazy()
    if hasattr(table, "__arrow_c_stream__") and not isinstance(table, pl.Series):
        return pl.DataFrame(table).lazy()
    if hasattr(table, "pl"):
        return pl.DataFrame(table.pl()).lazy()
    raise UsageError(
        f"cannot read interactions from a {type(table).__name__}. Give a Polars or pandas "
        "DataFrame, an Arrow table, a DuckDB relation, or a dict of columns.",
        code="unknown_frame",
    )


def _original(table: Any, name: str) -> Any:
    """Return a name as the table has it: pandas and dicts may have names that are not text."""
    names = table.columns if _is_pandas(table) else table
    return next(original for original in names if str(original) == name)
