"""Make shards from files of any size, in bounded RAM.

    1  survey   all rows are read once: what must be known of all of them is decided
    2  runs     rows are read again, checked, and written in the order of their shards
    3  shards   the rows of each shard are merged; a pair that occurs twice counts once
    4  ranks    users get the numbers of a load in RAM
    5  sums     weights are transformed, and every file gets its SHA-256

RAM holds one run or one shard at a time, and the ids of all items. All of it happens in a temporary
folder, which appears in one rename when it is complete.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sdgar.data import feedback
from sdgar.data.building import Merging, RowAccount
from sdgar.data.ids import Ids, id_arrays
from sdgar.data.interactions import Interactions
from sdgar.data.read_options import ReadOptions
from sdgar.data.readers.chunks import Table
from sdgar.data.readers.cleaning import Verdict, account_of, check_rows
from sdgar.data.readers.inputs import InputFiles
from sdgar.data.readers.load import seen_sentence, weights_sentence
from sdgar.data.readers.problems import ProblemLog
from sdgar.data.readers.survey import Decided, Survey
from sdgar.data.weighting import Weighing
from sdgar.errors import DataError, UsageError
from sdgar.scale.shards.format import (
    WEIGHT,
    Manifest,
    file_of,
    folder_of,
    mapped,
    seal_shard,
    sums_of,
    write_arrays,
    write_manifest,
)
from sdgar.scale.shards.runs import (
    LEAST_RAM,
    RAM,
    RowsByShard,
    block_of,
    find_inputs,
    merged,
    runs_of,
    write_ranks,
)
from sdgar.scale.shards.shards import Shards
from sdgar.scale.shards.writing import arrays_of, require_free, require_shards, require_users
from sdgar.storage import folders
from sdgar.storage.files import disk_error

_ROWS_EACH = 1_000_000
"""The approximate rows of a shard, if the number of shards is not given."""
_MOST_ITEMS = 2**31 - 1

Progress = Callable[[str, int, int], None]
"""A function that takes the step, how much of it is done, and how much there is to do."""


def shard_files(
    paths: Sequence[str | Path],
    out: str | Path,
    options: ReadOptions | None = None,
    *,
    n_shards: int | None = None,
    overwrite: bool = False,
    ram: int = RAM,
    progress: Progress = lambda step, done, total: None,
) -> Shards:
    """Make a folder of shards from files, folders and patterns; it is whole or absent."""
    options = options or ReadOptions()
    if ram < LEAST_RAM:
        raise UsageError(f"--ram must be at least 256MiB, got {ram:,} bytes.", code="bad_option")
    require_users(options.context)
    if n_shards is not None:
        require_shards(n_shards)
    inputs = find_inputs(paths, options)
    place = require_free(out, overwrite=overwrite)
    try:
        with folders.whole(place, replace=overwrite) as temporary:
            _Build(temporary, inputs, options, ram, progress).make(n_shards)
    except OSError as error:
        raise disk_error(place, error) from error
    return Shards.open(place)


class _Build:
    """The work on one folder of shards, step by step."""

    def __init__(
        self,
        folder: Path,
        inputs: InputFiles,
        options: ReadOptions,
        ram: int,
        progress: Progress,
    ) -> None:
        self._folder, self._inputs, self._given = folder, inputs, options
        self._ram, self._progress = ram, progress
        self._notes = inputs.notes
        self._counts: Counter[str] = Counter()

    def make(self, n_shards: int | None) -> None:
        """Fill the folder."""
        decided = self._survey()
        self._options = decided.options(self._given)
        runs = self._folder / "runs"
        rows = RowsByShard(
            runs,
            self._inputs.columns,
            n_shards or max(1, -(-decided.rows // _ROWS_EACH)),
            untyped=self._inputs.untyped,
        )
        account = self._read(decided, rows)
        rows.require_within(self._ram)
        items = self._items(rows)
        parts = self._merge(rows, items)
        shutil.rmtree(runs)
        self._progress("ranks", 0, 1)
        write_ranks([part.folder for part in parts], rows.kind("user"))
        self._finish(rows, account, parts, len(items))

    def _survey(self) -> Decided:
        """Look at all rows once."""
        survey = Survey(self._inputs.columns, self._given, untyped=self._inputs.untyped)
        for chunk in self._inputs.chunks(ProblemLog(), self._notes, block_of(self._ram)):
            survey.add(chunk)
            self._progress("survey", survey.rows, 0)
        return survey.decided()

    def _read(self, decided: Decided, rows: RowsByShard) -> RowAccount:
        """Check all rows and put them in the order of their shards; return their account."""
        read, log, verdicts = 0, ProblemLog(), dict[int, Verdict]()
        for chunks in runs_of(self._inputs, log, self._ram):
            self._progress("runs", read, decided.rows)
            table = Table(chunks, decided.types)
            checked = check_rows(table, self._inputs.columns, self._options, decided.form)
            rows.add(checked)
            read += table.frame.height
            for at, verdict in checked.verdicts.items():
                before = verdicts.get(at, replace(verdict, count=0, places=()))
                verdicts[at] = replace(
                    verdict,
                    count=before.count + verdict.count,
                    places=(*before.places, *verdict.places),
                )
        return account_of(
            read,
            [verdicts[at] for at in sorted(verdicts)],
            log,
            allow_bad_rows=self._options.allow_bad_rows,
        )

    def _items(self, rows: RowsByShard) -> Ids:
        """Return the ids of all items."""
        items = rows.items()
        if len(items) > _MOST_ITEMS:
            raise DataError(
                f"there are {len(items):,} items, and at most {_MOST_ITEMS:,} can be numbered.",
                code="too_many_items",
            )
        return Ids(items.to_numpy())

    def _merge(self, rows: RowsByShard, items: Ids) -> list[_Part]:
        """Write the ids of items, and the rows of all shards with weights as they are."""
        write_arrays(self._folder, id_arrays(items.values, "items"))
        self._files = sums_of(self._folder)
        merging, parts = Merging(), list[_Part]()
        for number in range(len(rows.rows_S)):
            self._progress("shards", number, len(rows.rows_S))
            data = merged(
                rows.shard(number), rows.kind("user"), items, self._options.duplicates, merging
            )
            parts.append(_Part(folder_of(self._folder, number)))
            parts[-1].folder.mkdir()
            write_arrays(parts[-1].folder, arrays_of(data))
            self._count(data)
        if self._inputs.columns.weight:
            merging.require()
        return parts

    def _count(self, data: Interactions) -> None:
        """Count what is said of the rows of all shards."""
        self._counts["duplicates"] += data.account.duplicates
        if data.seen is not None:
            neutral = 0 if data.seen_neutral_E is None else int(data.seen_neutral_E.sum())
            self._counts["seen"] += len(data.seen.items_E)
            self._counts["disliked"] += len(data.seen.items_E) - neutral

    def _finish(
        self, rows: RowsByShard, account: RowAccount, parts: list[_Part], n_items: int
    ) -> None:
        """Transform weights, and write the manifests."""
        columns, given, counts = self._inputs.columns, self._given, self._counts
        weights = columns.offer()
        if columns.weight is not None:
            sentence = transform_weights(parts, n_items, given.weights or "auto")
            weights = weights_sentence(columns.weight, sentence)
        shards = []
        for number in range(len(parts)):
            self._progress("sums", number, len(parts))
            shards.append(seal_shard(self._folder, number, len(parts)))
        least = self._options.min_rating
        about = {
            "columns": columns.sentence(),
            "weighting": weights,
            "kinds": feedback.describe_kinds(
                dict(sorted(rows.events.items())), given.kinds, given.dislike_kinds, self._notes
            )
            if columns.kind
            else "",
            "seen": seen_sentence(
                counts["seen"],
                counts["disliked"],
                least if isinstance(least, int | float) and columns.rating else None,
                given,
            ),
            "notes": self._notes,
        }
        manifest = Manifest(
            ids={"users": rows.kind("user"), "items": rows.kind("item")},
            items=n_items,
            weights=columns.weight is not None,
            times=columns.time is not None,
            account=replace(
                account,
                kept=account.kept - counts["duplicates"],
                duplicates=account.duplicates + counts["duplicates"],
            ),
            shards=tuple(shards),
            files=self._files,
            about=about,
        )
        write_manifest(self._folder, manifest)


@dataclass(frozen=True)
class _Part:
    """The merged rows of a shard on disk, without a manifest; a part of what is weighted."""

    folder: Path
    """The place of its files."""

    @property
    def indptr_U1(self) -> NDArray[np.int64]:
        """The rows of user u are ``indptr_U1[u]`` to ``indptr_U1[u + 1] - 1``."""
        return mapped(self.folder, "indptr", "int64")

    @property
    def items_E(self) -> NDArray[np.int32]:
        """The item of each row."""
        return mapped(self.folder, "items", "int32")

    @property
    def weight_E(self) -> NDArray[np.float32]:
        """The weight of each row."""
        return mapped(self.folder, WEIGHT, "float32")


def transform_weights(parts: list[_Part], n_items: int, how: str) -> str:
    """Transform the weights of all shards, and return what was done in words."""
    decided = Weighing(parts, n_items, how)
    if decided.is_raw:
        return decided.sentence()
    low, high = np.inf, -np.inf
    for part in parts:
        tamed_E = decided.tamed(part)
        low, high = tamed_E.min(initial=low), tamed_E.max(initial=high)
        file_of(part.folder, WEIGHT).unlink()
        write_arrays(part.folder, {WEIGHT: tamed_E})
    return decided.sentence(f"{low:.3g} to {high:.3g}")
