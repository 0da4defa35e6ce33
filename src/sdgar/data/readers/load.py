"""Read files and frames: find the columns, take the rows, and build interactions."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from sdgar.data import feedback
from sdgar.data.feedback import SHARE_OF_HIGHEST
from sdgar.data.history import History
from sdgar.data.interactions import Interactions
from sdgar.data.read_options import WEIGHTINGS, ReadOptions, SeenBy
from sdgar.data.readers.chunks import Table
from sdgar.data.readers.cleaning import needs_threshold, ratings_of, with_threshold
from sdgar.data.readers.columns import Columns, resolve
from sdgar.data.readers.frames import TableSource
from sdgar.data.readers.indexing import to_interactions
from sdgar.data.readers.inputs import InputFiles
from sdgar.data.readers.problems import ProblemLog
from sdgar.data.sources import EventSource, is_source, only_source
from sdgar.data.weighting import weigh
from sdgar.errors import unknown_name
from sdgar.show.progress import report
from sdgar.storage import remote

_DEFAULTS = ReadOptions()
_SEEN_BY: dict[SeenBy, str] = {
    "user": "what a user has in one context is left out of their lists in all; --seen-by context "
    "lets it come back in others",
    "context": "what a user has in one context is left out of their lists there, and may come back "
    "in others",
}
_PATHS = (str, bytes, os.PathLike)


@dataclass(frozen=True)
class LoadedRows:
    """Interactions, their columns, and notes for people."""

    interactions: Interactions
    """The rows that were read."""
    columns: Columns
    """The columns that were used."""
    notes: tuple[str, ...] = ()
    """The sentences that a person should be warned with."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """The sentences on "weights", on contexts and ratings ("seen"), and on "kinds" of events."""
    min_rating: float | None = None
    """The least positive rating, if there are ratings."""


def read(source: Any, *, verbose: bool | None = None, **options: Any) -> Interactions:
    """Read interactions from a file, several files, a frame or a store.

    Options are as in ``ReadOptions``. A store is named by its address, as sqlite:///store.db.

    The role of each column and the number of rows that were kept are printed, unless ``verbose`` is
    False. Anything doubtful is a warning.

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
    report(f"columns: {loaded.columns.sentence()}", verbose=verbose)
    report(f"rows: {data.account.sentence()}; {data.size_text()}", verbose=verbose)
    for what, sentence in loaded.facts.items():
        report(f"{what}: {sentence}", verbose=verbose)
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


def read_files(
    paths: Sequence[str | Path | EventSource], options: ReadOptions = _DEFAULTS
) -> LoadedRows:
    """Read CSV, TSV, JSON Lines or Parquet files as one input, plain or compressed (gz, zst).

    A folder stands for the files in it, and the address of a store for its events. Files may have
    addresses too, such as s3://bucket/events.csv: they are copied to the cache, and read there.
    """
    paths = remote.here(paths)
    log = ProblemLog()
    if any(is_source(path) for path in paths):
        # A store gives text, as CSV does.
        with only_source(paths).open(options) as source:
            columns, found = resolve(source.names, options)
            table, notes, untyped = Table(list(source.chunks(columns.used))), [*found], True
    else:
        inputs = InputFiles.find(paths, options)
        columns, notes, untyped = inputs.columns, inputs.notes, inputs.untyped
        table = Table(list(inputs.chunks(log, notes)), untyped=untyped)
    return _loaded(table, columns, options, notes, log, untyped=untyped)


def read_frame(frame: Any, options: ReadOptions = _DEFAULTS) -> LoadedRows:
    """Read a Polars, pandas or Arrow table, a DuckDB relation, or a dict of columns."""
    source = TableSource(frame)
    columns, notes = resolve(source.names, options)
    table = Table([source.chunk(columns.used)])
    return _loaded(table, columns, options, list(notes), ProblemLog(), untyped=False)


def _loaded(
    table: Table,
    columns: Columns,
    options: ReadOptions,
    notes: list[str],
    log: ProblemLog,
    *,
    untyped: bool,
) -> LoadedRows:
    decided = options
    if needs_threshold(columns, options):
        decided = with_threshold(columns, options, ratings_of(table.frame))
    interactions = to_interactions(table, columns, decided, log, untyped=untyped)
    kinds = ""
    if columns.kind:
        counts = feedback.count_kinds(table.frame["kind"])
        kinds = feedback.describe_kinds(counts, decided.kinds, decided.dislike_kinds, notes)
    least = decided.min_rating if isinstance(decided.min_rating, int | float) else None
    said = columns.offer()
    if columns.weight is not None:
        interactions, said = weigh(interactions, options.weights or "auto")
        said = weights_sentence(columns.weight, said)
    seen = seen_sentence(
        _n_pairs(interactions.seen),
        _n_pairs(interactions.disliked),
        least,
        options,
        seen_by=None if interactions.fields is None else interactions.seen_by,
    )
    facts = {"weights": said, "seen": seen, "kinds": kinds}
    facts = {what: sentence for what, sentence in facts.items() if sentence}
    return LoadedRows(interactions, columns, tuple(notes), facts, least)


def weights_sentence(column: str, said: str) -> str:
    """Return a sentence on what was done with the weights of a column."""
    return f"{column}: {said}; --weights says otherwise ({', '.join(WEIGHTINGS)})"


def _n_pairs(history: History | None) -> int:
    return 0 if history is None else len(history.items_E)


def seen_sentence(
    n_seen: int,
    n_against: int,
    least: float | None,
    options: ReadOptions,
    seen_by: SeenBy | None = None,
) -> str:
    """Return a sentence on what was done with contexts, low ratings and low weights.

    ``n_seen`` counts the pairs that users know and dislike, and ``n_against`` the pairs among
    them that count against their item. ``seen_by`` is given where a context has several fields.
    """
    parts = [] if seen_by is None else [_SEEN_BY[seen_by]]
    if least is not None and options.min_rating == "auto":
        parts.append(
            f"ratings of {least:g} and above count as positive ({SHARE_OF_HIGHEST:.0%} of the "
            "highest one; --min-rating says otherwise)"
        )
    low = options.dislike_below
    if n_seen and (least is not None or low is not None):
        what = f"with a weight below {low:g}" if least is None else f"rated below {least:g}"
        parts.append(f"{n_seen:,} pairs {what} are not learned from, and not recommended again")
    if n_seen and least is not None and low is not None:
        parts.append(f"{n_against:,} of these count against their item: ratings below {low:g}")
    return "; ".join(parts)
