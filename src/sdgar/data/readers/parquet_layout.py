"""Find the parts of a Parquet file, and check that their sizes can be true.

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
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, BinaryIO

_MAGIC = b"PAR1"
_TAIL = 8
_MAX_DEPTH = 16
_HEADER_BYTES = 1 << 10
_MAX_HEADER_BYTES = 16 << 20
_UNCOMPRESSED = 0
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
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

    @property
    def unpacked(self) -> int:
        """The most bytes that the values take; repeated values are stored once."""
        return max(self.uncompressed, self.n_values * _VALUE_BYTES)


@dataclass(frozen=True, slots=True)
class Layout:
    """The parts of a file, as its footer describes them."""

    group_rows: list[int]
    """The number of rows of each group of rows."""
    chunks: list[ColumnChunk]
    """The pages of each column in each of these groups."""

    def of(self, columns: Collection[str]) -> list[ColumnChunk]:
        """Return the pages of some columns."""
        return [chunk for chunk in self.chunks if chunk.column in columns]


def layout(stream: BinaryIO) -> Layout:
    """Read the footer of a file."""
    size = stream.seek(0, os.SEEK_END)
    tail = _bytes_at(stream, max(size - _TAIL, 0), _TAIL)
    footer_end = size - _TAIL
    n_footer = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or _bytes_at(stream, 0, 4) != _MAGIC or n_footer > footer_end - 4:
        raise Damaged("it does not begin and end as Parquet files do")
    footer_start = footer_end - n_footer
    footer = _Compact(_bytes_at(stream, footer_start, n_footer)).struct()
    groups = _structs(footer, 4)
    rows = [_whole(group, 3) for group in groups]
    if sum(rows) != _whole(footer, 3):
        raise Damaged("its groups of rows have another number of rows than the file")
    chunks = [
        _column_chunk(column, group, footer_start)
        for group in groups
        for column in _structs(group, 1)
    ]
    return Layout(rows, chunks)


def unpacked_bytes(stream: BinaryIO, chunks: Collection[ColumnChunk]) -> int:
    """Check all pages of some columns; return the bytes that they unpack to."""
    for chunk in chunks:
        _check_pages(stream, chunk)
    return sum(chunk.unpacked for chunk in chunks)


def _check_pages(stream: BinaryIO, chunk: ColumnChunk) -> None:
    """Check that the page headers of a chunk add up to what the footer says."""
    at, n_values, uncompressed = chunk.start, 0, 0
    while at < chunk.end:
        page, n_header = _page(stream, at, chunk.end)
        n_packed, n_unpacked = _whole(page, 3), _whole(page, 2)
        uncompressed += n_unpacked
        if not chunk.compressed and n_packed != n_unpacked:
            raise Damaged(f"the page at byte {at:,} has two sizes, {n_packed:,} and {n_unpacked:,}")
        if uncompressed > chunk.uncompressed:
            raise Damaged(
                f"the page at byte {at:,} unpacks to {n_unpacked:,} bytes, and its whole column to "
                f"{chunk.uncompressed:,}"
            )
        n_values += _n_values(page, n_unpacked)
        at += n_header + n_packed
    if at != chunk.end or n_values != chunk.n_values:
        raise Damaged(
            f"the pages of column {chunk.column!r} hold {n_values:,} values and end at byte "
            f"{at:,}; the footer says {chunk.n_values:,} and {chunk.end:,}"
        )


def _column_chunk(column: Struct, group: Struct, footer_start: int) -> ColumnChunk:
    about = column.get(3)
    if not isinstance(about, dict):
        raise Damaged("a column is not described")
    path = about.get(3)
    if not isinstance(path, list) or not path or not isinstance(path[0], bytes):
        raise Damaged("a column has no name")
    n_values = _whole(about, 5)
    if len(path) == 1 and n_values != _whole(group, 3):
        raise Damaged(f"column {path[0]!r} has {n_values:,} values for {_whole(group, 3):,} rows")
    # The words of a dictionary come first; without rows there may be nothing else.
    offsets = _whole(about, 9), _whole(about, 11) if 11 in about else 0
    start = min((offset for offset in offsets if offset), default=0)
    end = start + _whole(about, 7)
    if start < end and (start < len(_MAGIC) or end > footer_start):  # no rows, no place
        raise Damaged(f"column {path[0]!r} lies outside of the file")
    return ColumnChunk(
        column=path[0].decode("utf-8", "replace"),
        compressed=_whole(about, 4) != _UNCOMPRESSED,
        n_values=n_values,
        start=start,
        end=end,
        uncompressed=_whole(about, 6),
    )


def _n_values(page: Struct, n_unpacked: int) -> int:
    """Return the number of values of a data page; a dictionary has none, but must fit its page."""
    kind = _whole(page, 1)
    about = page.get({_DATA_PAGE: 5, _DICTIONARY_PAGE: 7, _DATA_PAGE_V2: 8}.get(kind, 0))
    if not isinstance(about, dict):
        raise Damaged(f"a page of kind {kind} is not described")
    n_values = _whole(about, 1)
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


def _whole(struct: Struct, field: int) -> int:
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
        readers: dict[int, Callable[[int], Any]] = {
            3: lambda _: self._byte(),
            **dict.fromkeys((4, 5, 6), lambda _: self._signed()),
            7: lambda _: self._take(8),
            8: lambda _: self._take(self._varint()),
            **dict.fromkeys((9, 10), self._list),
            11: self._map,
            12: self.struct,
        }
        self._readers = readers

    def struct(self, depth: int = 0) -> Struct:
        """Return the fields of the struct that begins here."""
        if depth > _MAX_DEPTH:
            raise Damaged("its description is nested too deeply")
        found: Struct = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            # A field that is true or false has its value in its type.
            found[field] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind not in self._readers:
            raise Damaged(f"its description has a value of unknown type {kind}")
        return self._readers[kind](depth + 1)

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        n = head >> 4 if head >> 4 < 15 else self._varint()
        kind = 3 if head & 15 in (1, 2) else head & 15
        self._require(n)
        return [self._value(kind, depth) for _ in range(n)]

    def _map(self, depth: int) -> None:
        n = self._varint()
        self._require(n)
        kinds = self._byte() if n else 0
        for _ in range(n):
            self._value(kinds >> 4, depth)
            self._value(kinds & 15, depth)

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
        at = self.at
        if at == len(self._data):
            raise _cut_off()
        self.at = at + 1
        return self._data[at]

    def _take(self, n: int) -> bytes:
        self._require(n)
        self.at += n
        return self._data[self.at - n : self.at]

    def _require(self, n: int) -> None:
        if n > len(self._data) - self.at:
            raise _cut_off()


def _cut_off() -> Damaged:
    return Damaged("its description is cut off")
