"""Read CSV and TSV files: blocks without any doubt go to Polars, all others line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl

from sdgar.data.readers.chunks import Chunk
from sdgar.data.readers.files import BLOCK_BYTES, GUESSED, SourceFile, unpacked
from sdgar.data.readers.headers import check_header
from sdgar.data.readers.options import TWO_MARKS, ReadOptions
from sdgar.data.readers.problems import MEANING, ProblemLog, shown
from sdgar.data.readers.text_scan import (
    BOM,
    MAX_LINE,
    Broken,
    Layout,
    blocks,
    decoded,
    record,
    scan,
)
from sdgar.errors import DataError

_HEAD = 2 * MAX_LINE
_DELIMITERS = {TWO_MARKS: TWO_MARKS, "\t": "tab", ";": ";", "|": "|", ",": ","}
_STAND_IN = "\x1f"
"""The character (ASCII's own separator) that stands for a separator of two characters in Polars."""


class DelimitedFile:
    """A file whose first record names its columns, unless the caller does."""

    def __init__(
        self, file: SourceFile, options: ReadOptions, notes: list[str], *, one_column: bool = False
    ) -> None:
        self._limit = options.unpack_limit
        head, _ = next(blocks(unpacked(file, self._limit, []), BLOCK_BYTES))
        check_encoding(head, file.name)
        if file.separator == GUESSED:
            file = replace(file, separator=_separator(head))
        self._file = file
        self._skipped_bytes = len(BOM) if head.startswith(BOM) else 0
        self._skipped_lines = 0
        if self._skipped_bytes:
            notes.append(f"{file.name} begins with a byte order mark, which was left out.")
        lines = head[self._skipped_bytes : _HEAD].splitlines(keepends=True)
        first, n_lines = _first_record(lines, file)
        if len(first) == 1 and not one_column:
            raise _one_column(first[0], file)
        check_header(first, file.name, options)
        self.names = options.header_columns or tuple(first)
        if options.header_columns is None:
            self._skipped_lines = n_lines
            self._skipped_bytes += sum(map(len, lines[:n_lines]))

    def chunks(
        self, used: dict[str, str], log: ProblemLog, notes: list[str], block_size: int = BLOCK_BYTES
    ) -> Iterator[Chunk]:
        """Yield the used columns, as text."""
        wanted = {role: self.names.index(name) for role, name in used.items()}
        layout = Layout(self._file.separator, len(self.names), wanted)
        line = self._skipped_lines + 1
        rest = b""
        body = unpacked(self._file, self._limit, notes)
        for block, last in blocks(_without_first(self._skipped_bytes, body), block_size):
            block = rest + block
            frame = _regular_frame(block, layout, last)
            if frame is not None:
                yield Chunk(self._file.name, frame, range(line, line + frame.height))
                line, rest = line + frame.height, b""
                continue
            found = scan(block, layout, line, self._file.name, log, last)
            frame = pl.DataFrame(found.columns, schema=dict.fromkeys(used, pl.String))
            yield Chunk(self._file.name, frame, np.array(found.lines, np.int64))
            line, rest = line + found.taken, found.rest


def check_encoding(head: bytes, source: str) -> None:
    """Raise if a file is UTF-16, by its byte order mark or by a zero in every other byte."""
    start = head[:4096]
    every_other = max(start[::2].count(0), start[1::2].count(0)) * 4 > len(start)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or every_other:
        raise DataError(
            f"{source} looks like UTF-16. Convert it to UTF-8: iconv -f UTF-16 -t UTF-8.",
            code="looks_like_utf16",
        )


def _separator(head: bytes) -> str:
    """Return the first usual separator that is in the first line, or a comma."""
    first = next((line for line in head.splitlines() if line.strip()), b"")
    return next((mark for mark in _DELIMITERS if mark.encode() in first), ",")


def _regular_frame(block: bytes, layout: Layout, last: bool) -> pl.DataFrame | None:
    """Return the rows of a block in which every line is one well-formed record; None if any is not.

    Polars pads short records, cuts long ones and guesses about stray quotes, so it is only
    given blocks about which there is nothing to guess.
    """
    if last:
        block = block.rstrip(b"\r\n") + b"\n"
    if not _is_plain(block):
        return None
    if len(layout.separator) > 1:
        if b'"' in block or _STAND_IN.encode() in block:
            return None
        block = block.replace(layout.separator.encode(), _STAND_IN.encode())
        layout = replace(layout, separator=_STAND_IN)
    quoted = b'"' in block and _opening_quote(layout.separator).search(block) is not None
    if quoted:
        regular = _records(layout.separator, layout.n_fields).fullmatch(block) is not None
    else:
        regular = _has_even_fields(block, layout)
    if not regular:
        return None
    frame = pl.read_csv(
        block,
        has_header=False,
        separator=layout.separator,
        quote_char='"' if quoted else None,
        schema={f"column_{at + 1}": pl.String for at in range(layout.n_fields)},
        columns=sorted(set(layout.wanted.values())),
    )
    wanted = layout.wanted.items()
    return frame.select(pl.col(f"column_{at + 1}").alias(role) for role, at in wanted)


def _is_plain(block: bytes) -> bool:
    """Tell whether a block is UTF-8 whose lines end with LF or CRLF and are not too long."""
    if block.startswith((BOM, b"\n", b"\r")):
        return False
    if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
        return False
    if _has_overlong_line(block):
        return False
    try:
        return block.isascii() or bool(block.decode())
    except UnicodeDecodeError:
        return False


def _has_overlong_line(block: bytes) -> bool:
    start = 0
    while len(block) - start > MAX_LINE:
        start = block.rfind(b"\n", start, start + MAX_LINE + 1) + 1
        if start == 0:
            return True
    return False


def _has_even_fields(block: bytes, layout: Layout) -> bool:
    """Tell whether all lines of a block without quotes have as many fields as the layout."""
    data = np.frombuffer(block, np.uint8)
    is_end = data[(data == ord(layout.separator)) | (data == ord("\n"))] == ord("\n")
    n_lines = np.count_nonzero(is_end)
    last_in_line = is_end[layout.n_fields - 1 :: layout.n_fields]
    return len(is_end) == n_lines * layout.n_fields and bool(last_in_line.all())


@cache
def _opening_quote(separator: str) -> re.Pattern[bytes]:
    return re.compile(rb'(?:^|\n|%b)"' % re.escape(separator.encode()))


@cache
def _records(separator: str, n_fields: int) -> re.Pattern[bytes]:
    """Return a pattern of records of one line each, possessive: a mismatch costs no second look."""
    mark = re.escape(separator.encode())
    in_quotes = rb'"[^"\r\n]*+(?:""[^"\r\n]*+)*+"'
    field = rb'(?:%b|[^"\r\n%b]*+)' % (in_quotes, mark)
    return re.compile(rb"(?:(?:%b%b){%d}%b\r?\n)*+" % (field, mark, n_fields - 1, field))


def _without_first(n_bytes: int, stream: Iterator[bytes]) -> Iterator[bytes]:
    for part in stream:
        yield part[n_bytes:]
        n_bytes = max(0, n_bytes - len(part))


def _first_record(lines: list[bytes], file: SourceFile) -> tuple[list[str], int]:
    """Return the fields of the first record, and the number of lines up to its end."""
    for at in range(len(lines)):
        try:
            raw, taken = record(lines, at, file.separator, last=True)
            fields = decoded(raw)
        except Broken as broken:
            raise DataError(
                f"{file.name}, line {at + 1}: the header cannot be read, because of "
                f"{MEANING[broken.code]}: {shown(lines[at])}."
                f"{_other_separator(shown(lines[at]), file)}",
                code=broken.code,
            ) from broken
        if fields:
            return fields, at + taken
    raise DataError(f"{file.name} has nothing but blank lines.", code="empty_input")


def _one_column(line: str, file: SourceFile) -> DataError:
    return DataError(
        f"{file.name} has one column if split at {file.separator!r}, and two are needed. "
        f"Its first line is {shown(line)}.{_other_separator(line, file)}",
        code="one_column",
    )


def _other_separator(line: str, file: SourceFile) -> str:
    """Return a hint if a line has another of the usual separators; empty if not."""
    seen = [name for mark, name in _DELIMITERS.items() if mark in line and mark != file.separator]
    return f" It may be delimited by {seen[0]!r}: try --delimiter {seen[0]!r}." if seen else ""
