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
    """The rows of the table."""
    id: str
    """The column of the ids."""
    parts: dict[str, str]
    """The columns of name, picture, categories and hidden, if they exist."""
    features: tuple[str, ...]
    """The other columns, each of which is a feature."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.frame.height

    def sentence(self) -> str:
        """Return a line on the meaning of the columns."""
        words = [f"id={self.id}", *(f"{part}={name}" for part, name in self.parts.items())]
        words += [f"features={','.join(self.features)}"] if self.features else []
        return " ".join(words)

    def entries(self) -> Iterator[Entry]:
        """Yield the entries of all rows."""
        columns = {part: self.frame[name].to_list() for part, name in self.parts.items()}
        facts = {name: _facts(self.frame[name], self.name) for name in self.features}
        for row, id in enumerate(self.frame[self.id].cast(pl.String).to_list()):
            yield Entry(
                id=id,
                name=_text(columns.get("name"), row),
                picture=_text(columns.get("picture"), row),
                categories=_several(columns["categories"][row] if "categories" in columns else ""),
                features={n: v[row] for n, v in facts.items() if v[row] not in (None, "")},
                hidden=self._hidden(columns["hidden"][row], row) if "hidden" in columns else False,
            )

    def _hidden(self, value: Any, row: int) -> bool:
        text = "false" if value in (None, "") else str(value).lower()
        if text not in _TRUE_OR_FALSE:
            raise DataError(
                f"row {row + 1:,} of {self.name} has {value!r} in the column "
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
    return EntryFile(file.name, frame, key, parts, features)


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


def _text(column: list[Any] | None, row: int) -> str | None:
    value = None if column is None else column[row]
    return None if value is None else str(value)


def _several(cell: Any) -> tuple[str, ...]:
    parts = cell if isinstance(cell, list) else str(cell or "").split(_SEVERAL)
    texts = (str(part).strip() for part in parts if part is not None)
    return tuple(dict.fromkeys(text for text in texts if text))


def _facts(column: pl.Series, file: str) -> list[Any]:
    """Return the values of a feature: numbers, or texts if not all of them are numbers."""
    if isinstance(column.dtype, pl.List):
        return [None if c is None else _SEVERAL.join(map(str, c)) for c in column.to_list()]
    if isinstance(column.dtype, pl.Struct | pl.Array) or column.dtype == pl.Object:
        raise DataError(
            f"column {column.name!r} of {file} is of type {column.dtype}: a feature is a number or "
            "a text. Leave the column out.",
            code="unsupported_type",
        )
    if column.dtype.is_numeric():
        return column.cast(pl.Float64).to_list()
    texts = column.cast(pl.String)
    filled = texts.filter(texts.is_not_null() & (texts != ""))
    if len(filled) and filled.str.contains(_NUMBER).all():
        return texts.cast(pl.Float64, strict=False).to_list()
    return texts.to_list()
