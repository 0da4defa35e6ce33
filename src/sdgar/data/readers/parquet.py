"""Parquet files: only the used columns are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl

from sdgar.data.readers.files import SourceFile
from sdgar.data.readers.pieces import Piece, typed_piece
from sdgar.data.readers.problems import ProblemLog
from sdgar.errors import DataError


class ParquetFile:
    """A file whose schema is known and whose rows are not read yet."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        with _damage_named(file):
            self.names = tuple(pl.read_parquet_schema(file.path))

    def pieces(self, used: dict[str, str], log: ProblemLog, notes: list[str]) -> Iterator[Piece]:
        """The used columns, as one piece."""
        names = list(dict.fromkeys(used.values()))
        with _damage_named(self._file):
            frame = pl.read_parquet(self._file.path, columns=names, glob=False)
        yield typed_piece(frame, used, self._file.name)


@contextmanager
def _damage_named(file: SourceFile) -> Iterator[None]:
    """Name the file in what Polars raises on damage, which may even be a Rust panic."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's fault, not the content's
        raise DataError(
            f"{file.name} is no complete Parquet file ({str(error).splitlines()[0]}). "
            "Copy or download it again.",
            code="bad_parquet",
        ) from error
