"""Tables of items or users for a store, from files: id, name, picture, categories, features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from sdgar.data.read_options import ReadOptions
from sdgar.data.readers.columns import column_of, squash
from sdgar.data.readers.tables import require_ids, whole_table
from sdgar.errors import DataError, UsageError
from sdgar.serve.store.records import Entry, Side

_SEVERAL = "|"
_NAMES = {
    "name": ("name", "title"),
    "picture": ("picture", "pictureurl", "image", "imageurl"),
    "categories": ("categories", "category", "genres"),
    "hidden": ("hidden",),
}
"""The names of the columns of each part, compared without case, spaces and underscores."""
_TRUE_OR_FALSE = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_NUMBER = r"^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$"


@dataclass(frozen=True)
class EntryFile:
    """A table of items or users, with the meaning of its columns."""

    name: str
    """The name of the file."""
    frame: pl.DataFrame
    """The rows of the table: ids are texts, and features are numbers or texts."""
    id: str
    """The column of the ids."""
    parts: dict[str, str]
    """The columns of name, picture, categories and hidden, if they exist."""
    features: tuple[str, ...]
    """The other columns, each of which is a feature."""

    def sentence(self) -> str:
        """Return a line on the meaning of the columns."""
        words = [f"id={self.id}", *(f"{part}={name}" for part, name in self.parts.items())]
        words += [f"features={','.join(self.features)}"] if self.features else []
        return " ".join(words)

    def entries(self) -> Iterator[Entry]:
        """Yield the entries of all rows."""
        for number, row in enumerate(self.frame.iter_rows(named=True), 1):
            part = {part: row[name] for part, name in self.parts.items()}
            yield Entry(
                id=row[self.id],
                name=_text(part.get("name")),
                picture=_text(part.get("picture")),
                categories=_several(part.get("categories")),
                features={n: row[n] for n in self.features if row[n] not in (None, "")},
                hidden=self._hidden(part.get("hidden"), number),
            )

    def _hidden(self, value: Any, number: int) -> bool:
        text = "false" if value in (None, "") else str(value).lower()
        if text not in _TRUE_OR_FALSE:
            raise DataError(
                f"row {number:,} of {self.name} has {value!r} in the column "
                f"{self.parts['hidden']!r}. Write true or false.",
                code="bad_record",
            )
        return _TRUE_OR_FALSE[text]


def read_entries(path: str | Path, side: Side, *, id: str | None = None) -> EntryFile:
    """Read a CSV, TSV, JSON Lines or Parquet file of items or users.

    The ids are in the column ``id``, by default the one called id or named like the ids of this
    side. Several categories are a list, or a text with ``|`` between them.
    """
    file, frame = whole_table(path, ReadOptions())
    key = _id_column(frame.columns, side, id, file.name)
    require_ids(frame[key], key, file.name)
    others = [name for name in frame.columns if name != key]
    parts: dict[str, str] = {}
    for part, known in _NAMES.items():
        alike = [name for name in others if squash(name) in known]
        if alike:
            parts[part] = min(alike, key=lambda name: known.index(squash(name)))
    features = tuple(name for name in others if name not in parts.values())
    columns = [frame[key].cast(pl.String), *(_feature(frame[n], file.name) for n in features)]
    return EntryFile(file.name, frame.with_columns(columns), key, parts, features)


def _id_column(names: Sequence[str], side: Side, named: str | None, file: str) -> str:
    if named is not None and named not in names:
        raise UsageError(
            f"{file} has no column {named!r} (--id-column). Columns: {', '.join(names)}.",
            code="missing_column",
        )
    plain = [name for name in names if squash(name) == "id"]
    if named is not None or plain:
        return named or plain[0]
    try:
        return column_of(side, names, ReadOptions())
    except UsageError as error:
        raise UsageError(
            f"no column of {file} is recognised as ids. Columns: {', '.join(names)}. Name one with "
            "--id-column NAME.",
            code="missing_column",
        ) from error


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _several(cell: Any) -> tuple[str, ...]:
    parts = cell if isinstance(cell, list) else str(cell or "").split(_SEVERAL)
    texts = (str(part).strip() for part in parts if part is not None)
    return tuple(dict.fromkeys(text for text in texts if text))


def _feature(column: pl.Series, file: str) -> pl.Series:
    """Return a feature as numbers, or as texts if not all of them are numbers."""
    if isinstance(column.dtype, pl.List):
        return column.cast(pl.List(pl.String)).list.join(_SEVERAL)
    if isinstance(column.dtype, pl.Struct | pl.Array) or column.dtype == pl.Object:
        raise DataError(
            f"column {column.name!r} of {file} is of type {column.dtype}: a feature is a number or "
            "a text. Leave the column out.",
            code="unsupported_type",
        )
    if column.dtype.is_numeric():
        return column.cast(pl.Float64)
    texts = column.cast(pl.String)
    filled = texts.filter(texts.is_not_null() & (texts != ""))
    if len(filled) and filled.str.contains(_NUMBER).all():
        return texts.cast(pl.Float64, strict=False)
    return texts
