"""Read tables of facts of items: the id, categories, and any other fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import polars as pl

from sdgar.data.read_options import ReadOptions
from sdgar.data.readers.feature_tables import whole_table
from sdgar.data.readers.id_tables import id_column, require_ids
from sdgar.errors import DataError

_CATEGORIES = ("categories", "category", "genres", "genre")
"""The names of a column of categories; the first that is there counts."""
_SEVERAL = "|"


def read_facts(
    path: str | Path,
    *,
    item: str | None = None,
    delimiter: str | None = None,
    side: Literal["item", "user"] = "item",
) -> dict[str | int, dict[str, Any]]:
    r"""Read what is known of items from a CSV, TSV, JSON Lines or Parquet file: fields by id.

    The column of the ids is ``item``, or one that looks so, or the first. Categories stand in a
    column ``categories``, ``category``, ``genres`` or ``genre``. All columns are fields of their
    names. A text with ``|`` in it holds several values. Empty cells are left out. A table of users
    is read in the same way with ``side="user"``.

    >>> from pathlib import Path
    >>> _ = Path("items.csv").write_text("item,categories,maker\na,drama|crime,acme\nb,,\n")
    >>> sdgar.read_facts("items.csv")
    {'a': {'categories': ['drama', 'crime'], 'maker': 'acme'}, 'b': {}}
    """
    options = ReadOptions(item=item, delimiter=delimiter)
    file, frame = whole_table(path, options)
    key = id_column(frame.columns, options, side)
    require_ids(frame[key], key, file.name)
    repeated = frame[key].is_duplicated()
    if repeated.any():
        raise DataError(
            f"{file.name} has several rows of {side} {frame[key].filter(repeated)[0]!r}. Give each "
            f"{side} one row, with | between several values of a field.",
            code=f"duplicate_{side}s",
        )
    fields = [name for name in frame.columns if name != key]
    for name in fields:
        _require_values(frame[name], file.name)
    known = next((name for name in _CATEGORIES if name in fields), None)
    found = {}
    for row in frame.iter_rows(named=True):
        cells = {name: _cell(row[name]) for name in fields}
        if known is not None:
            cells["categories"] = cells[known]
        found[row[key]] = {n: value for n, value in cells.items() if value not in (None, "", [])}
    return found


def _cell(value: Any) -> Any:
    """Return a value, or a list of several; empty ones are left out."""
    if isinstance(value, str) and _SEVERAL in value:
        return [part for part in value.split(_SEVERAL) if part]
    if isinstance(value, list):
        return [part for part in value if part not in (None, "")]
    return value


def _require_values(column: pl.Series, name: str) -> None:
    inner = column.dtype.inner if isinstance(column.dtype, pl.List) else column.dtype
    if isinstance(inner, pl.Struct | pl.List | pl.Array) or inner in (pl.Object, pl.Binary):
        raise DataError(
            f"column {column.name!r} of {name} is of type {column.dtype}: a fact is a text, a "
            "number, a date, true or false, or a list of these.",
            code="unsupported_type",
        )
