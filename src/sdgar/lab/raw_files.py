"""Read published raw files: unpack them, and turn their lines into rows.

Nothing is unpacked to a file: one expected member is read as a stream. Each format is a pattern
that a line must match in full: nothing is guessed, padded or cut, and malformed lines are named.
"""

from __future__ import annotations

import errno
import gzip
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias, cast

import polars as pl

from sdgar.errors import DataError, UsageError
from sdgar.lab.datasets import FormatName
from sdgar.storage.files import disk_error
from sdgar.storage.sealed import NotAFileError, open_file

MAX_UNPACKED_BYTES = 8 << 30
"""The most bytes that a file may unpack to: twice the size of Echonest, the largest."""
MAX_LINE_BYTES = 1 << 20
_BLOCK_BYTES = 16 << 20
_BROKEN = (
    gzip.BadGzipFile,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)
"""The errors that gzip and zipfile raise for damaged, encrypted or unusual files."""

_INTEGER = "(?:0|[1-9][0-9]{0,17})"  # fits int64, and has one spelling only
_TEXT = "[!#-+\\--~]{1,256}"  # printable ASCII without blank, comma and quote
_SECONDS = "[0-9]{1,10}"

Parser: TypeAlias = "Callable[[pl.DataFrame], ParsedLines]"


@dataclass(frozen=True, slots=True)
class ParsedLines:
    """The rows that some lines hold."""

    good: pl.DataFrame
    """The columns user, item and, if the format has them, score, weight and timestamp (µs)."""
    bad: pl.DataFrame
    """The number and the text of each malformed line."""


@dataclass(frozen=True, slots=True)
class RawFormat:
    """The way in which one publisher writes interactions."""

    layout: str
    """A line of the file in words, for error messages."""
    parse: Parser
    """The function from a frame of (number, line) to rows."""


def read_blocks(raw: Path, member: str | None = None) -> Iterator[bytes]:
    """Yield the content of a file, unpacked; its first bytes, not its name, say how it is packed.

    ``member`` is the only file of a zip archive that is read.
    """
    total = 0
    try:
        with ExitStack() as stack:
            stream = _unpacked(stack.enter_context(open_file(raw)), raw, member, stack)
            while block := stream.read(_BLOCK_BYTES):
                total += len(block)
                if total > MAX_UNPACKED_BYTES:
                    raise _refused(raw, f"it unpacks to more than {MAX_UNPACKED_BYTES:,} bytes")
                yield block
    except _BROKEN as error:
        raise _damaged(raw, error) from error
    except FileNotFoundError as error:
        raise UsageError(f"{raw}: there is no such file.", code="no_such_file") from error
    except NotAFileError as error:
        raise UsageError(
            f"{raw} is not what the publisher offers: {error}. Name the raw file itself.",
            code="not_a_file",
        ) from error
    except OSError as error:
        # zipfile seeks to any offset that a damaged directory names, even before the start.
        damaged = error.errno == errno.EINVAL
        raise (_damaged if damaged else disk_error)(raw, error) from error


def _unpacked(file: IO[bytes], raw: Path, member: str | None, stack: ExitStack) -> IO[bytes]:
    """Return a stream of the content of a plain file, a gzip file or one member of a zip file."""
    start = file.read(4)
    file.seek(0)
    if start[:2] == b"\x1f\x8b":
        return cast("IO[bytes]", stack.enter_context(gzip.open(file)))
    if start not in (b"PK\x03\x04", b"PK\x05\x06"):
        return file
    if member is None:
        raise _refused(raw, "a plain file is expected here. Unpack it and name the file in it")
    archive = stack.enter_context(zipfile.ZipFile(file))
    names = archive.namelist()
    if names.count(member) != 1:
        found = ", ".join(map(repr, names[:5])) or "nothing"
        raise _refused(raw, f"it must have one member {member!r}, and has {found}")
    return stack.enter_context(archive.open(member))


def _refused(raw: Path, why: str) -> DataError:
    return DataError(
        f"{raw}: the archive is refused: {why}. Check where it came from.", code="unsafe_archive"
    )


def _damaged(raw: Path, error: Exception) -> DataError:
    return DataError(
        f"{raw}: the archive is damaged or cut short ({error}). Download it again.",
        code="bad_archive",
    )


def numbered_lines(blocks: Iterable[bytes]) -> Iterator[pl.DataFrame]:
    """Cut blocks at line ends into frames of (number, line), numbered from 1."""
    number, rest = 1, b""
    for block in blocks:
        whole, newline, rest = (rest + block).rpartition(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            at = number + (whole + newline).count(b"\n")
            raise DataError(
                f"line {at} has more than {MAX_LINE_BYTES:,} bytes. Is this the right file?",
                code="line_too_long",
            )
        if newline:
            frame = _frame(whole, number)
            number += frame.height
            yield frame
    if rest:
        yield _frame(rest, number)


def _frame(whole: bytes, number: int) -> pl.DataFrame:
    # The published files are ASCII. Latin-1 accepts any byte, so that a damaged line fails its
    # pattern and is reported by number, instead of ending the read as an encoding error.
    text = pl.Series("line", [whole.decode("latin-1")])
    lines = text.str.split("\n").explode().str.strip_suffix("\r")
    return lines.to_frame().with_row_index("number", offset=number)


def _pattern(pattern: str, **columns: pl.Expr) -> Parser:
    """Return a parser of lines that are one row each; the named groups become ``columns``."""

    def parse(lines: pl.DataFrame) -> ParsedLines:
        table = (
            lines.with_columns(pl.col("line").str.extract_groups(f"^{pattern}$").alias("group"))
            .unnest("group")
            .with_columns(**columns)
        )
        bad = pl.any_horizontal(pl.col(list(columns)).is_null())
        return ParsedLines(
            good=table.filter(~bad).select(list(columns)),
            bad=table.filter(bad).select("number", "line"),
        )

    return parse


def _parse_libraries(lines: pl.DataFrame) -> ParsedLines:
    """Parse lines of one user each, numbered from 0: the number of articles, then their ids."""
    shape = f"^{_INTEGER}(?: {_INTEGER})*$"
    ids = pl.col("line").str.split(" ").cast(pl.List(pl.Int64), strict=False)
    table = lines.with_columns(
        pl.when(pl.col("line").str.contains(shape)).then(ids).alias("ids")
    ).with_columns(
        (pl.col("ids").list.first() == pl.col("ids").list.len() - 1).fill_null(False).alias("fits")
    )
    good = table.filter("fits").select(
        user=pl.col("number").cast(pl.Int64) - 1, item=pl.col("ids").list.slice(1)
    )
    # An empty library has no row; Polars 1 would explode it to a row without an item.
    return ParsedLines(
        good=good.filter(pl.col("item").list.len() > 0).explode("item"),
        bad=table.filter(~pl.col("fits")).select("number", "line"),
    )


_integer_ids = {"user": pl.col("user").cast(pl.Int64), "item": pl.col("item").cast(pl.Int64)}
_text_ids = {"user": pl.col("user"), "item": pl.col("item")}
_score = pl.col("score").cast(pl.Float64)
_seconds = pl.col("timestamp").cast(pl.Int64) * 1_000_000

FORMATS: dict[FormatName, RawFormat] = {
    "libraries": RawFormat(
        layout="a count, then that many article ids, separated by single blanks",
        parse=_parse_libraries,
    ),
    "check_ins": RawFormat(
        layout="user, time as 2010-10-19T23:55:27Z, latitude, longitude, location, "
        "separated by tabs",
        # The coordinates are not used, so an odd one is no reason to refuse a check-in.
        parse=_pattern(
            rf"(?P<user>{_INTEGER})\t(?P<timestamp>[0-9T:-]{{19}}Z)\t[^\t]*\t[^\t]*\t(?P<item>{_INTEGER})",
            **_integer_ids,
            timestamp=pl.col("timestamp")
            .str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_unit="us", strict=False)
            .cast(pl.Int64),
        ),
    ),
    "movielens_ratings": RawFormat(
        layout="UserID::MovieID::Rating::Timestamp with ratings 0.5, 1, … 5",
        parse=_pattern(
            rf"(?P<user>{_INTEGER})::(?P<item>{_INTEGER})"
            rf"::(?P<score>0\.5|[1-4](?:\.[05])?|5(?:\.0)?)::(?P<timestamp>{_SECONDS})",
            **_integer_ids,
            score=_score,
            timestamp=_seconds,
        ),
    ),
    "amazon_ratings": RawFormat(
        layout="user,item,rating,timestamp with ratings 1.0 to 5.0",
        parse=_pattern(
            rf"(?P<user>{_TEXT}),(?P<item>{_TEXT}),(?P<score>[1-5](?:\.0)?),(?P<timestamp>{_SECONDS})",
            **_text_ids,
            score=_score,
            timestamp=_seconds,
        ),
    ),
    "play_counts": RawFormat(
        layout="user, song, play count from 1, separated by tabs",
        parse=_pattern(
            rf"(?P<user>{_TEXT})\t(?P<item>{_TEXT})\t(?P<weight>[1-9][0-9]{{0,8}})",
            **_text_ids,
            weight=pl.col("weight").cast(pl.Float64),
        ),
    ),
}
"""The formats of the paper's data sets."""
