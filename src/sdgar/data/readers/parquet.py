"""Read the used columns of Parquet files, after a check that their sizes can be true.

Polars allocates as many bytes as a Parquet file states. A single damaged byte in the header of a
page can make it request 2^61 bytes, which ends the process instead of raising an error. So the
footer and the page headers of the requested columns are read here first, and every size is compared
with the bytes of the file. Damage within the values is left to Polars, which reports it.

Polars 2.1.0 still needs this: of 10,000 small files with damaged bytes, 4 ended the process with
"memory allocation of 2305843009213693952 bytes failed".

The metadata is in Thrift's compact protocol: https://parquet.apache.org/docs/file-format/metadata/
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import polars as pl
from polars.selectors import by_name

from sdgar.data.readers.chunks import Chunk, typed_chunk
from sdgar.data.readers.files import SourceFile, too_large
from sdgar.data.readers.problems import ProblemLog
from sdgar.errors import DataError

_CELL_BYTES = 16
"""The bytes that a value is taken to have when rows are counted off into blocks."""


class ParquetFile:
    """A file whose schema is known and whose rows are not read yet."""

    def __init__(self, file: SourceFile, limit: int) -> None:
        self._file = file
        self._limit = limit
        with _damage_named(file), file.path.open("rb") as stream:
            self._group_rows, self._columns = layout(stream)
            stream.seek(0)
            self.names = tuple(pl.read_parquet_schema(stream))

    def chunks(
        self, used: dict[str, str], log: ProblemLog, block_size: int | None = None
    ) -> Iterator[Chunk]:
        """Yield the used columns, as one chunk, or as chunks of about so many bytes."""
        names = list(dict.fromkeys(used.values()))
        if block_size is None:
            yield typed_chunk(self.frame(names), used, self._file.name)
            return
        self._check(names)
        for first, n_rows in self._blocks(max(1, block_size // (_CELL_BYTES * len(names)))):
            with _damage_named(self._file):
                # Columns are taken by place or selector: a name such as "*" stands for others.
                rows = pl.scan_parquet(self._file.path, glob=False).select(by_name(*names))
                frame = rows.slice(first, n_rows).collect()
            yield typed_chunk(frame, used, self._file.name, first + 1)

    def _blocks(self, most: int) -> Iterator[tuple[int, int]]:
        """Yield the first row and the number of rows of each block.

        A block is whole groups of rows, as they are unpacked as a whole, or a part of a large one.
        """
        first = held = 0
        for n_rows in self._group_rows:
            if held and held + n_rows > most:
                yield first, held
                first, held = first + held, 0
            held += n_rows
            while held > most:
                yield first, most
                first, held = first + most, held - most
        if held or not first:
            yield first, held

    def frame(self, names: Collection[str]) -> pl.DataFrame:
        """Return some columns as they are; raise if they unpack to more than is allowed."""
        self._check(names)
        with _damage_named(self._file), self._file.path.open("rb") as stream:
            places = [self.names.index(name) for name in names]
            return pl.read_parquet(stream, columns=places).select(by_name(*names))

    def _check(self, names: Collection[str]) -> None:
        """Raise if sizes cannot be true, or if some columns unpack to more than is allowed."""
        with _damage_named(self._file), self._file.path.open("rb") as stream:
            chunks = [chunk for chunk in self._columns if chunk.column in names]
            unpacked = unpacked_bytes(stream, chunks)
        if unpacked > self._limit:
            raise too_large(self._file, f"{unpacked:,} bytes", self._limit)


@contextmanager
def _damage_named(file: SourceFile) -> Iterator[None]:
    """Raise errors that name the file if it is damaged, also for a Rust panic."""
    try:
        yield
    except (Damaged, pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's fault, not the content's
        raise DataError(
            f"{file.name} is no complete Parquet file ({str(error).splitlines()[0]}). "
            "Copy or download it again.",
            code="bad_parquet",
        ) from error


_MAGIC = b"PAR1"
_TAIL = 8
_MAX_DEPTH = 16
_HEADER_BYTES = 1 << 10
_MAX_HEADER_BYTES = 16 << 20
_UNCOMPRESSED = 0
_DICTIONARY_PAGE = 2
_PAGE_DETAILS = {0: 5, _DICTIONARY_PAGE: 7, 3: 8}
"""The field of a page's header that describes it, by the kind of the page."""
_VALUE_BYTES = 8

Struct = dict[int, Any]


class Damaged(Exception):  # noqa: N818
    """Bytes that cannot be part of a whole Parquet file; the error never leaves this package."""


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """The pages of one column in one group of rows, as the footer describes them."""

    column: str
    """The name of the column."""
    compressed: bool
    """True if its pages are compressed."""
    n_values: int
    """The number of its values."""
    start: int
    """The first byte of its pages in the file."""
    end: int
    """The first byte behind its pages."""
    uncompressed: int
    """The bytes that its pages unpack to."""


def layout(stream: BinaryIO) -> tuple[list[int], list[ColumnChunk]]:
    """Return the number of rows of each group of rows, and all pages of columns in the groups."""
    footer_end = stream.seek(0, os.SEEK_END) - _TAIL
    tail = _bytes_at(stream, max(footer_end, 0), _TAIL)
    footer_start = footer_end - int.from_bytes(tail[:4], "little")
    is_framed = tail[4:] == _MAGIC and _bytes_at(stream, 0, 4) == _MAGIC
    if not is_framed or footer_start < len(_MAGIC):
        raise Damaged("it does not begin and end as Parquet files do")
    footer = _Compact(_bytes_at(stream, footer_start, footer_end - footer_start)).struct()
    groups = _structs(footer, 4)
    rows = [_count(group, 3) for group in groups]
    if sum(rows) != _count(footer, 3):
        raise Damaged("its groups of rows have another number of rows than the file")
    chunks = [
        _column_chunk(column, n_rows, footer_start)
        for group, n_rows in zip(groups, rows, strict=True)
        for column in _structs(group, 1)
    ]
    return rows, chunks


def _column_chunk(column: Struct, n_rows: int, footer_start: int) -> ColumnChunk:
    about = column.get(3, {})
    path = about.get(3) if isinstance(about, dict) else None
    if not isinstance(path, list) or not path or not isinstance(path[0], bytes):
        raise Damaged("a column is not described")
    n_values = _count(about, 5)
    if len(path) == 1 and n_values != n_rows:
        raise Damaged(f"column {path[0]!r} has {n_values:,} values for {n_rows:,} rows")
    # The words of a dictionary come first; without rows there may be nothing else.
    offsets = _count(about, 9), _count(about, 11) if 11 in about else 0
    start = min((offset for offset in offsets if offset), default=0)
    end = start + _count(about, 7)
    if start < end and (start < len(_MAGIC) or end > footer_start):  # no rows, no place
        raise Damaged(f"column {path[0]!r} lies outside of the file")
    name, compressed = path[0].decode("utf-8", "replace"), _count(about, 4) != _UNCOMPRESSED
    return ColumnChunk(name, compressed, n_values, start, end, _count(about, 6))


def unpacked_bytes(stream: BinaryIO, chunks: Collection[ColumnChunk]) -> int:
    """Check all pages of some columns; return the bytes that they unpack to."""
    for chunk in chunks:
        _check_pages(stream, chunk)
    # Repeated values are stored once, and unpacked each.
    return sum(max(chunk.uncompressed, chunk.n_values * _VALUE_BYTES) for chunk in chunks)


def _check_pages(stream: BinaryIO, chunk: ColumnChunk) -> None:
    """Check that the page headers of a chunk add up to what the footer says."""
    at, n_values, uncompressed = chunk.start, 0, 0
    while at < chunk.end:
        page, n_header = _page(stream, at, chunk.end)
        n_packed, n_unpacked = _count(page, 3), _count(page, 2)
        uncompressed += n_unpacked
        if not chunk.compressed and n_packed != n_unpacked:
            raise Damaged(f"the page at byte {at:,} has two sizes, {n_packed:,} and {n_unpacked:,}")
        if uncompressed > chunk.uncompressed:
            raise Damaged(f"the page at byte {at:,} unpacks to more bytes than its whole column")
        n_values += _n_values(page, n_unpacked)
        at += n_header + n_packed
    if at != chunk.end or n_values != chunk.n_values:
        raise Damaged(f"the pages of column {chunk.column!r} do not add up to what the footer says")


def _n_values(page: Struct, n_unpacked: int) -> int:
    """Return the number of values of a data page; a dictionary has none, but must fit its page."""
    kind = _count(page, 1)
    about = page.get(_PAGE_DETAILS.get(kind, 0))
    if not isinstance(about, dict):
        raise Damaged(f"a page of kind {kind} is not described")
    n_values = _count(about, 1)
    if kind != _DICTIONARY_PAGE:
        return n_values
    if n_values > n_unpacked:
        raise Damaged(f"a dictionary has {n_values:,} words in {n_unpacked:,} bytes")
    return 0


def _page(stream: BinaryIO, at: int, end: int) -> tuple[Struct, int]:
    """Return the header of a page, which may hold long texts, and its length."""
    n_bytes = _HEADER_BYTES
    while True:
        reader = _Compact(_bytes_at(stream, at, min(n_bytes, end - at)))
        try:
            return reader.struct(), reader.at
        except Damaged:
            n_bytes *= 16
            if n_bytes > _MAX_HEADER_BYTES:
                raise


def _bytes_at(stream: BinaryIO, at: int, n: int) -> bytes:
    stream.seek(at)
    return stream.read(n)


def _count(struct: Struct, field: int) -> int:
    """Return a number that counts something; raise if it is negative."""
    value = struct.get(field)
    if not isinstance(value, int) or value < 0:
        raise Damaged(f"a size or number is {value}")
    return value


def _structs(struct: Struct, field: int) -> list[Struct]:
    value = struct.get(field)
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise Damaged("a list of parts is missing")
    return value


class _Compact:
    """A reader of Thrift's compact protocol: a struct is a dict by the numbers of its fields."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self, depth: int = 0) -> Struct:
        """Return the fields of the struct that begins here."""
        found: Struct = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            # A field that is true or false has its value in its type.
            found[field] = kind == 1 if kind in (1, 2) else self._value(kind, depth + 1)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise Damaged("its description is nested too deeply")
        match kind:
            case 1 | 2 | 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._signed()
            case 7:
                return self._take(8)
            case 8:
                return self._take(self._varint())
            case 9 | 10:
                head = self._byte()
                length = head >> 4 if head >> 4 < 15 else self._varint()
                return [self._value(head & 15, depth + 1) for _ in range(self._fitting(length))]
            case 12:
                return self.struct(depth)
        raise Damaged(f"its description has a value of unknown type {kind}")

    def _signed(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise Damaged("a number in its description does not end")

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, n: int) -> bytes:
        self.at += self._fitting(n)
        return self._data[self.at - n : self.at]

    def _fitting(self, n: int) -> int:
        """Return a number of bytes or values, which cannot exceed that of the bytes left."""
        if n > len(self._data) - self.at:
            raise Damaged("its description is cut off")
        return n
