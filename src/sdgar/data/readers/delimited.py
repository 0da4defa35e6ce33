"""Read CSV and TSV files: blocks without any doubt go to Polars, all others line by line."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import polars as pl

from sdgar.data.read_options import TWO_MARKS, ReadOptions
from sdgar.data.readers.chunks import Chunk
from sdgar.data.readers.files import BLOCK_BYTES, GUESSED, SourceFile, unpacked
from sdgar.data.readers.headers import check_header
from sdgar.data.readers.problems import MEANING, ProblemLog, shown
from sdgar.data.readers.regular import RegularBlocks
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
from sdgar.kernels.optional import kernels_for
from sdgar.machine import cores

_HEAD = 2 * MAX_LINE
_DELIMITERS = {TWO_MARKS: TWO_MARKS, "\t": "tab", ";": ";", "|": "|", ",": ","}
_LINE = 16
"""The bytes of a line, by which it is guessed how many rows there are."""


class DelimitedFile:
    """A file whose first record names its columns, unless the caller does.

    ``n_bytes`` is the size of all files of an input, if their columns may come as the whole numbers
    that they spell: those of many rows do.
    """

    def __init__(
        self,
        file: SourceFile,
        options: ReadOptions,
        notes: list[str],
        *,
        one_column: bool = False,
        n_bytes: int = 0,
    ) -> None:
        self._n_rows = n_bytes // _LINE
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
        """Yield the used columns, as text, or as the whole numbers that it spells."""
        wanted = {role: self.names.index(name) for role, name in used.items()}
        layout = Layout(self._file.separator, len(self.names), wanted)
        line = self._skipped_lines + 1
        rest = b""
        kernels = kernels_for("fields", self._n_rows) if self._n_rows else None
        regular = RegularBlocks(layout, kernels)
        body = unpacked(self._file, self._limit, notes)
        cut = blocks(_without_first(self._skipped_bytes, body), block_size)
        read = _in_turn if kernels is None else _side_by_side
        for block, last, frame in read(cut, regular):
            if rest:
                block = rest + block
                frame = regular.frame(block, last)
            if frame is not None:
                yield Chunk(self._file.name, frame, range(line, line + frame.height))
                line, rest = line + frame.height, b""
                continue
            found = scan(block, layout, line, self._file.name, log, last)
            frame = pl.DataFrame(found.columns, schema=dict.fromkeys(used, pl.String))
            yield Chunk(self._file.name, frame, np.array(found.lines, np.int64))
            line, rest = line + found.taken, found.rest


_Read = tuple[bytes, bool, pl.DataFrame | None]
"""A block, whether it is the last, and its rows if it is regular."""


def _in_turn(cut: Iterator[tuple[bytes, bool]], regular: RegularBlocks) -> Iterator[_Read]:
    for block, last in cut:
        yield block, last, regular.frame(block, last)


def _side_by_side(cut: Iterator[tuple[bytes, bool]], regular: RegularBlocks) -> Iterator[_Read]:
    """Read a block in each thread; what comes is in the order of the file."""
    threads = cores.threads()
    waiting: deque[tuple[bytes, bool, Future[pl.DataFrame | None]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for block, last in cut:
            waiting.append((block, last, pool.submit(regular.frame, block, last)))
            if len(waiting) > threads:
                yield _done(waiting)
        while waiting:
            yield _done(waiting)


def _done(waiting: deque[tuple[bytes, bool, Future[pl.DataFrame | None]]]) -> _Read:
    block, last, frame = waiting.popleft()
    return block, last, frame.result()


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
