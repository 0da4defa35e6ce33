"""Chunks of an input: the used columns of some rows, and where each row came from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sdgar.data.ids import int_overflow, not_ids
from sdgar.data.numbers import BEYOND
from sdgar.data.readers.columns import FIELD, Role
from sdgar.data.readers.problems import RowPlace, shown
from sdgar.data.readers.times import YEAR_10000
from sdgar.errors import DataError

_SOME = 1000
"""The texts that are looked at before a whole column is."""


def spelled_integers(values: pl.Series, dtype: pl.DataType) -> pl.Series | None:
    """Return integers, or texts that spell them, as integers of a type; None if some are not."""
    is_text = values.dtype == pl.String
    for part in (values.head(_SOME), values) if is_text else (values,):
        integers = part.cast(dtype, strict=False)
        if integers.null_count() > part.null_count():
            return None
    # 007, +7 and -0 are read as integers, but are others as text.
    same = not is_text or (integers.cast(pl.String) == values).all()
    return integers if same else None


_YEAR_1 = -62_135_596_800_000_000
"""The beginning of the year 1, in microseconds from 1970."""
Types = dict[str, pl.DataType]
"""The type of each used column."""
FoundTypes = dict[str, dict[pl.DataType, str]]
"""The types that a column has in several chunks, with the source that has each first."""
ID_ROLES: tuple[Role, Role] = ("user", "item")


def is_id(role: str) -> bool:
    """Return whether the values of a part are ids, which are never parsed."""
    return role in ID_ROLES or role.startswith(FIELD)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of one source; the columns of ``frame`` are named by the part they play."""

    source: str
    """The name of the file or frame."""
    frame: pl.DataFrame
    """The used columns."""
    rows: range | NDArray[np.int64]
    """The line or row number of each row in its source."""
    unit: Literal["line", "row"] = "line"
    """Whether ``rows`` counts lines or rows."""


class Table:
    """All chunks as one frame, with the place where each row came from.

    ``types`` are the types of the columns, if the chunks are a part of an input. A column of
    ``untyped`` chunks is text, unless all of them have it as numbers.
    """

    def __init__(
        self, chunks: Sequence[Chunk], types: Types | None = None, *, untyped: bool = False
    ) -> None:
        self._chunks = chunks
        self._starts = np.cumsum([0] + [chunk.frame.height for chunk in chunks])
        if types is None:
            types = common_types(map(types_of, chunks), untyped=untyped)
        self.frame = pl.concat([_cast(chunk.frame, types) for chunk in chunks])

    def place(self, row: int, role: str, column: str) -> RowPlace:
        """Return where a row came from and the value of one of its columns."""
        at = int(np.searchsorted(self._starts, row, side="right")) - 1
        chunk = self._chunks[at]
        number = int(chunk.rows[row - int(self._starts[at])])
        value = _value(self.frame[role], row)
        return RowPlace(
            chunk.source, number, chunk.unit, column, shown("" if value is None else value)
        )


def _cast(frame: pl.DataFrame, types: Types) -> pl.DataFrame:
    """Return the columns of these types; Polars would copy texts where nothing is to be done."""
    if dict(frame.schema) == types:
        return frame
    return frame.select(pl.col(role).cast(dtype) for role, dtype in types.items())


def _value(column: pl.Series, row: int) -> Any:
    """Return the value of a row; Python has no dates before the year 1 or after 9999."""
    count = column.to_physical()[row] if column.dtype == pl.Datetime else None
    if count is None or _YEAR_1 <= count < YEAR_10000:
        return column[row]
    return f"{count:,} microseconds from 1970"


def typed_chunk(frame: pl.DataFrame, used: dict[str, str], source: str, first: int = 1) -> Chunk:
    """Return a chunk of a source that has types; the columns of ``frame`` still have its names.

    ``first`` is the number of its first row in the source.
    """
    columns = [
        _typed_ids(frame[name], source) if is_id(role) else _typed_values(frame[name], source, role)
        for role, name in used.items()
    ]
    parts = pl.DataFrame([column.alias(role) for column, role in zip(columns, used, strict=True)])
    return Chunk(source, parts, range(first, first + frame.height), "row")


def id_column(values: Sequence[Any], column: str, source: str) -> pl.Series:
    """Return a column of ids that are Python objects: all integers or all text, or None."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {str}:
        return _text(values, column, source)
    if kinds == {int, str}:
        number, text = (next(v for v in values if type(v) is kind) for kind in (int, str))
        raise DataError(
            f"column {column!r} of {source} mixes integers and text, such as {shown(number)} and "
            f"{shown(text)}: are 7 and '7' one id? Write all of them as text or all as integers.",
            code="mixed_ids",
        )
    if kinds != {int}:
        odd = next(kind for kind in kinds if kind not in (int, str))
        raise not_ids(
            f"ids in column {column!r} of {source}", odd.__name__, is_float="float" in odd.__name__
        )
    if all(v is None or -(2**63) <= v < 2**64 for v in values):
        return pl.Series(column, values, dtype=pl.Int128)
    raise int_overflow(f"integer ids in column {column!r} of {source}")


def value_column(values: Sequence[Any], column: str, source: str) -> pl.Series:
    """Return weights, ratings or times that are Python objects as the text a file would have."""
    texts = [v if v is None or isinstance(v, str) else str(v) for v in values]
    return _text(texts, column, source)


def _text(values: Sequence[str | None], column: str, source: str) -> pl.Series:
    try:
        return pl.Series(column, values, dtype=pl.String)
    except UnicodeEncodeError as error:
        raise DataError(
            f"column {column!r} of {source} has a text that is not Unicode: {error}.",
            code="bad_encoding",
        ) from error


def _typed_ids(ids: pl.Series, source: str) -> pl.Series:
    if ids.dtype.is_integer() or ids.dtype == pl.String:
        return ids
    if ids.dtype in (pl.Categorical, pl.Enum, pl.Null):
        return ids.cast(pl.String)
    what = f"ids in column {ids.name!r} of {source}"
    raise not_ids(what, str(ids.dtype), is_float=ids.dtype.is_float())


def _typed_values(values: pl.Series, source: str, role: str) -> pl.Series:
    dtype = values.dtype
    if role == "time" and dtype in (pl.Date, pl.Datetime):
        return _microseconds(values)
    if dtype == pl.Decimal or (role == "rating" and dtype == pl.Boolean):
        return values.cast(pl.Float64)
    if dtype in (pl.Categorical, pl.Enum) or (
        role == "kind" and (dtype.is_integer() or dtype == pl.Boolean)
    ):
        return values.cast(pl.String)
    if dtype == pl.Null:
        return values.cast(pl.String)
    if dtype.is_numeric() or dtype == pl.String:
        return values
    raise DataError(
        f"column {values.name!r} of {source} is of type {dtype}, which cannot be a {role}. "
        "Cast it to numbers (or a time to dates) where it is made.",
        code="unsupported_type",
    )


def _microseconds(dates: pl.Series) -> pl.Series:
    """Return dates in microseconds, and ``BEYOND`` for dates that int64 cannot count."""
    micros = dates.cast(pl.Datetime("us"), strict=False)
    beyond = micros.is_null() & dates.is_not_null()
    return micros.to_physical().set(beyond, BEYOND).cast(pl.Datetime("us"))


def types_of(chunk: Chunk) -> FoundTypes:
    """Return the type of each column that has a value in a chunk, and the source of the chunk."""
    return {
        column.name: {} if column.null_count() == len(column) else {column.dtype: chunk.source}
        for column in chunk.frame
    }


def common_types(found: Iterable[FoundTypes], *, untyped: bool = False) -> Types:
    """Return the types that hold the columns of all chunks exactly; raise if there is none.

    Integers in one chunk and text in another have none: 7 and '7' may be one id or two. In
    ``untyped`` chunks they are one, as all is text, and integers are as they were spelled.
    """
    return {
        role: pl.String() if untyped and pl.String() in types else _common_type(role, types)
        for role, types in all_types(found).items()
    }


def all_types(found: Iterable[FoundTypes]) -> FoundTypes:
    """Return the types of several chunks, each with the first source that has it."""
    together: FoundTypes = {}
    for types in found:
        for role, sources in types.items():
            first = together.setdefault(role, {})
            for dtype, source in sources.items():
                first.setdefault(dtype, source)
    return together


def _common_type(role: str, types: dict[pl.DataType, str]) -> pl.DataType:
    if len(types) < 2:
        return next(iter(types), pl.String())
    if all(dtype.is_integer() for dtype in types):
        return pl.Int128()
    if all(dtype.is_numeric() for dtype in types):
        return pl.Float64()
    (one, where), (other, elsewhere) = islice(types.items(), 2)
    raise DataError(
        f"the {role} column is {one} in {where} and {other} in {elsewhere}. "
        "Write it with one type everywhere.",
        code="mixed_ids" if where == elsewhere else "schema_mismatch",
    )
