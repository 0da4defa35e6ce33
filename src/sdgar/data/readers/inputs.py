"""Input files whose columns are known and whose rows are not read yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sdgar.data.read_options import ReadOptions
from sdgar.data.readers.chunks import Chunk
from sdgar.data.readers.columns import Columns, resolve
from sdgar.data.readers.delimited import DelimitedFile
from sdgar.data.readers.files import SourceFile, find_files, reading
from sdgar.data.readers.json_lines import JsonLinesFile
from sdgar.data.readers.parquet import ParquetFile
from sdgar.data.readers.problems import ProblemLog
from sdgar.errors import DataError


@dataclass(frozen=True)
class InputFile:
    """A file whose columns are known and whose rows are not read yet."""

    file: SourceFile
    """The place and the format of the file."""
    rows: DelimitedFile | JsonLinesFile | ParquetFile
    """The rows in it."""

    @classmethod
    def open(cls, file: SourceFile, options: ReadOptions, n_bytes: int) -> InputFile:
        """Look at the columns of a file; ``n_bytes`` is the size of all files of the input."""
        rows: DelimitedFile | JsonLinesFile | ParquetFile
        with reading(file):
            if file.format == "delimited":
                rows = DelimitedFile(file, options, n_bytes=n_bytes)
            elif file.format == "json_lines":
                rows = JsonLinesFile(file, options)
            else:
                rows = ParquetFile(file, options.unpack_limit)
        return cls(file, rows)

    def chunks(
        self, used: dict[str, str], log: ProblemLog, block_size: int | None = None
    ) -> Iterator[Chunk]:
        """Yield the used columns, in chunks of about so many bytes."""
        with reading(self.file):
            yield from self.rows.chunks(used, log, block_size)


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
        files = open_files(find_files(paths, options.separator), options)
        columns, notes = resolve(files[0].rows.names, options)
        return cls(files, columns, list(notes))

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


def open_files(files: list[SourceFile], options: ReadOptions) -> list[InputFile]:
    """Open files and look at their columns; raise if the columns of two files differ."""
    n_bytes = sum(file.status.st_size for file in files)
    opened = [InputFile.open(file, options, n_bytes) for file in files]
    first = opened[0].rows.names
    for file, other in zip(files, [one.rows.names for one in opened], strict=True):
        if sorted(other) != sorted(first):
            missing = ", ".join(name for name in first if name not in other) or "none"
            extra = ", ".join(name for name in other if name not in first) or "none"
            raise DataError(
                f"{file.name} and {files[0].name} have different columns: {file.name} lacks "
                f"{missing}, and also has {extra}. Load them apart, or make them alike.",
                code="schema_mismatch",
            )
    return opened
