"""The rows of a command: files are read, features joined, and test rows split off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgar.cli.console import Screen
from sdgar.cli.options.values import source
from sdgar.cli.reports import print_loaded, print_split
from sdgar.data.sources import EventSource
from sdgar.errors import UsageError
from sdgar.storage import remote

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sdgar.data.features import Features
    from sdgar.data.interactions import Interactions
    from sdgar.data.readers import ReadOptions
    from sdgar.data.splits import Split
    from sdgar.recommend.recommender import Recommender
    from sdgar.runs.job import Job
    from sdgar.runs.run import RunData


def absolute(files: Sequence[Path | EventSource] | None) -> list[str]:
    """Return paths that are valid when a run resumes in another folder.

    They are kept in a file, so that no address of a store has its password any more.
    """
    return [
        (remote.address_of(file) if isinstance(file, Path) else None) or str(file.absolute())
        for file in files or ()
    ]


def bounded(files: Sequence[Path | EventSource] | None) -> list[Path | EventSource] | None:
    """Fix the last event that is read of a store, as servers may add more until a run resumes."""
    if files is None:
        return None
    return [file if isinstance(file, Path) else file.up_to_now() for file in files]


def read_rows(
    screen: Screen,
    job: Job,
    files: Sequence[Path | EventSource] | None = None,
    test: Sequence[Path | EventSource] | None = None,
    valid: Sequence[Path | EventSource] | None = None,
) -> RunData:
    """Read what a job trains and measures on, and print what was read.

    Where the inputs were given just now, their addresses still have passwords.
    """
    from sdgar.recommend.recommender import load
    from sdgar.runs.run import RunData
    from sdgar.runs.succession import NEW, newest

    files, test, valid = (
        given or [source(file) for file in kept or ()]
        for given, kept in ((files, job.files), (test, job.test), (valid, job.valid))
    )
    data, reading = read_events(screen, "data", files, job.read_options())
    data = _with_features(screen, job, data)
    before = None if job.earlier is None else load(job.earlier)
    if before is not None and job.vanished == "keep":
        data = _with_vanished(screen, data, before)
    held_out, histories, train = None, None, data
    if test:
        held_out, _ = read_events(screen, "test", test, reading)
    elif job.split != "none" and before is not None:
        parts = newest(data, before, job.split or NEW, seed=job.seed)
        print_split(screen, parts)
        train, held_out = parts.train, parts.held_out
    elif job.split != "none":
        parts = split_off(screen, data, job.split, job.seed)
        train, held_out, histories = parts.train, parts.held_out, parts.histories
    return RunData(
        train=train,
        test=held_out,
        valid=read_events(screen, "valid", valid, reading)[0] if valid else None,
        everything=data if job.keep == "all" else None,
        histories=histories,
        before=before,
        counted=reading.counted(),
    )


def _with_vanished(screen: Screen, data: Interactions, before: Recommender) -> Interactions:
    """Add what the earlier model has and the files lack, and print how much that is."""
    whole = before.rows_with(data)
    more = len(whole) - len(data)
    if more:
        users, items = whole.n_users - data.n_users, whole.n_items - data.n_items
        screen.say(
            "kept",
            f"{more:,} rows of the earlier model that the files lack, with {users:,} users and "
            f"{items:,} items; --vanished drop leaves them out",
        )
    return whole


def read_events(
    screen: Screen, label: str, files: Sequence[Path | EventSource], reading: ReadOptions
) -> tuple[Interactions, ReadOptions]:
    """Read files of events and print what was in them; also return how to read others like them.

    A rating that counts as positive here does so in test rows too.
    """
    from sdgar.data.readers import read_files

    loaded = read_files(files, reading)
    print_loaded(screen, label, loaded, ", ".join(file.name for file in files))
    if loaded.min_rating is not None:
        reading = replace(reading, min_rating=loaded.min_rating)
    return loaded.interactions, reading


def split_off(screen: Screen, data: Interactions, rule: str | None, seed: int) -> Split:
    """Hold test rows out by a rule, the default one if none is named, and print how."""
    from sdgar.data import splits

    parts = splits.split(data, rule, seed=seed)
    print_split(screen, parts)
    return parts


def _with_features(screen: Screen, job: Job, data: Interactions) -> Interactions:
    """Join the tables of features that a job names to its rows."""
    if not (job.user_features or job.item_features):
        return data
    import numpy as np

    most = job.reading.get("max_uncompressed")
    return data.with_features(
        read_features(screen, "user", job.user_features, np.unique(data.user_id_U), {}, most),
        read_features(
            screen, "item", job.item_features, data.items.values, job.feature_kinds, most
        ),
    )


def read_features(
    screen: Screen,
    what: str,
    file: str | Path | None,
    ids: NDArray[Any],
    kinds: Mapping[str, str],
    max_uncompressed: int | None = None,
) -> Features | None:
    """Read a table of features, and print for how many ids of the events it has a row."""
    from sdgar.data.readers import tables

    if file is None:
        return None
    features = tables.read_features(file, kinds=kinds, max_uncompressed=max_uncompressed)
    met = int((features.ids.index_of(ids.tolist()) >= 0).sum())
    if not met:
        raise UsageError(
            f"no {what} of the events has a row in {file}. Ids there are such as "
            f"{features.ids.values[:3].tolist()!r}, in the events {ids[:3].tolist()!r}; "
            "the first column of the table is the id.",
            code="no_common_ids",
        )
    more = len(features.ids) - met
    screen.say(
        f"{what} features",
        f"{features.n_features:,} of {Path(file).name}, for {met:,} of {len(ids):,} {what}s"
        + (f", and for {more:,} without events" if what == "item" and more else ""),
    )
    return features
