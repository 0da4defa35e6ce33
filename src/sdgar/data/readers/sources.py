"""Files whose columns are known and whose rows are not read yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import polars as pl

from sdgar.data.read_options import ReadOptions
from sdgar.data.readers.chunks import Chunk
from sdgar.data.readers.delimited import DelimitedFile
from sdgar.data.readers.files import (
    BLOCK_BYTES,
    SourceFile,
    expanded,
    is_readable_name,
    printable,
    reading,
)
from sdgar.data.readers.json_lines import JsonLinesFile
from sdgar.data.readers.parquet import ParquetFile
from sdgar.data.readers.problems import ProblemLog
from sdgar.errors import DataError, UsageError

_MISSING = "__HIVE_DEFAULT_PARTITION__"
"""The name that stands for a missing value."""

Partition = tuple[tuple[str, str | None], ...]
"""The columns in the names of folders, with the value of each."""


def with_folders(paths: Sequence[str | Path]) -> dict[Path, Partition]:
    """Return all files that are meant by names of files, patterns and folders.

    The files of a folder come in the order of their names.
    """
    found: dict[Path, Partition] = {}
    for pattern in paths:
        for path in expanded(pattern):
            if not path.is_dir():
                found.setdefault(path, ())
                continue
            files = sorted(_files_in(path))
            if not files:
                raise UsageError(
                    f"{printable(path)} is a folder without files of events (CSV, TSV, JSON Lines "
                    "or Parquet).",
                    code="no_such_file",
                )
            for file in files:
                found.setdefault(file, _partition(file.relative_to(path)))
    return found


def _files_in(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir():
            yield from _files_in(entry)
        elif is_readable_name(entry):
            yield entry


def _partition(file: Path) -> Partition:
    """Return the columns in the names of the folders above a file."""
    named = [part.partition("=") for part in file.parts[:-1] if "=" in part[1:]]
    return tuple(
        (unquote(name), None if value == _MISSING else unquote(value)) for name, _, value in named
    )


class Partitioned:
    """A file whose rows also have the columns that the names of its folders hold."""

    def __init__(self, source: Any, partition: Partition) -> None:
        self._source = source
        self._values = {name: value for name, value in partition if name not in source.names}
        self.names: tuple[str, ...] = (*source.names, *self._values)

    def chunks(
        self, used: dict[str, str], log: ProblemLog, notes: list[str], block_size: int = BLOCK_BYTES
    ) -> Iterator[Chunk]:
        """Yield the used columns, in chunks of about so many bytes."""
        own = {role: name for role, name in used.items() if name not in self._values}
        added = [
            pl.lit(self._values[name], pl.String).alias(role)
            for role, name in used.items()
            if name in self._values
        ]
        if not own:
            raise UsageError(
                "every column that is used is the name of a folder, and none is in the files.",
                code="missing_column",
            )
        for chunk in self._source.chunks(own, log, notes, block_size):
            frame = chunk.frame.with_columns(added).select(*used)
            yield Chunk(chunk.source, frame, chunk.rows, chunk.unit)


class Source(Protocol):
    """A file whose columns are known and whose rows are not read yet."""

    names: tuple[str, ...]

    def chunks(
        self, used: dict[str, str], log: ProblemLog, notes: list[str], block_size: int = ...
    ) -> Iterator[Chunk]:
        """Yield the used columns, in chunks of about so many bytes."""
        ...


def opened(files: list[SourceFile], options: ReadOptions, notes: list[str]) -> list[Source]:
    """Open files and look at their columns; raise if the columns of two files differ."""
    n_bytes = sum(file.stamp.size for file in files)
    sources = [_open(file, options, notes, n_bytes) for file in files]
    _check_same_names(files, sources)
    return sources


def _open(file: SourceFile, options: ReadOptions, notes: list[str], n_bytes: int) -> Source:
    with reading(file):
        source: Source
        if file.format == "delimited":
            source = DelimitedFile(file, options, notes, n_bytes=n_bytes)
        elif file.format == "json_lines":
            source = JsonLinesFile(file, options, notes)
        else:
            source = ParquetFile(file, options.unpack_limit)
    return Partitioned(source, file.partition) if file.partition else source


def _check_same_names(files: list[SourceFile], sources: list[Source]) -> None:
    """Raise if the columns of the files differ; their order may."""
    first = sources[0].names
    for file, source in zip(files, sources, strict=True):
        if sorted(source.names) != sorted(first):
            missing = ", ".join(name for name in first if name not in source.names) or "none"
            extra = ", ".join(name for name in source.names if name not in first) or "none"
            raise DataError(
                f"{file.name} and {files[0].name} have different columns: {file.name} lacks "
                f"{missing}, and has besides {extra}. Load them apart, or make them alike.",
                code="schema_mismatch",
            )
