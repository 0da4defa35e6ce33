"""Read the used columns of Parquet files, after a check that their sizes are plausible."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import polars as pl
from polars.selectors import by_name

from sdgar.data.readers import parquet_layout
from sdgar.data.readers.chunks import Chunk, typed_chunk
from sdgar.data.readers.files import SourceFile, too_large
from sdgar.data.readers.problems import ProblemLog
from sdgar.errors import DataError

_VALUE_BYTES = 16
"""The bytes that a value is taken to have when rows are counted off into blocks."""


class ParquetFile:
    """A file whose schema is known and whose rows are not read yet."""

    def __init__(self, file: SourceFile, limit: int) -> None:
        self._file = file
        self._limit = limit
        with _damage_named(file), file.path.open("rb") as stream:
            self._layout = parquet_layout.layout(stream)
            stream.seek(0)
            self.names = tuple(pl.read_parquet_schema(stream))

    def chunks(
        self, used: dict[str, str], log: ProblemLog, block_size: int | None = None
    ) -> Iterator[Chunk]:
        """Yield the used columns, as one chunk, or as chunks of about so many bytes."""
        names = list(dict.fromkeys(used.values()))
        if block_size is None:
            yield typed_chunk(self.frame(names), used, self._file.name)
            return
        self._check(names)
        for first, n_rows in self._blocks(max(1, block_size // (_VALUE_BYTES * len(names)))):
            with _damage_named(self._file):
                # Columns are taken by place or selector: a name such as "*" stands for others.
                rows = pl.scan_parquet(self._file.path, glob=False).select(by_name(*names))
                frame = rows.slice(first, n_rows).collect()
            yield typed_chunk(frame, used, self._file.name, first + 1)

    def _blocks(self, most: int) -> Iterator[tuple[int, int]]:
        """Yield the first row and the number of rows of each block.

        A block is whole groups of rows, as they are unpacked as a whole, or a part of a large one.
        """
        first = held = 0
        for n_rows in self._layout.group_rows:
            if held and held + n_rows > most:
                yield first, held
                first, held = first + held, 0
            held += n_rows
            while held > most:
                yield first, most
                first, held = first + most, held - most
        if held or not first:
            yield first, held

    def frame(self, names: Collection[str]) -> pl.DataFrame:
        """Return some columns as they are; raise if they unpack to more than is allowed."""
        self._check(names)
        with _damage_named(self._file), self._file.path.open("rb") as stream:
            places = [self.names.index(name) for name in names]
            return pl.read_parquet(stream, columns=places).select(by_name(*names))

    def _check(self, names: Collection[str]) -> None:
        """Raise if sizes cannot be true, or if some columns unpack to more than is allowed."""
        with _damage_named(self._file), self._file.path.open("rb") as stream:
            unpacked = parquet_layout.unpacked_bytes(stream, self._layout.of(names))
        if unpacked > self._limit:
            raise too_large(self._file, f"{unpacked:,} bytes", self._limit)


@contextmanager
def _damage_named(file: SourceFile) -> Iterator[None]:
    """Raise errors that name the file if it is damaged, also for a Rust panic."""
    found = (
        parquet_layout.Damaged,
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        OSError,
    )
    try:
        yield
    except found as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's fault, not the content's
        raise DataError(
            f"{file.name} is no complete Parquet file ({str(error).splitlines()[0]}). "
            "Copy or download it again.",
            code="bad_parquet",
        ) from error
