"""Input files whose columns are known and whose rows are not read yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import polars as pl

from sdgar.data.read_options import ReadOptions
from sdgar.data.readers.chunks import Chunk
from sdgar.data.readers.columns import Columns, resolve
from sdgar.data.readers.delimited import DelimitedFile
from sdgar.data.readers.files import SourceFile, find_files, reading
from sdgar.data.readers.json_lines import JsonLinesFile
from sdgar.data.readers.parquet import ParquetFile
from sdgar.data.readers.problems import ProblemLog
from sdgar.errors import DataError, UsageError


class InputFile(Protocol):
    """A file whose columns are known and whose rows are not read yet."""

    names: tuple[str, ...]

    def chunks(
        self, used: dict[str, str], log: ProblemLog, block_size: int | None = None
    ) -> Iterator[Chunk]:
        """Yield the used columns, in chunks of about so many bytes."""
        ...


@dataclass(frozen=True)
class InputFiles:
    """Files that are read as one input, and the part that each column plays."""

    files: list[SourceFile]
    """The files, in the order in which they are read."""
    opened: list[InputFile]
    """The columns of each, and how its rows are read."""
    columns: Columns
    """The columns that are used."""
    notes: list[str]
    """The sentences that a person should be warned with."""

    @classmethod
    def find(cls, paths: Sequence[str | Path], options: ReadOptions) -> InputFiles:
        """Find the files of names, patterns and folders, and look at their columns."""
        notes: list[str] = []
        files = find_files(paths, options.separator, notes)
        opened = open_files(files, options, notes)
        columns, column_notes = resolve(opened[0].names, options)
        return cls(files, opened, columns, [*notes, *column_notes])

    @property
    def untyped(self) -> bool:
        """True if the files are text, whose ids may spell integers."""
        return self.files[0].format == "delimited"

    def chunks(
        self, log: ProblemLog, notes: list[str], block_size: int | None = None
    ) -> Iterator[Chunk]:
        """Yield all rows in chunks; what cannot be read as a row goes to the log."""
        for file, opened in zip(self.files, self.opened, strict=True):
            rows = 0
            with reading(file):
                for chunk in opened.chunks(self.columns.used, log, block_size):
                    rows += chunk.frame.height
                    yield chunk
            if not rows:
                notes.append(f"{file.name} has no row that can be read.")


def open_files(files: list[SourceFile], options: ReadOptions, notes: list[str]) -> list[InputFile]:
    """Open files and look at their columns; raise if the columns of two files differ."""
    n_bytes = sum(file.stamp.size for file in files)
    opened = [_open(file, options, notes, n_bytes) for file in files]
    first = opened[0].names
    for file, other in zip(files, opened, strict=True):
        if sorted(other.names) != sorted(first):
            missing = ", ".join(name for name in first if name not in other.names) or "none"
            extra = ", ".join(name for name in other.names if name not in first) or "none"
            raise DataError(
                f"{file.name} and {files[0].name} have different columns: {file.name} lacks "
                f"{missing}, and also has {extra}. Load them apart, or make them alike.",
                code="schema_mismatch",
            )
    return opened


def _open(file: SourceFile, options: ReadOptions, notes: list[str], n_bytes: int) -> InputFile:
    with reading(file):
        opened: InputFile
        if file.format == "delimited":
            opened = DelimitedFile(file, options, notes, n_bytes=n_bytes)
        elif file.format == "json_lines":
            opened = JsonLinesFile(file, options, notes)
        else:
            opened = ParquetFile(file, options.unpack_limit)
    return PartitionedFile(opened, file) if file.partition else opened


class PartitionedFile:
    """A file whose rows also have the columns that the names of its folders hold."""

    def __init__(self, inner: InputFile, file: SourceFile) -> None:
        self._inner = inner
        self._values = {name: v for name, v in file.partition if name not in inner.names}
        self.names: tuple[str, ...] = (*inner.names, *self._values)

    def chunks(
        self, used: dict[str, str], log: ProblemLog, block_size: int | None = None
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
        for chunk in self._inner.chunks(own, log, block_size):
            frame = chunk.frame.with_columns(added).select(*used)
            yield Chunk(chunk.source, frame, chunk.rows, chunk.unit)
