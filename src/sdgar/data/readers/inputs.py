"""Input files whose columns are known and whose rows are not read yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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


@dataclass(frozen=True)
class InputFile:
    """A file whose columns are known and whose rows are not read yet."""

    file: SourceFile
    """The place and the format of the file."""
    rows: DelimitedFile | JsonLinesFile | ParquetFile
    """The rows in it."""
    folders: dict[str, str | None]
    """The columns that the names of its folders hold, with the value of each."""

    @classmethod
    def open(
        cls, file: SourceFile, options: ReadOptions, notes: list[str], n_bytes: int
    ) -> InputFile:
        """Look at the columns of a file; ``n_bytes`` is the size of all files of the input."""
        rows: DelimitedFile | JsonLinesFile | ParquetFile
        with reading(file):
            if file.format == "delimited":
                rows = DelimitedFile(file, options, notes, n_bytes=n_bytes)
            elif file.format == "json_lines":
                rows = JsonLinesFile(file, options, notes)
            else:
                rows = ParquetFile(file, options.unpack_limit)
        folders = {name: value for name, value in file.partition if name not in rows.names}
        return cls(file, rows, folders)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return (*self.rows.names, *self.folders)

    def chunks(
        self, used: dict[str, str], log: ProblemLog, block_size: int | None = None
    ) -> Iterator[Chunk]:
        """Yield the used columns, in chunks of about so many bytes."""
        own = {role: name for role, name in used.items() if name not in self.folders}
        if not own:
            raise UsageError(
                "every column that is used is the name of a folder, and none is in the files.",
                code="missing_column",
            )
        added = [
            pl.lit(self.folders[name], pl.String).alias(role)
            for role, name in used.items()
            if name in self.folders
        ]
        with reading(self.file):
            for chunk in self.rows.chunks(own, log, block_size):
                frame = chunk.frame.with_columns(added).select(*used) if added else chunk.frame
                yield replace(chunk, frame=frame)


@dataclass(frozen=True)
class InputFiles:
    """Files that are read as one input, and the part that each column plays."""

    files: list[InputFile]
    """The files, in the order in which they are read."""
    columns: Columns
    """The columns that are used."""
    notes: list[str]
    """The sentences that a person should be warned with."""

    @classmethod
    def find(cls, paths: Sequence[str | Path], options: ReadOptions) -> InputFiles:
        """Find the files of names, patterns and folders, and look at their columns."""
        notes: list[str] = []
        files = open_files(find_files(paths, options.separator, notes), options, notes)
        columns, column_notes = resolve(files[0].names, options)
        return cls(files, columns, [*notes, *column_notes])

    @property
    def untyped(self) -> bool:
        """True if the files are text, whose ids may spell integers."""
        return self.files[0].file.format == "delimited"

    def chunks(
        self, log: ProblemLog, notes: list[str], block_size: int | None = None
    ) -> Iterator[Chunk]:
        """Yield all rows in chunks; what cannot be read as a row goes to the log."""
        for file in self.files:
            rows = 0
            for chunk in file.chunks(self.columns.used, log, block_size):
                rows += chunk.frame.height
                yield chunk
            if not rows:
                notes.append(f"{file.file.name} has no row that can be read.")


def open_files(files: list[SourceFile], options: ReadOptions, notes: list[str]) -> list[InputFile]:
    """Open files and look at their columns; raise if the columns of two files differ."""
    n_bytes = sum(file.status.st_size for file in files)
    opened = [InputFile.open(file, options, notes, n_bytes) for file in files]
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
