"""Read small tables for requests: the users to answer, and the names of items."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl
from numpy.typing import NDArray

from sdgar.data.ids import held
from sdgar.data.read_options import USER, ReadOptions
from sdgar.data.readers.columns import column_of
from sdgar.data.readers.feature_tables import whole_table
from sdgar.data.readers.whole_text import text_of
from sdgar.errors import DataError, UsageError

_NAMES = ("name", "title", "label", "description")
"""The names of a column of names, alone or as an ending; the first that is there counts."""

_INTEGER = re.compile(r"0|-?[1-9][0-9]*")


def read_users(path: str | Path, options: ReadOptions) -> list[Any]:
    """Return users in their order, each once, from a .txt file of lines or a column of a table.

    Where ``options.context`` has several fields, each user is a mapping with a column for each.
    """
    if ".txt" in Path(path).suffixes[-2:]:
        return _lines(path, options)
    file, frame = whole_table(path, options)
    columns = {"user": column_of("user", frame.columns, options)}
    for name in options.context:
        if name != "user" and name not in frame.columns:
            raise UsageError(
                f"{file.name} has no column {name!r}, which a context of this model has. Columns: "
                f"{', '.join(frame.columns)}. Or say --context {name}=… for all users.",
                code="missing_column",
            )
        columns.setdefault(name, name)
    found = frame.select(pl.col(columns[name]).alias(name) for name in options.context).unique(
        maintain_order=True
    )
    for name in options.context:
        require_ids(found[name], columns[name], file.name)
    return found["user"].to_list() if options.context == USER else found.to_dicts()


def read_ids(path: str | Path) -> NDArray[Any]:
    """Return the ids of a text file in their order, one a line; integers if all are written so."""
    lines = _lines(path, ReadOptions())
    whole = all(_INTEGER.fullmatch(line) for line in lines)
    return held([int(line) for line in lines] if whole else lines)


def read_names(path: str | Path, column: str | None, options: ReadOptions) -> dict[str, str]:
    """Return the name of each item by its id as text; items without a name are left out."""
    file, frame = whole_table(path, options)
    key = id_column(frame.columns, options)
    named = column or _name_column([name for name in frame.columns if name != key], file.name)
    if named not in frame.columns:
        raise UsageError(
            f"{file.name} has no column {named!r} (--name-column). Columns: "
            f"{', '.join(frame.columns)}.",
            code="missing_column",
        )
    require_ids(frame[key], key, file.name)
    pairs = frame.select(pl.col(key).cast(pl.String), pl.col(named).cast(pl.String, strict=False))
    return {item: name for item, name in pairs.iter_rows() if name}


def _lines(path: str | Path, options: ReadOptions) -> list[str]:
    name, text = text_of(path, options.separator or "\t", options)
    users = list(dict.fromkeys(line for line in text.replace("\r\n", "\n").split("\n") if line))
    if not users:
        raise DataError(f"{name} holds no user: give one id a line.", code="no_rows")
    return users


def require_ids(column: pl.Series, name: str, file: str) -> None:
    """Raise if a column has no rows, a type that no id has, or a row without an id."""
    if column.is_empty():
        raise DataError(f"{file} has no rows.", code="no_rows")
    if column.dtype != pl.String and not column.dtype.is_integer():
        raise DataError(
            f"column {name!r} of {file} is of type {column.dtype}, which cannot be ids. Write them "
            "as text or as integers.",
            code="unsupported_type",
        )
    bare = column.is_null() | (column.cast(pl.String) == "")
    if bare.any():
        raise DataError(
            f"column {name!r} of {file} lacks an id, first in row {int(bare.arg_true()[0]) + 1:,}. "
            "Fill it in, or leave the row out.",
            code="missing_id",
        )


def id_column(
    names: Sequence[str], options: ReadOptions, side: Literal["item", "user"] = "item"
) -> str:
    """Return the column of the ids: the one that is named, or looks so, or the first."""
    try:
        return column_of(side, names, options)
    except UsageError:
        if options.item is not None:
            raise
        return names[0]


def _name_column(names: Sequence[str], file: str) -> str:
    for known in _NAMES:
        for name in names:
            if name.lower().endswith(known):
                return name
    if len(names) == 1:
        return names[0]
    raise UsageError(
        f"cannot tell which column of {file} holds names. Columns: {', '.join(names) or 'none'}. "
        "Name it with --name-column NAME.",
        code="missing_column",
    )
