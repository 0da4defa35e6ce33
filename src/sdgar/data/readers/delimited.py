"""Read CSV and TSV files: blocks without any doubt go to Polars, all others line by line."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import polars as pl

from sdgar import kernels
from sdgar.data.read_options import TWO_MARKS, ReadOptions
from sdgar.data.readers.chunks import Chunk
from sdgar.data.readers.columns import KNOWN, NUMBER, no_header, squash
from sdgar.data.readers.files import BLOCK_BYTES, GUESSED, SourceFile, unpacked
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
from sdgar.machine import cores

_STAND_IN = "\x1f"
"""The character (ASCII's own separator) that stands for a separator of two characters in Polars."""
_OF_NUMBERS = "0123456789-"
"""The separators that may also be a part of a number."""
_TEXTS = ("kind",)
"""The parts whose values are text, whatever they spell."""


class RegularBlocks:
    """The blocks of a file that can be read as a whole.

    Polars pads short records, cuts long ones and guesses about stray quotes, so it is only given
    blocks about which there is nothing to guess. ``kernels``, where they are given, look at the
    fields and read those columns that hold nothing but whole numbers; as text they would be spelled
    the same.
    """

    def __init__(self, layout: Layout, kernels: Any) -> None:
        self._layout = layout
        self._fields = sorted(set(layout.wanted.values()))
        mark = layout.separator
        self._kernels = None if len(mark) > 1 or mark in _OF_NUMBERS else kernels
        texts = {layout.wanted[role] for role in _TEXTS if role in layout.wanted}
        # Blocks are read side by side. A column that is text in one of them is text in all.
        self._is_text_C = np.array([field in texts for field in self._fields])

    def frame(self, block: bytes, last: bool) -> pl.DataFrame | None:
        """Return the rows of a block in which every line is one well-formed record, or None."""
        if last:
            block = block.rstrip(b"\r\n") + b"\n"
        if block.startswith((BOM, b"\n", b"\r")) or _has_overlong_line(block):
            return None
        if self._kernels is not None and b'"' not in block and block.endswith(b"\n"):
            columns = self._by_fields(block, self._kernels)
        else:
            columns = self._by_marks(block)
        if columns is None:
            return None
        place = self._fields.index
        wanted = self._layout.wanted.items()
        return pl.DataFrame({role: columns[place(field)] for role, field in wanted})

    def _by_fields(self, block: bytes, kernels: Any) -> list[pl.Series] | None:
        """Return the columns of a block without quotes; None if it is not regular."""
        layout = self._layout
        column_F = np.full(layout.n_fields, -1)
        column_F[self._fields] = np.arange(len(self._fields))
        byte_B = np.frombuffer(block, np.uint8)
        value_CN = np.empty((len(self._fields), kernels.count_lines(byte_B)), np.int64)
        found = kernels.read(
            byte_B,
            np.uint8(ord(layout.separator)),
            layout.n_fields,
            column_F,
            value_CN,
            self._is_text_C,
        )
        if found == kernels.UNEVEN or not (found == kernels.ASCII or _is_utf8(block)):
            return None
        texts = [field for c, field in enumerate(self._fields) if self._is_text_C[c]]
        text_of = dict(zip(texts, _texts(block, layout, texts, None), strict=True))
        return [
            text_of[field] if field in text_of else pl.Series(value_CN[c])
            for c, field in enumerate(self._fields)
        ]

    def _by_marks(self, block: bytes) -> list[pl.Series] | None:
        """Return the columns of a block as text; None if it is not regular."""
        layout = self._layout
        if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
            return None
        if not _is_utf8(block):
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
        return _texts(block, layout, self._fields, '"' if quoted else None) if regular else None


def _texts(
    block: bytes, layout: Layout, fields: list[int], quote_char: str | None
) -> list[pl.Series]:
    """Return some fields of a block as Polars reads them."""
    if not fields:
        return []
    frame = pl.read_csv(
        block,
        has_header=False,
        separator=layout.separator,
        quote_char=quote_char,
        schema={f"column_{at + 1}": pl.String for at in range(layout.n_fields)},
        columns=fields,
    )
    return [frame[f"column_{at + 1}"] for at in fields]


def _is_utf8(block: bytes) -> bool:
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
    """Return whether all lines of a block without quotes have as many fields as the layout."""
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


_HEAD = 2 * MAX_LINE
_DELIMITERS = (TWO_MARKS, "\t", ";", "|", ",")
_LINE = 16
"""The bytes of a line, by which it is guessed how many rows there are."""


class DelimitedFile:
    """A file whose first record names its columns, unless the caller does.

    ``n_bytes`` is the size of all files of an input, if their columns may come as the whole numbers
    that they spell: files of many rows do.
    """

    def __init__(
        self,
        file: SourceFile,
        options: ReadOptions,
        *,
        one_column: bool = False,
        n_bytes: int = 0,
    ) -> None:
        self._n_rows = n_bytes // _LINE
        self._limit = options.unpack_limit
        head, _ = next(blocks(unpacked(file, self._limit), BLOCK_BYTES))
        check_encoding(head, file.name)
        if file.separator == GUESSED:
            file = replace(file, separator=_separator(head))
        self._file = file
        self._skipped_bytes = len(BOM) if head.startswith(BOM) else 0
        self._skipped_lines = 0
        lines = head[self._skipped_bytes : _HEAD].splitlines(keepends=True)
        first, n_lines = _first_record(lines, file)
        if len(first) == 1 and not one_column:
            raise _one_column(first[0], file)
        _check_header(first, file.name, options)
        self.names = options.header_columns or tuple(first)
        if options.header_columns is None:
            self._skipped_lines = n_lines
            self._skipped_bytes += sum(map(len, lines[:n_lines]))

    def chunks(
        self, used: dict[str, str], log: ProblemLog, block_size: int | None = None
    ) -> Iterator[Chunk]:
        """Yield the used columns, as text, or as the whole numbers that it spells."""
        wanted = {role: self.names.index(name) for role, name in used.items()}
        layout = Layout(self._file.separator, len(self.names), wanted)
        line = self._skipped_lines + 1
        rest = b""
        compiled: Any = None
        if self._n_rows >= kernels.MANY_ROWS:
            compiled = import_module("sdgar.kernels.numba.fields")
        regular = RegularBlocks(layout, compiled)
        body = unpacked(self._file, self._limit)
        cut = blocks(_without_first(self._skipped_bytes, body), block_size or BLOCK_BYTES)
        for block, last, frame in _side_by_side(cut, regular):
            if rest:
                block = rest + block
                frame = regular.frame(block, last)
            if frame is not None:
                yield Chunk(self._file.name, frame, range(line, line + frame.height))
                line, rest = line + frame.height, b""
                continue
            columns, starts, taken, rest = scan(block, layout, line, self._file.name, log, last)
            frame = pl.DataFrame(columns, schema=dict.fromkeys(used, pl.String))
            yield Chunk(self._file.name, frame, np.array(starts, np.int64))
            line += taken


def _side_by_side(
    cut: Iterator[tuple[bytes, bool]], regular: RegularBlocks
) -> Iterator[tuple[bytes, bool, pl.DataFrame | None]]:
    """Yield each block, whether it is the last, and its rows if it is regular.

    Each thread reads a block; what comes is in the order of the file.
    """
    threads = cores.threads()
    waiting: deque[tuple[bytes, bool, Future[pl.DataFrame | None]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for block, last in cut:
            waiting.append((block, last, pool.submit(regular.frame, block, last)))
            while waiting and (last or len(waiting) > threads):
                earlier, is_last, frame = waiting.popleft()
                yield earlier, is_last, frame.result()


def check_encoding(head: bytes, source: str) -> None:
    """Raise if a file is UTF-16, by its byte order mark or by a zero in every other byte."""
    start = head[:4096]
    every_other = max(start[::2].count(0), start[1::2].count(0)) * 4 > len(start)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or every_other:
        raise DataError(
            f"{source} looks like UTF-16. Convert it to UTF-8: iconv -f UTF-16 -t UTF-8.",
            code="looks_like_utf16",
        )


def _check_header(first: Sequence[str], where: str, options: ReadOptions) -> None:
    """Raise if a header is data, or if data (with ``header_columns``) is a header."""
    line = ", ".join(first)[:80]
    if options.header_columns is None:
        chosen = options.user in first and options.item in first
        if all(NUMBER.fullmatch(name) for name in first) and not chosen:
            raise no_header(first, where)
        return
    expected = {squash(name) for name in options.header_columns}.union(*KNOWN.values())
    if any(squash(field) in expected for field in first):
        raise DataError(
            f"the first line of {where} looks like a header: {line}. "
            "Leave out --columns, which is for files without one.",
            code="unexpected_header",
        )
    if len(first) != len(options.header_columns):
        raise DataError(
            f"--columns names {len(options.header_columns)} columns, but the first line of "
            f"{where} has {len(first)} fields: {line}. Name every column, or check --delimiter.",
            code="columns_mismatch",
        )


def _separator(head: bytes) -> str:
    """Return the first usual separator that is in the first line, or a comma."""
    first = next((line for line in head.splitlines() if line.strip()), b"")
    return next((mark for mark in _DELIMITERS if mark.encode() in first), ",")


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
                f"{MEANING[broken.code]}: {shown(lines[at])}.",
                code=broken.code,
            ) from broken
        if fields:
            return fields, at + taken
    raise DataError(f"{file.name} has nothing but blank lines.", code="empty_input")


def _one_column(line: str, file: SourceFile) -> DataError:
    return DataError(
        f"{file.name} has one column if split at {file.separator!r}, and two are needed. "
        f"Its first line is {shown(line)}: name what is between its fields with --delimiter.",
        code="one_column",
    )
