"""Files whose columns are known and whose rows are not read yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from sdgar.data.read_options import ReadOptions
from sdgar.data.readers.chunks import Chunk
from sdgar.data.readers.delimited import DelimitedFile
from sdgar.data.readers.files import SourceFile, reading
from sdgar.data.readers.json_lines import JsonLinesFile
from sdgar.data.readers.parquet import ParquetFile
from sdgar.data.readers.partitions import Partitioned
from sdgar.data.readers.problems import ProblemLog
from sdgar.errors import DataError


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
