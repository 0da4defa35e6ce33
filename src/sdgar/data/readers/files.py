"""Find and check input files, decompress them in bounded memory, and notice changes."""

from __future__ import annotations

import glob
import os
import stat
import sys
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from sdgar.errors import DataError, ResourceError, UsageError, did_you_mean

Format = Literal["delimited", "json_lines", "parquet"]
Compression = Literal["gzip", "zstd"]

BLOCK_BYTES = 8 << 20
"""The bytes that are decompressed and parsed at a time."""
GUESSED = ""
"""The separator of files whose extension does not imply one; it is taken from their first line."""
_PACKED = 1 << 20
_EXTENSIONS: dict[str, tuple[Format, str]] = {
    ".csv": ("delimited", ","),
    ".tsv": ("delimited", "\t"),
    ".inter": ("delimited", "\t"),
    ".dat": ("delimited", GUESSED),
    ".data": ("delimited", GUESSED),
    ".jsonl": ("json_lines", ""),
    ".json": ("json_lines", ""),
    ".ndjson": ("json_lines", ""),
    ".parquet": ("parquet", ""),
}
_COMPRESSED: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd"}
_MAGIC: dict[bytes, Compression] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


class Stamp(NamedTuple):
    """The identity of a file, and what shows that it changed."""

    device: int
    """The number of the device of the file."""
    inode: int
    """The number of the file on its device."""
    size: int
    """The size in bytes."""
    changed_ns: int
    """The time of the last change in nanoseconds."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A regular, readable, non-empty file of a known format."""

    path: Path
    """The place of the file."""
    format: Format
    """The format of its content."""
    separator: str
    """The characters between fields, for delimited text."""
    compression: Compression | None
    """The compression; None for none."""
    stamp: Stamp
    """The stamp of the file when it was found."""
    partition: tuple[tuple[str, str | None], ...] = ()
    """The columns in the names of the folders above it, with the value of each."""

    @property
    def name(self) -> str:
        """The name of the file in messages."""
        return printable(self.path)


def find_files(
    paths: Sequence[str | Path], separator: str | None, notes: list[str]
) -> list[SourceFile]:
    """Check every path before any is read; a pattern such as ``logs/*.csv`` is expanded."""
    if not paths:
        raise UsageError("no input file was given.", code="no_such_file")
    found = [_find(path, separator, notes) for pattern in paths for path in expanded(pattern)]
    _require_distinct(found)
    formats = {file.format: file for file in found}
    if len(formats) > 1:
        names = " and ".join(file.name for file in formats.values())
        raise UsageError(
            f"{names} are of different formats. Convert them to one, or load one format at a time.",
            code="mixed_formats",
        )
    return found


def _require_distinct(files: list[SourceFile]) -> None:
    """Raise if a file is given twice, by whatever spelling or link: its rows would count twice."""
    first: dict[tuple[int, int], SourceFile] = {}
    for file in files:
        other = first.setdefault((file.stamp.device, file.stamp.inode), file)
        if other is not file:
            again = f"as {file.name} and as {other.name}"
            raise UsageError(
                f"{file.name} is given twice{'' if file.name == other.name else f', {again}'}. "
                "Name each file once.",
                code="same_file",
            )


@contextmanager
def reading(file: SourceFile) -> Iterator[None]:
    """Turn failures to read into errors that name the file, and notice a change of it."""
    try:
        yield
        changed = _stamp(file.path) != file.stamp
    except OSError as error:
        raise _unreadable(file.path, error) from error
    if changed:
        raise DataError(
            f"{file.name} changed while it was read. Wait until it is complete, then load again.",
            code="changed_during_read",
        )


def unpacked(file: SourceFile, limit: int, notes: list[str]) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file, a bounded block at a time."""
    if file.compression == "zstd":
        blocks = _zstd(file)
    elif file.compression == "gzip":
        blocks = _gzip(file, notes)
    else:
        blocks = _plain(file)
    total = 0
    for block in blocks:
        total += len(block)
        if file.compression and total > limit:
            raise too_large(file, f"at least {total:,} bytes", limit)
        yield block


def too_large(file: SourceFile, unpacked: str, limit: int) -> ResourceError:
    """Build the error for a file that unpacks to more than is allowed."""
    return ResourceError(
        f"{file.name} of {file.stamp.size:,} bytes unpacks to {unpacked}, and the limit is "
        f"{limit:,}. If that is meant, raise it with --max-uncompressed BYTES "
        "(max_uncompressed=… in Python).",
        code="too_large",
    )


def expanded(pattern: str | Path) -> list[Path]:
    """Return the files and folders that a name or a pattern stands for."""
    if "\0" in str(pattern) or not str(pattern):
        raise UsageError(
            f"{str(pattern)!r} cannot be a file: a name is neither empty nor has a NUL character.",
            code="no_such_file",
        )
    path = Path(pattern)
    if not glob.has_magic(str(pattern)) or path.exists():
        return [path]
    matches = sorted(Path(match) for match in glob.glob(str(pattern)))  # noqa: PTH207
    if not matches:
        raise UsageError(f"no file matches {str(pattern)!r}.", code="no_such_file")
    return matches


def _alike(path: Path) -> str:
    """Return a hint at the file in the same folder whose name is most like a missing one."""
    try:
        names = [printable(Path(other.name)) for other in path.parent.iterdir() if other.is_file()]
    except OSError:
        return ""
    return did_you_mean(path.name, names, cutoff=0.8)


def _find(path: Path, separator: str | None, notes: list[str]) -> SourceFile:
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise _not_a_file(path, mode)
        with path.open("rb") as stream:
            head = stream.read(4)
    except FileNotFoundError as error:
        raise UsageError(
            f"there is no file {printable(path)!r}.{_alike(path)}", code="no_such_file"
        ) from error
    except OSError as error:
        raise _unreadable(path, error) from error
    if not head:
        raise DataError(
            f"{printable(path)} is empty (0 bytes). Was it written completely?", code="empty_input"
        )
    compression = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)
    named = _COMPRESSED.get(path.suffix.lower())
    if compression != named:
        notes.append(
            f"{printable(path)} is {compression or 'not compressed'}, whatever its name says; read "
            "as such."
        )
    format_, default = _format_of(path, separator)
    if format_ == "parquet" and compression:
        raise UsageError(
            f"{printable(path)} is a compressed Parquet file; Parquet compresses itself. Unpack "
            "it first.",
            code="unknown_format",
        )
    return SourceFile(path, format_, separator or default, compression, _stamp(path))


def is_readable_name(path: Path) -> bool:
    """Return whether the name of a file has an extension that is known."""
    bare = path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path
    return bare.suffix.lower() in _EXTENSIONS


def _format_of(path: Path, separator: str | None) -> tuple[Format, str]:
    bare = path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path
    extension = bare.suffix.lower()
    if extension in _EXTENSIONS:
        return _EXTENSIONS[extension]
    if separator is not None:
        return "delimited", separator
    raise UsageError(
        f"{printable(path)} has an unknown extension {extension!r}. Known: "
        f"{', '.join(_EXTENSIONS)}, each also with .gz or .zst (Parquet without). For delimited "
        "text of another name, give --delimiter.",
        code="unknown_format",
    )


def _not_a_file(path: Path, mode: int) -> UsageError:
    if stat.S_ISDIR(mode):
        return UsageError(
            f"{printable(path)} is a directory. Name the files in it, such as "
            f"{printable(path)}/*.parquet.",
            code="not_a_file",
        )
    return UsageError(
        f"{printable(path)} is not a regular file (a device, socket or pipe). Store the rows in a "
        "file first.",
        code="not_a_file",
    )


def _unreadable(path: Path, error: OSError) -> ResourceError:
    return ResourceError(
        f"cannot read {printable(path)}: {error.strerror or error}.", code="unreadable"
    )


def _stamp(path: Path) -> Stamp:
    now = path.stat()
    return Stamp(now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns)


def printable(path: Path) -> str:
    """Return the name of a file for messages, with bytes that are not UTF-8 escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _plain(file: SourceFile) -> Iterator[bytes]:
    with file.path.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            yield block


def _gzip(file: SourceFile, notes: list[str]) -> Iterator[bytes]:
    """Yield the bytes of a gzip file; unlike the gzip module, notice where each member ends."""
    members = 0
    with file.path.open("rb") as stream:
        packed = stream.read(_PACKED)
        while packed:
            members += 1
            packed = yield from _gzip_member(file, stream, packed)
    if members > 1:
        notes.append(
            f"{file.name} consists of {members:,} gzip members, and nothing marks the last: if it "
            "was cut between two of them, that cannot be seen. Compare the number of rows."
        )


def _gzip_member(
    file: SourceFile, stream: BinaryIO, packed: bytes
) -> Generator[bytes, None, bytes]:
    """Yield the bytes of one gzip member; return the packed bytes that follow it."""
    unpacker = zlib.decompressobj(wbits=31)
    while not unpacker.eof:
        if not packed:
            raise DataError(
                f"{file.name} ends in the middle of its gzip data, after {stream.tell():,} bytes: "
                "it was cut. Copy or download it again.",
                code="truncated_gzip",
            )
        try:
            block = unpacker.decompress(packed, BLOCK_BYTES)
        except zlib.error as error:
            raise _corrupt(file, error) from error
        if block:
            yield block
        packed = unpacker.unconsumed_tail or (b"" if unpacker.eof else stream.read(_PACKED))
    # Tapes and some tools pad with zeros, which are no member.
    return (unpacker.unused_data or stream.read(_PACKED)).lstrip(b"\0")


def _zstd(file: SourceFile) -> Iterator[bytes]:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd

    try:
        with zstd.open(file.path) as stream:
            while block := stream.read(BLOCK_BYTES):
                yield block
    except EOFError as error:
        raise DataError(
            f"{file.name} ends in the middle of its zstd data (an incomplete frame): it was cut. "
            "Copy or download it again.",
            code="corrupt_file",
        ) from error
    except zstd.ZstdError as error:
        raise _corrupt(file, error) from error


def _corrupt(file: SourceFile, error: Exception) -> DataError:
    return DataError(
        f"{file.name} is damaged ({error}). Copy or download it again.", code="corrupt_file"
    )
