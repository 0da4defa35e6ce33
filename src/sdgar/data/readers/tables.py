"""Read small tables: features and facts of users or items, names of items, and lists of ids.

A table is read as a whole, with all of its columns; the columns of delimited text are text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import polars as pl
from numpy.typing import NDArray

from sdgar.data.features import Features
from sdgar.data.ids import held, not_ids
from sdgar.data.read_options import USER, ReadOptions
from sdgar.data.readers.columns import check_distinct, column_of
from sdgar.data.readers.delimited import DelimitedFile
from sdgar.data.readers.files import SourceFile, find_file, reading, unpacked
from sdgar.data.readers.parquet import ParquetFile
from sdgar.data.readers.problems import ProblemLog
from sdgar.errors import DataError, UsageError

_SEVERAL = "|"
"""The character between several values in one cell."""


def read_features(
    path: str | Path,
    *,
    kinds: Mapping[str, str] | None = None,
    delimiter: str | None = None,
    max_uncompressed: int | None = None,
) -> Features:
    r"""Read features from a CSV, TSV, JSON Lines or Parquet file, plain or compressed.

    Texts and whole numbers are categories: every value is a feature, ``column=value``, and a cell
    may hold several, as a list or as text with ``|`` between them, or none. A column with fractions
    holds numbers, and one with lists of fractions embeddings. ``kinds`` says otherwise by column,
    as in ``kinds={"title": "text", "year": "number"}``; a text is a bag of its words.

    >>> from pathlib import Path
    >>> _ = Path("people.csv").write_text("user,city\nann,Rome\nbob,Oslo\n")
    >>> sdgar.read_features("people.csv").names
    ('city=Oslo', 'city=Rome')
    """
    options = ReadOptions(delimiter=delimiter, max_uncompressed=max_uncompressed)
    file, frame = whole_table(path, options)
    key, *columns = frame.columns
    if not columns:
        raise DataError(
            f"{file.name} has one column, {key!r}. The first column is the id; features stand in "
            "the others.",
            code="no_features",
        )
    require_ids(frame[key], key, file.name)
    json_lines = file.format == "json_lines"
    said = {name: (kinds or {}).get(name) or _kind(frame[name]) for name in columns}
    cells = {
        name: _cells(frame[name], file.name, said[name], json_lines=json_lines) for name in columns
    }
    return Features.from_columns(frame[key].to_list(), cells, kinds={**(kinds or {}), **said})


def _kind(column: pl.Series) -> str:
    """Return what a column looks like: categories, numbers, or embeddings."""
    if isinstance(column.dtype, pl.List | pl.Array):
        return "embedding" if _inner(column).is_float() else "category"
    return "number" if _has_fractions(column) else "category"


def _inner(column: pl.Series) -> pl.DataType:
    """Return the type of the values of a column, which may stand in lists."""
    kind = column.dtype
    return kind.inner if isinstance(kind, pl.List | pl.Array) else kind  # type: ignore[return-value]


def whole_table(path: str | Path, options: ReadOptions) -> tuple[SourceFile, pl.DataFrame]:
    """Return a file with all its columns."""
    file = find_file(path, options.separator)
    with reading(file):
        return file, _frame(file, options)


def _frame(file: SourceFile, options: ReadOptions) -> pl.DataFrame:
    if file.format == "delimited":
        return _delimited(file, options)
    try:
        if file.format == "parquet":
            source = ParquetFile(file, options.unpack_limit)
            return source.frame(source.names)
        content = BytesIO(b"".join(unpacked(file, options.unpack_limit)))
        return pl.read_ndjson(content, infer_schema_length=None)
    except (pl.exceptions.PolarsError, DataError) as error:
        raise _bad_table(file, error) from error


def _delimited(file: SourceFile, options: ReadOptions) -> pl.DataFrame:
    """Return all columns as text; the first line has their names."""
    source = DelimitedFile(file, options, one_column=True)
    names = source.names
    if names[0].lstrip("-").isdigit():
        raise DataError(
            f"the first line of {file.name} looks like data: {', '.join(names)[:80]}. A table has "
            "a header line.",
            code="no_header",
        )
    check_distinct(names)
    log = ProblemLog()
    frame = pl.concat(chunk.frame for chunk in source.chunks({name: name for name in names}, log))
    if log.counts:
        raise _bad_table(file, log.problems()[0].sentence())
    return frame


def _bad_table(file: SourceFile, why: object) -> DataError:
    return DataError(f"{file.name} is not a table that can be read: {why}", code="bad_table")


def _cells(column: pl.Series, name: str, kind: str, *, json_lines: bool) -> list[Any]:
    """Return the cells of a column as its kind has them."""
    _require_values(column, name, "a feature is a text, a number, or a list of these")
    if kind == "category" and _has_fractions(column):
        raise DataError(
            f"column {column.name!r} of {name} holds fractions, and every value would be a "
            "separate category. Sort them into ranges first, or read them as numbers.",
            code="float_features",
        )
    if kind == "number" and column.dtype == pl.String:
        return [_number(cell) for cell in column.to_list()]
    if kind == "number" and column.dtype == pl.Decimal:
        return column.cast(pl.Float64).to_list()
    if kind == "category" and column.dtype == pl.String:
        if json_lines and column.str.contains(r"^\[.*\]$").any():
            raise DataError(
                f"column {column.name!r} of {name} has lists in some rows and text in others. "
                "Write a list in every row.",
                code="unsupported_type",
            )
        return [[part for part in (c or "").split(_SEVERAL) if part] for c in column.to_list()]
    return column.to_list()


def _number(cell: str | None) -> float | str | None:
    """Return the number that a text is, nothing for an empty one, and another text as it is."""
    if not cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return cell


def _has_fractions(column: pl.Series) -> bool:
    """Return whether a column holds numbers, or spells them, that need not be whole."""
    if column.dtype != pl.String:
        return _inner(column).is_float() or _inner(column) == pl.Decimal
    texts = column.filter(column.is_not_null() & (column != ""))
    numbers = texts.cast(pl.Float64, strict=False)
    return len(texts) > 0 and numbers.null_count() == 0 and bool((numbers % 1 != 0).any())


_CATEGORIES = ("categories", "category", "genres", "genre")
"""The names of a column of categories; the first that is there counts."""


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
        _require_values(frame[name], file.name, "a fact is a text, a number, a date, or a list")
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
        value = value.split(_SEVERAL)
    if isinstance(value, list):
        return [part for part in value if part not in (None, "")]
    return value


def _require_values(column: pl.Series, name: str, allowed: str) -> None:
    """Raise if a column holds neither values nor lists of values."""
    inner = _inner(column)
    if isinstance(inner, pl.Struct | pl.List | pl.Array) or inner in (pl.Object, pl.Binary):
        raise DataError(
            f"column {column.name!r} of {name} is of type {column.dtype}: {allowed}.",
            code="unsupported_type",
        )


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


def read_names(path: str | Path, column: str | None) -> dict[str, str]:
    """Return the name of each item by its id as text; items without a name are left out."""
    options = ReadOptions()
    file, frame = whole_table(path, options)
    key = id_column(frame.columns, options)
    named = column or _name_column([name for name in frame.columns if name != key])
    if named not in frame.columns:
        which = f"has no column {named!r}" if named else "has no column that looks like names"
        raise UsageError(
            f"{file.name} {which}. Columns: {', '.join(frame.columns)}. Name it with "
            "--name-column NAME.",
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
        what = f"ids in column {name!r} of {file}"
        raise not_ids(what, str(column.dtype), is_float=column.dtype.is_float())
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


def _name_column(names: Sequence[str]) -> str:
    """Return the column that holds names; an empty text if none looks like it."""
    alike = [n for known in _NAMES for n in names if n.lower().endswith(known)]
    return alike[0] if alike else names[0] if len(names) == 1 else ""


def text_of(path: str | Path, separator: str, options: ReadOptions) -> tuple[str, str]:
    """Return the name of a file and its text; raise if it is not UTF-8."""
    file = find_file(path, separator)
    with reading(file):
        content = b"".join(unpacked(file, options.unpack_limit))
    try:
        return file.name, content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file.name} is not UTF-8 text ({error.reason} at byte {error.start:,}). Save it as "
            "UTF-8.",
            code="bad_encoding",
        ) from error
