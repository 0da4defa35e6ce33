"""Read delimited text record by record: slow, and exact about lines.

A record whose quotes cannot be matched costs one line: reading continues at the line after the
one where it began, so that a stray quote does not swallow the rest of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sdgar.data.readers.problems import ProblemLog, RowPlace, shown

MAX_LINE = 1 << 20
BOM = b"\xef\xbb\xbf"

_LINE_END = re.compile(rb"[\r\n]")


class Broken(Exception):  # noqa: N818
    """A record that cannot be read; the error never leaves this package."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail


class Unfinished(Exception):  # noqa: N818
    """The error for lines that end within quotes, when more lines may follow."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The form of a record, and the positions of the wanted fields."""

    separator: str
    """The characters between fields."""
    n_fields: int
    """The number of fields of a record."""
    wanted: dict[str, int]
    """The position of each wanted field, by the part it plays."""


def blocks(stream: Iterable[bytes], size: int) -> Iterator[tuple[bytes, bool]]:
    """Cut bytes at line ends into blocks of about ``size``; yield each and whether it is the last.

    A line is kept only up to the byte that makes it too long, so that a file without line
    ends takes no more memory than one with them.
    """
    held = b""
    overlong = False
    for part in stream:
        if overlong:
            end = _LINE_END.search(part)
            if end is None:
                continue
            part = part[end.start() :]
            overlong = False
        cut = _last_line_end(part) if b"\n" in part else 0
        if cut and len(held) + len(part) >= size:  # what is held is copied only once
            yield b"".join((held, memoryview(part)[:cut])), False
            held = part[cut:]
        else:
            held += part
            if len(held) < size:
                continue
            cut = _last_line_end(held)
            if cut:
                yield held[:cut], False
            held = held[cut:]
        if len(held) > MAX_LINE + 2:
            overlong = not held.endswith(b"\r")
            held = held[: MAX_LINE + 2] + (b"" if overlong else b"\r")
    yield held, True


def scan(
    block: bytes, layout: Layout, first_line: int, source: str, log: ProblemLog, last: bool
) -> tuple[dict[str, list[str]], list[int], int, bytes]:
    """Read a block that begins at a line of its file; broken records go to the log.

    Return the wanted fields of the good records by the part they play, the line at which each
    record began, the number of lines that are read, and the beginning of a record that ends in the
    next block.
    """
    lines = block.splitlines(keepends=True)
    columns: dict[str, list[str]] = {role: [] for role in layout.wanted}
    starts: list[int] = []
    at, rest = 0, b""
    while at < len(lines):
        taken = 1
        try:
            raw, taken = record(lines, at, layout.separator, last)
            fields = decoded(raw)
            if fields and len(fields) != layout.n_fields:
                raise Broken("field_count", f"{len(fields)} fields, {layout.n_fields} expected")
        except Unfinished:
            rest = b"".join(lines[at:])
            break
        except Broken as broken:
            value = shown(lines[at].rstrip(b"\r\n"))
            place = RowPlace(source, first_line + at, "line", None, value, broken.detail)
            log.add(broken.code, [place])
        else:
            if fields:
                starts.append(first_line + at)
                for role, position in layout.wanted.items():
                    columns[role].append(fields[position])
        at += taken
    return columns, starts, at, rest


def record(lines: list[bytes], at: int, separator: str, last: bool) -> tuple[list[bytes], int]:
    """Return the fields of the record at a line (none if it is blank), and its number of lines."""
    bare = lines[at].rstrip(b"\r\n")
    if len(bare) > MAX_LINE:
        raise Broken("line_too_long")
    if b'"' in bare:
        return _quoted_record(lines, at, separator.encode(), last)
    return (bare.split(separator.encode()) if bare else []), 1


def decoded(fields: list[bytes]) -> list[str]:
    """Return the fields as text."""
    try:
        return [field.decode() for field in fields]
    except UnicodeDecodeError as error:
        raise Broken("bad_encoding", f"byte 0x{error.object[error.start]:02x}") from error


def _quoted_record(
    lines: list[bytes], start: int, mark: bytes, last: bool
) -> tuple[list[bytes], int]:
    """Return a record with quotes, which may run over several lines (RFC 4180)."""
    text = bytearray(lines[start])
    taken = 1
    at = 0
    fields: list[bytes] = []
    while True:
        if text[at : at + 1] == b'"':
            close = text.find(b'"', at + 1)
            while close < 0 or text[close + 1 : close + 2] == b'"':
                if close >= 0:  # a doubled quote stands for one quote
                    close = text.find(b'"', close + 2)
                    continue
                searched = len(text)
                text += _next_line(lines, start + taken, searched, last)
                taken += 1
                close = text.find(b'"', searched)
            fields.append(bytes(text[at + 1 : close]).replace(b'""', b'"'))
            at = close + 1
        else:
            end = text.find(mark, at)
            end = end if end >= 0 else len(text.rstrip(b"\r\n"))
            fields.append(bytes(text[at:end]))
            at = end
        if text[at : at + len(mark)] != mark:
            break
        at += len(mark)
    if text[at:].rstrip(b"\r\n"):
        raise Broken("bad_quoting")
    return fields, taken


def _next_line(lines: list[bytes], at: int, length: int, last: bool) -> bytes:
    if length > MAX_LINE or (last and at == len(lines)):
        raise Broken("unterminated_quote")
    if at == len(lines):
        raise Unfinished
    return lines[at]


def _last_line_end(held: bytes) -> int:
    """Return where the last complete line ends; a CR at the very end may be half of a CRLF."""
    newline = held.rfind(b"\n") + 1
    return max(newline, held.rfind(b"\r", newline, len(held) - 1) + 1)
