"""Read files and frames: find the columns, take the rows, and build interactions."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from sdgar.data import kinds
from sdgar.data.interactions import Interactions
from sdgar.data.ratings import SHARE_OF_HIGHEST
from sdgar.data.readers.chunks import Chunk, Table
from sdgar.data.readers.cleaning import to_interactions, with_threshold
from sdgar.data.readers.columns import Columns, resolve
from sdgar.data.readers.delimited import DelimitedFile
from sdgar.data.readers.files import SourceFile, find_files, reading
from sdgar.data.readers.frames import Frame
from sdgar.data.readers.json_lines import JsonLinesFile
from sdgar.data.readers.options import ReadOptions
from sdgar.data.readers.parquet import ParquetFile
from sdgar.data.readers.problems import ProblemLog
from sdgar.data.readers.stores import StoredEvents, only_store
from sdgar.data.weighting import WEIGHTINGS, weigh
from sdgar.database.address import Address, is_address
from sdgar.errors import DataError, unknown_name
from sdgar.show.progress import tell

_DEFAULTS = ReadOptions()
_SEEN_BY = {
    "user": "what a user has in one context is left out of their lists in all; --seen-by context "
    "lets it come back in others",
    "context": "what a user has in one context is left out of their lists there, and may come back "
    "in others",
}
_PATHS = (str, bytes, os.PathLike)


@dataclass(frozen=True)
class Loaded:
    """Interactions, their columns, and notes for people."""

    interactions: Interactions
    """The rows that were read."""
    columns: Columns
    """The columns that were used."""
    notes: tuple[str, ...] = ()
    """The sentences that a person should be warned with."""
    weighting: str = ""
    """The sentence on what was done with the weights; empty if no column has or looks like any."""
    seen: str = ""
    """The sentence on what was done with contexts and ratings; empty if there are none."""
    kinds: str = ""
    """The sentence on which kinds of events count; empty if there is nothing to say."""
    min_rating: float | None = None
    """The least rating that counts as a liking, if there are ratings."""


def read(source: Any, *, verbose: bool | None = None, **options: Any) -> Interactions:
    """Read interactions from a file, several files, a frame or a store.

    Options are as in ``ReadOptions``. A store is named by its address, as sqlite:///store.db.

    Which column was taken for what and what became of every row is told, unless ``verbose`` is
    False; what a person should be warned of is a warning.

    >>> data = sdgar.read({"user": ["ann", "ann", "bob"], "item": [7, 8, 7]}, verbose=False)
    >>> data.n_users, data.n_items
    (2, 2)
    """
    several = [source] if isinstance(source, _PATHS) else source
    of_paths = isinstance(several, list | tuple) and all(isinstance(p, _PATHS) for p in several)
    chosen = read_options(**options)
    loaded = (
        read_files([os.fsdecode(path) for path in several], chosen)
        if of_paths
        else read_frame(source, chosen)
    )
    data = loaded.interactions
    tell(f"columns: {loaded.columns.sentence()}", verbose=verbose)
    tell(f"rows: {data.account.sentence()}; {data.sizes()}", verbose=verbose)
    if loaded.weighting:
        tell(f"weights: {loaded.weighting}", verbose=verbose)
    if loaded.seen:
        tell(f"seen: {loaded.seen}", verbose=verbose)
    if loaded.kinds:
        tell(f"kinds: {loaded.kinds}", verbose=verbose)
    for note in loaded.notes:
        warnings.warn(note, stacklevel=2)
    return data


def read_options(**options: Any) -> ReadOptions:
    """Return ``ReadOptions`` by name; an unknown name is an error with the nearest known one."""
    known = [f.name for f in fields(ReadOptions)]
    for name in options:
        if name not in known:
            raise unknown_name("reading option", name, known)
    return ReadOptions(**options)


def read_files(paths: Sequence[str | Path | Address], options: ReadOptions = _DEFAULTS) -> Loaded:
    """Read CSV, TSV, JSON Lines or Parquet files as one input, plain or compressed (gz, zst).

    The address of a store stands for its events.
    """
    if any(is_address(path) for path in paths):
        return _read_store(paths, options)
    notes: list[str] = []
    log = ProblemLog()
    names = [path for path in paths if not isinstance(path, Address)]
    files = find_files(names, options.separator, notes)
    sources = [_open(file, options, notes) for file in files]
    _check_same_names(files, sources)
    columns, told = resolve(sources[0].names, options)
    chunks: list[Chunk] = []
    for file, source in zip(files, sources, strict=True):
        with reading(file):
            found = list(source.chunks(columns.used, log, notes))
        if not any(chunk.frame.height for chunk in found):
            notes.append(f"{file.name} has no row that can be read.")
        chunks += found
    notes += told
    return _loaded(
        Table(chunks), columns, options, log, notes, untyped=files[0].format == "delimited"
    )


def read_frame(frame: Any, options: ReadOptions = _DEFAULTS) -> Loaded:
    """Read a Polars, pandas or Arrow table, a DuckDB relation, or a dict of columns."""
    source = Frame(frame)
    columns, told = resolve(source.names, options)
    notes = list(told)
    table = Table([source.chunk(columns.used)])
    return _loaded(table, columns, options, ProblemLog(), notes, untyped=False)


def _read_store(paths: Sequence[str | Path | Address], options: ReadOptions) -> Loaded:
    """Read the events of a store by the rules for delimited text, which has no types either."""
    with StoredEvents(only_store(paths), options) as source:
        columns, told = resolve(source.names, options)
        table = Table(list(source.chunks(columns.used)))
    return _loaded(table, columns, options, ProblemLog(), list(told), untyped=True)


def _loaded(
    table: Table,
    columns: Columns,
    options: ReadOptions,
    log: ProblemLog,
    notes: list[str],
    *,
    untyped: bool,
) -> Loaded:
    decided = with_threshold(table, columns, options)
    interactions = to_interactions(table, columns, decided, log, notes, untyped=untyped)
    told = kinds.sentence(table.frame["kind"], decided.kinds, notes) if columns.kind else ""
    least = decided.min_rating if isinstance(decided.min_rating, int | float) else None
    said = columns.offer()
    if columns.weight is not None:
        interactions, said = weigh(interactions, options.weights or "auto")
        said = f"{columns.weight}: {said}; --weights says otherwise ({', '.join(WEIGHTINGS)})"
    return Loaded(
        interactions,
        columns,
        tuple(notes),
        weighting=said,
        kinds=told,
        seen=_seen(interactions, least, by_rule=options.min_rating == "auto"),
        min_rating=least,
    )


def _seen(data: Interactions, least: float | None, *, by_rule: bool) -> str:
    """Return a sentence on what was done with contexts and ratings."""
    parts = [] if data.fields is None else [_SEEN_BY[data.seen_by]]
    if least is not None and by_rule:
        parts.append(
            f"ratings of {least:g} and above count as likings ({SHARE_OF_HIGHEST:.0%} of the "
            "highest one; --min-rating says otherwise)"
        )
    if least is not None and data.seen is not None:
        parts.append(
            f"{len(data.seen.items_E):,} pairs rated below {least:g} are not learned from, and not "
            "recommended again"
        )
    return "; ".join(parts)


class _Source(Protocol):
    """A file whose columns are known and whose rows are not read yet."""

    names: tuple[str, ...]

    def chunks(
        self, used: dict[str, str], log: ProblemLog, notes: list[str]
    ) -> Iterator[Chunk]: ...


def _open(file: SourceFile, options: ReadOptions, notes: list[str]) -> _Source:
    with reading(file):
        if file.format == "delimited":
            return DelimitedFile(file, options, notes)
        if file.format == "json_lines":
            return JsonLinesFile(file, options, notes)
        return ParquetFile(file, options.unpack_limit)


def _check_same_names(files: list[SourceFile], sources: list[_Source]) -> None:
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
