"""Tables of what is known of users or items: the first column is the id, the others say things."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from sdgar.data.features import Features
from sdgar.data.readers.files import SourceFile, chunks, find_files, reading
from sdgar.errors import DataError

_SEVERAL = "|"
_MAX_BYTES = 4 << 30


def read_features(path: str | Path, *, delimiter: str | None = None) -> Features:
    """Features from a CSV, TSV, JSON Lines or Parquet file, plain or compressed.

    Every value is a feature, ``column=value``; a cell may hold several, as a list or as text with
    ``|`` between them, or none. Numbers are names here: fractions are refused.
    """
    separator = "\t" if delimiter in ("tab", "\\t") else delimiter
    file = find_files([path], separator, [])[0]
    with reading(file):
        frame = _frame(file)
    key, *columns = frame.columns
    if not columns:
        raise DataError(
            f"{file.name} has one column, {key!r}. The first column is the id; features stand in "
            "the others.",
            code="no_features",
        )
    bare = frame[key].is_null() | (frame[key].cast(pl.String) == "")
    if bare.any():
        raise DataError(
            f"row {int(bare.arg_true()[0]) + 1} of {file.name} has no id in its first column, "
            f"{key!r}.",
            code="missing_id",
        )
    cells = {name: _cells(frame[name], file.name) for name in columns}
    return Features.from_columns(frame[key].to_list(), cells)


def _frame(file: SourceFile) -> pl.DataFrame:
    content = BytesIO(b"".join(chunks(file, _MAX_BYTES, [])))
    try:
        if file.format == "delimited":
            return pl.read_csv(content, separator=file.separator, infer_schema=False)
        if file.format == "json_lines":
            return pl.read_ndjson(content, infer_schema_length=None)
        return pl.read_parquet(content)
    except pl.exceptions.PolarsError as error:
        raise DataError(
            f"{file.name} is not a table that can be read: {error}", code="bad_table"
        ) from error


def _cells(column: pl.Series, name: str) -> list[Any]:
    inner = column.dtype.inner if isinstance(column.dtype, pl.List) else column.dtype
    if isinstance(inner, pl.Struct | pl.List | pl.Array) or inner == pl.Object:
        raise DataError(
            f"column {column.name!r} of {name} is of type {column.dtype}: a feature is a text, a "
            "whole number, or a list of these.",
            code="unsupported_type",
        )
    if inner.is_float() or inner == pl.Decimal or _fractions(column):
        raise DataError(
            f"column {column.name!r} of {name} holds fractions, and every value would be a feature "
            "of its own. Sort them into ranges first, or leave the column out.",
            code="float_features",
        )
    if column.dtype == pl.String:
        return [_several(cell) for cell in column.to_list()]
    return column.to_list()


def _several(cell: str | None) -> list[str]:
    return [part for part in (cell or "").split(_SEVERAL) if part]


def _fractions(column: pl.Series) -> bool:
    """Whether a column of text is one of numbers, and not all of them whole."""
    if column.dtype != pl.String:
        return False
    texts = column.filter(column.is_not_null() & (column != ""))
    numbers = texts.cast(pl.Float64, strict=False)
    return len(texts) > 0 and numbers.null_count() == 0 and bool((numbers % 1 != 0).any())
