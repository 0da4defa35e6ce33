"""The files that shards are made of, read chunk by chunk as often as it is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sdgar.data.read_options import ReadOptions
from sdgar.data.readers.chunks import Chunk
from sdgar.data.readers.columns import Columns, resolve
from sdgar.data.readers.files import SourceFile, find_files, reading
from sdgar.data.readers.problems import ProblemLog
from sdgar.data.readers.sources import Source, opened, with_folders
from sdgar.data.sources import is_source
from sdgar.errors import UsageError
from sdgar.storage import remote


@dataclass(frozen=True)
class Inputs:
    """Files whose columns are known, and which of them play which part."""

    files: list[SourceFile]
    """The files, in the order in which they are read."""
    sources: list[Source]
    """The columns of each, and how its rows are read."""
    columns: Columns
    """The columns that are used."""
    notes: list[str]
    """The sentences that a person should be warned with."""

    @classmethod
    def find(cls, paths: Sequence[str | Path], options: ReadOptions) -> Inputs:
        """Find the files of names, patterns and folders, and look at their columns."""
        paths = remote.here(paths)
        if any(is_source(path) for path in paths):
            raise UsageError(
                "shards are made of files, and a store is none. Write its events to a file with "
                "`sdgar data export`.",
                code="bad_store",
            )
        notes: list[str] = []
        partitions = with_folders(paths)
        files = [
            replace(file, partition=partitions[file.path])
            for file in find_files(list(partitions), options.separator, notes)
        ]
        sources = opened(files, options, notes)
        columns, told = resolve(sources[0].names, options)
        return cls(files, sources, columns, [*notes, *told])

    @property
    def untyped(self) -> bool:
        """True if the files are text, whose ids may spell integers."""
        return self.files[0].format == "delimited"

    def identity(self) -> list[list[Any]]:
        """Return what shows that the files are the same as before."""
        return [[file.name, file.stamp.size, file.stamp.changed_ns] for file in self.files]

    def chunks(
        self, block_size: int, notes: list[str] | None = None
    ) -> Iterator[tuple[Chunk, ProblemLog]]:
        """Yield all rows in chunks, each with what could not be read as a row; add to ``notes``."""
        told = [] if notes is None else notes
        for file, source in zip(self.files, self.sources, strict=True):
            log = ProblemLog()
            chunk, rows = None, 0
            with reading(file):
                for chunk in source.chunks(self.columns.used, log, told, block_size):
                    rows += chunk.frame.height
                    yield chunk, log.taken()
            if not rows:
                told.append(f"{file.name} has no row that can be read.")
            if chunk is not None and log.counts:
                yield replace(chunk, frame=chunk.frame.clear()), log.taken()
