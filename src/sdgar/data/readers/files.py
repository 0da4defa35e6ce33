"""Find and check input files, decompress them in bounded memory, and notice changes."""

from __future__ import annotations

import glob
import gzip
import os
import stat
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sdgar.errors import DataError, ResourceError, UsageError, did_you_mean

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Format = Literal["delimited", "json_lines", "parquet"]
Compression = Literal["gzip", "zstd"]

BLOCK_BYTES = 8 << 20
"""The bytes that are decompressed and parsed at a time."""
GUESSED = ""
"""The separator of files whose extension does not imply one; it is taken from their first line."""
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
_COMPRESSED = (".gz", ".zst")
_MAGIC: dict[bytes, Compression] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


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
    status: os.stat_result
    """The status of the file when it was found."""

    @property
    def name(self) -> str:
        """The name of the file in messages."""
        return printable(self.path)


def find_files(paths: Sequence[str | Path], separator: str | None) -> list[SourceFile]:
    """Check every path before any is read.

    A pattern such as ``logs/*.csv`` is expanded, and a folder stands for the files in it and in the
    folders below it, in the order of their names.
    """
    if not paths:
        raise UsageError("no input file was given.", code="no_such_file")
    found = [find_file(path, separator) for pattern in paths for path in _expanded(pattern)]
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
        other = first.setdefault((file.status.st_dev, file.status.st_ino), file)
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
        changed = _stamp(file.path.stat()) != _stamp(file.status)
    except OSError as error:
        raise _unreadable(file.path, error) from error
    if changed:
        raise DataError(
            f"{file.name} changed while it was read. Wait until it is complete, then load again.",
            code="changed_during_read",
        )


def unpacked(file: SourceFile, limit: int) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file, a bounded block at a time."""
    total = 0
    try:
        with _open(file) as stream:
            while block := stream.read(BLOCK_BYTES):
                total += len(block)
                if file.compression and total > limit:
                    raise too_large(file, f"at least {total:,} bytes", limit)
                yield block
    except EOFError as error:
        raise DataError(
            f"{file.name} ends in the middle of its {file.compression} data: it was cut. Copy or "
            "download it again.",
            code="truncated_gzip" if file.compression == "gzip" else "corrupt_file",
        ) from error
    except (gzip.BadGzipFile, zlib.error, zstd.ZstdError) as error:
        raise DataError(
            f"{file.name} is damaged ({error}). Copy or download it again.", code="corrupt_file"
        ) from error


def too_large(file: SourceFile, unpacked: str, limit: int) -> ResourceError:
    """Build the error for a file that unpacks to more than is allowed."""
    return ResourceError(
        f"{file.name} of {file.status.st_size:,} bytes unpacks to {unpacked}, and the limit is "
        f"{limit:,}. If that is meant, raise it with --max-uncompressed BYTES "
        "(max_uncompressed=… in Python).",
        code="too_large",
    )


def _expanded(pattern: str | Path) -> Iterator[Path]:
    """Yield the files that a name, a pattern or a folder stands for."""
    path = _path(pattern)
    matches = [path]
    if glob.has_magic(str(pattern)) and not path.exists():
        matches = sorted(Path(match) for match in glob.glob(str(pattern)))  # noqa: PTH207
    if not matches:
        raise UsageError(f"no file matches {str(pattern)!r}.", code="no_such_file")
    for match in matches:
        if not match.is_dir():
            yield match
            continue
        files = sorted(_files_in(match))
        if not files:
            raise UsageError(
                f"{printable(match)} is a folder without files of events (CSV, TSV, JSON Lines or "
                "Parquet).",
                code="no_such_file",
            )
        yield from files


def _path(name: str | Path) -> Path:
    if "\0" in str(name) or not str(name):
        raise UsageError(
            f"{str(name)!r} cannot be a file: a name is neither empty nor has a NUL character.",
            code="no_such_file",
        )
    return Path(name)


def _files_in(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir():
            yield from _files_in(entry)
        elif _extension(entry) in _EXTENSIONS:
            yield entry


def find_file(path: str | Path, separator: str | None) -> SourceFile:
    """Check a path, which is no pattern and no folder."""
    path = _path(path)
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            what = "folder" if stat.S_ISDIR(mode) else "device, socket or pipe"
            raise UsageError(
                f"{printable(path)} is not a regular file but a {what}. Name a file.",
                code="not_a_file",
            )
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
    format_, default = _format_of(path, separator)
    if format_ == "parquet" and compression:
        raise UsageError(
            f"{printable(path)} is a compressed Parquet file; Parquet compresses itself. Unpack "
            "it first.",
            code="unknown_format",
        )
    return SourceFile(path, format_, separator or default, compression, path.stat())


def _alike(path: Path) -> str:
    """Return a hint at the file in the same folder whose name is most like a missing one."""
    try:
        names = [printable(Path(other.name)) for other in path.parent.iterdir() if other.is_file()]
    except OSError:
        return ""
    return did_you_mean(path.name, names, cutoff=0.8)


def _extension(path: Path) -> str:
    """Return the extension of a file, without that of a compression."""
    bare = path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path
    return bare.suffix.lower()


def _format_of(path: Path, separator: str | None) -> tuple[Format, str]:
    extension = _extension(path)
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


def _unreadable(path: Path, error: OSError) -> ResourceError:
    return ResourceError(
        f"cannot read {printable(path)}: {error.strerror or error}.", code="unreadable"
    )


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    """Return what changes if a file is replaced or written to."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def printable(path: Path) -> str:
    """Return the name of a file for messages, with bytes that are not UTF-8 escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _open(file: SourceFile) -> Any:
    """Open a file to read its decompressed bytes."""
    if file.compression == "gzip":
        return gzip.open(file.path)
    return zstd.open(file.path) if file.compression == "zstd" else file.path.open("rb")
