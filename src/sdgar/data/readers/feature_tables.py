"""Read tables of features of users or items: first the id, then a column a feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from sdgar.data.features import Features
from sdgar.data.read_options import ReadOptions
from sdgar.data.readers.delimited import DelimitedFile
from sdgar.data.readers.files import SourceFile, find_files, reading, unpacked
from sdgar.data.readers.headers import check_distinct
from sdgar.data.readers.parquet import ParquetFile
from sdgar.data.readers.problems import MEANING, ProblemLog
from sdgar.errors import DataError

_SEVERAL = "|"


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
    if isinstance(frame[key].dtype, pl.List | pl.Struct | pl.Array) or frame[key].dtype.is_float():
        raise DataError(
            f"the first column of {file.name}, {key!r}, is of type {frame[key].dtype}, which "
            "cannot be ids. Put the column of the ids first.",
            code="unsupported_type",
        )
    bare = frame[key].is_null() | (frame[key].cast(pl.String) == "")
    if bare.any():
        raise DataError(
            f"row {int(bare.arg_true()[0]) + 1} of {file.name} has no id in its first column, "
            f"{key!r}.",
            code="missing_id",
        )
    json_lines = file.format == "json_lines"
    said = dict(kinds or {})
    cells = {}
    for name in columns:
        said[name] = said.get(name) or _kind(frame[name])
        cells[name] = _cells(frame[name], file.name, said[name], json_lines=json_lines)
    return Features.from_columns(frame[key].to_list(), cells, kinds=said)


def _kind(column: pl.Series) -> str:
    """Return what a column looks like: categories, numbers, or embeddings."""
    if isinstance(column.dtype, pl.List | pl.Array):
        return "embedding" if _inner(column).is_float() else "category"
    fractions = column.dtype.is_float() or column.dtype == pl.Decimal or _fractions(column)
    return "number" if fractions else "category"


def _inner(column: pl.Series) -> pl.DataType:
    """Return the type of the values of a column, which may stand in lists."""
    kind = column.dtype
    return kind.inner if isinstance(kind, pl.List | pl.Array) else kind  # type: ignore[return-value]


def whole_table(path: str | Path, options: ReadOptions) -> tuple[SourceFile, pl.DataFrame]:
    """Return a file with all its columns; those of delimited text are text."""
    file = find_files([path], options.separator, [])[0]
    with reading(file):
        return file, _frame(file, options)


def _frame(file: SourceFile, options: ReadOptions) -> pl.DataFrame:
    if file.format == "delimited":
        return _delimited(file, options)
    try:
        if file.format == "parquet":
            source = ParquetFile(file, options.unpack_limit)
            return source.frame(source.names)
        content = BytesIO(b"".join(unpacked(file, options.unpack_limit, [])))
        return pl.read_ndjson(content, infer_schema_length=None)
    except (pl.exceptions.PolarsError, DataError) as error:
        raise DataError(
            f"{file.name} is not a table that can be read: {error}", code="bad_table"
        ) from error


def _delimited(file: SourceFile, options: ReadOptions) -> pl.DataFrame:
    """Return all columns as text; the first line has their names."""
    source = DelimitedFile(file, options, [], one_column=True)
    _require_header(source.names, file.name)
    log = ProblemLog()
    found = [chunk.frame for chunk in source.chunks({n: n for n in source.names}, log, [])]
    if log.counts:
        problem = log.problems()[0]
        raise DataError(
            f"{file.name} is not a table that can be read, because of "
            f"{MEANING[problem.code]}: {problem.places[0].sentence()}.",
            code="bad_table",
        )
    return pl.concat(found)


def _require_header(names: Sequence[str], file: str) -> None:
    if names[0].lstrip("-").isdigit():
        raise DataError(
            f"the first line of {file} looks like data: {', '.join(names)[:80]}. A table has "
            "a header line.",
            code="no_header",
        )
    check_distinct(names)


def _cells(column: pl.Series, name: str, kind: str, *, json_lines: bool) -> list[Any]:
    """Return the cells of a column as its kind has them."""
    inner = _inner(column)
    if isinstance(inner, pl.Struct | pl.List | pl.Array) or inner in (pl.Object, pl.Binary):
        raise DataError(
            f"column {column.name!r} of {name} is of type {column.dtype}: a feature is a text, a "
            "number, or a list of these.",
            code="unsupported_type",
        )
    if kind == "category" and (inner.is_float() or inner == pl.Decimal or _fractions(column)):
        raise DataError(
            f"column {column.name!r} of {name} holds fractions, and every value would be a "
            "category of its own. Sort them into ranges first, or let them be numbers.",
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
        return [_several(cell) for cell in column.to_list()]
    return column.to_list()


def _number(cell: str | None) -> float | str | None:
    """Return the number that a text is, nothing for an empty one, and another text as it is."""
    if not cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return cell


def _several(cell: str | None) -> list[str]:
    return [part for part in (cell or "").split(_SEVERAL) if part]


def _fractions(column: pl.Series) -> bool:
    """Tell whether a column of text holds numbers, and not all of them are whole."""
    if column.dtype != pl.String:
        return False
    texts = column.filter(column.is_not_null() & (column != ""))
    numbers = texts.cast(pl.Float64, strict=False)
    return len(texts) > 0 and numbers.null_count() == 0 and bool((numbers % 1 != 0).any())
