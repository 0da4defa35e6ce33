"""Make shards from files of any size, in bounded RAM.

    1  survey   all rows are read once: what must be known of all of them is decided
    2  runs     rows are read again, checked, and written in the order of their shards
    3  items    the items of all runs get the numbers of a load in RAM
    4  shards   the rows of each shard are merged; a pair that occurs twice counts once
    5  ranks    users get the numbers of a load in RAM
    6  sums     weights are transformed, and every file gets its SHA-256

RAM holds one run or one shard at a time, and the ids of all items.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sdgar.data import feedback
from sdgar.data.account import RowAccount
from sdgar.data.building import Merging
from sdgar.data.id_file import id_arrays
from sdgar.data.ids import Ids
from sdgar.data.read_options import USER, ReadOptions
from sdgar.data.readers.chunks import Chunk, Table
from sdgar.data.readers.cleaning import Verdict, account_of, check_rows
from sdgar.data.readers.indexing import lookalikes
from sdgar.data.readers.inputs import InputFiles
from sdgar.data.readers.load import seen_sentence, weights_sentence
from sdgar.data.readers.problems import ProblemLog
from sdgar.data.readers.survey import Decided, Survey
from sdgar.errors import SdgarWarning, UsageError
from sdgar.scale.shards.format import write_plain
from sdgar.scale.shards.merging import (
    all_items,
    kind_of,
    read_stage,
    write_numbers,
    write_ranks,
    write_stage,
)
from sdgar.scale.shards.runs import Limits, Run, as_column, find_inputs, read_run, write_run
from sdgar.scale.shards.shards import Shards, ids_in
from sdgar.scale.shards.workplace import Workplace, seal_all, seal_shard, weighing
from sdgar.scale.shards.writing import require_free, require_shards
from sdgar.storage import folders

_ROWS_EACH = 1_000_000
"""The approximate rows of a shard, if the number of shards is not given."""

Progress = Callable[[str, int, int], None]
"""A function that takes the step, how much of it is done, and how much there is to do."""


def shard_files(
    paths: Sequence[str | Path],
    out: str | Path,
    options: ReadOptions | None = None,
    *,
    n_shards: int | None = None,
    overwrite: bool = False,
    limits: Limits | None = None,
    progress: Progress = lambda step, done, total: None,
) -> Shards:
    """Make a folder of shards from files, folders and patterns; it is whole or absent.

    An interrupted call resumes where it was when it is repeated, with bit-identical shards.
    """
    options, limits = options or ReadOptions(), limits or Limits()
    if options.context != USER:
        raise UsageError(
            f"shards hold the rows of users, and --context has {', '.join(options.context)}. "
            "Leave it out.",
            code="bad_context",
        )
    if n_shards is not None:
        require_shards(n_shards)
    inputs = find_inputs(paths, options)
    place = folders.place_of(out)
    plan = {
        "files": inputs.identity(),
        "options": asdict(options),
        "shards": n_shards,
        "limits": [limits.ram, limits.block, limits.rows],
    }
    work = Workplace(place, plan)
    if work.is_done():
        work.remove()
        return Shards.open(place)
    require_free(place, overwrite=overwrite)
    with work:
        if work.note:
            warnings.warn(work.note, SdgarWarning, stacklevel=2)
        _Build(work, inputs, options, limits, progress).make(n_shards)
    return Shards.open(place)


class _Build:
    """The work on one folder of shards, step by step."""

    def __init__(
        self,
        work: Workplace,
        inputs: InputFiles,
        options: ReadOptions,
        limits: Limits,
        progress: Progress,
    ) -> None:
        self._work = work
        self._inputs = inputs
        self._given = options
        self._limits = limits
        self._progress = progress

    def make(self, n_shards: int | None) -> None:
        """Do what is not done yet."""
        decided = self._survey()
        self._options = decided.options(self._given)
        n = n_shards or max(1, -(-decided.rows // _ROWS_EACH))
        merged = self._work.kept("merged.json") or self._merge(decided, n)
        stages = [self._work.stage(number) for number in range(n)]
        self._progress("ranks", 0, 1)
        write_ranks(stages, merged["kinds"]["users"])
        self._seal(merged, stages)

    def _survey(self) -> Decided:
        kept = self._work.kept("survey.json")
        if kept is not None:
            self._inputs.notes.extend(kept["notes"])
            return Decided.of_dict(kept)
        survey = Survey(self._inputs.columns, self._given, untyped=self._inputs.untyped)
        notes: list[str] = []
        for chunk in self._inputs.chunks(ProblemLog(), notes, self._limits.block):
            survey.add(chunk)
            self._progress("survey", survey.rows, 0)
        decided = survey.decided()
        self._work.keep("survey.json", decided.as_dict() | {"notes": notes})
        self._inputs.notes.extend(notes)
        return decided

    def _merge(self, decided: Decided, n_shards: int) -> dict[str, Any]:
        """Write runs and merge them; return what is known of all rows then."""
        runs = self._runs(decided, n_shards)
        account = self._account(runs)
        self._require_ram(runs, n_shards)
        columns = self._inputs.columns
        kind = {
            "users": kind_of(runs, "users", columns.user),
            "items": kind_of(runs, "items", columns.item),
        }
        items = self._items(runs, kind["items"])
        merging, duplicates, seen, neutral = Merging(), 0, 0, 0
        for number in range(n_shards):
            self._progress("shards", number, n_shards)
            place = self._work.stage(number)
            if not place.exists():
                write_stage(place, runs, number, items, kind["users"], self._options.duplicates)
            stage = read_stage(place)
            merging.add(stage.merging)
            duplicates += stage.duplicates
            seen, neutral = seen + stage.seen, neutral + stage.neutral
        if columns.weight:
            merging.require()
        account = replace(
            account, kept=account.kept - duplicates, duplicates=account.duplicates + duplicates
        )
        counts: Counter[str] = Counter()
        for run in runs:
            counts.update(run.kinds)
        merged = {
            "account": account.as_dict(),
            "kinds": kind,
            "items": len(items),
            "seen": seen,
            "neutral": neutral,
            "events": dict(sorted(counts.items())),
            "notes": lookalikes(as_column(items.values), columns.item)
            if items.kind == "text"
            else [],
        }
        self._work.keep("merged.json", merged)
        self._work.remove_runs()
        return merged

    def _runs(self, decided: Decided, n_shards: int) -> list[Run]:
        """Write the runs that are not there yet, and return all of them."""
        runs: list[Run] = []
        done = self._work.kept("runs.json")
        while self._work.run(len(runs)).exists():
            runs.append(read_run(self._work.run(len(runs))))
        if done is not None:
            return runs
        rows = sum(run.rows for run in runs)
        for chunks, log in self._batches(skipped=sum(run.chunks for run in runs)):
            self._progress("runs", rows, decided.rows)
            table = Table(chunks, decided.types)
            place = self._work.run(len(runs))
            write_run(
                place,
                check_rows(table, self._inputs.columns, self._options, decided.form),
                self._inputs.columns,
                log,
                chunks=len(chunks),
                n_shards=n_shards,
                untyped=self._inputs.untyped,
            )
            runs.append(read_run(place))
            rows += runs[-1].rows
        self._work.keep("runs.json", {"runs": len(runs)})
        return runs

    def _batches(self, skipped: int) -> Iterator[tuple[list[Chunk], ProblemLog]]:
        """Yield chunks that fit in RAM together, after some that were looked at before."""
        chunks: list[Chunk] = []
        unread, log = ProblemLog(), ProblemLog()
        rows = size = 0
        for number, chunk in enumerate(self._inputs.chunks(unread, [], self._limits.block)):
            found = unread.taken()
            if number < skipped:
                continue
            chunk_bytes = chunk.frame.estimated_size()
            full = rows + chunk.frame.height > self._limits.rows
            if chunks and (full or size + chunk_bytes > self._limits.run_bytes):
                yield chunks, log
                chunks, log, rows, size = [], ProblemLog(), 0, 0
            chunks.append(chunk)
            for problem in found.problems():
                log.add(problem.code, problem.places, problem.count)
            rows, size = rows + chunk.frame.height, size + int(chunk_bytes)
        if chunks:
            yield chunks, log

    def _account(self, runs: list[Run]) -> RowAccount:
        """Return the account of all rows, as a load in RAM gives it."""
        log = ProblemLog()
        verdicts: dict[int, Verdict] = {}
        for run in runs:
            for problem in run.unread:
                log.add(problem.code, problem.places, problem.count)
            for at, verdict in run.verdicts.items():
                before = verdicts.get(at)
                if before is not None:
                    places = (*before.places, *verdict.places)
                    verdict = replace(verdict, count=before.count + verdict.count, places=places)
                verdicts[at] = verdict
        return account_of(
            sum(run.rows for run in runs),
            [verdicts[at] for at in sorted(verdicts)],
            log,
            allow_bad_rows=self._options.allow_bad_rows,
        )

    def _require_ram(self, runs: list[Run], n_shards: int) -> None:
        """Raise if the largest shard cannot be merged in the RAM that is allowed."""
        rows_S = sum(run.starts("row")[1:] - run.starts("row")[:-1] for run in runs)
        self._limits.require_shard(int(max(rows_S)), n_shards)  # type: ignore[arg-type]

    def _items(self, runs: list[Run], kind: str) -> Ids:
        """Number the items of all runs."""
        self._progress("items", 0, len(runs))
        if not self._work.items.exists():
            with folders.whole(self._work.items, replace=False) as temporary:
                items = all_items(runs, kind)
                write_plain(temporary, id_arrays(items, "items"))
                self._work.keep("items.json", {"items": len(items)})
        known = self._work.kept("items.json") or {}
        items = ids_in(self._work.items, "items", kind, known["items"])
        for number, run in enumerate(runs):
            self._progress("items", number, len(runs))
            write_numbers(run, items)
        return items

    def _seal(self, merged: dict[str, Any], stages: list[Path]) -> None:
        """Transform weights, sum up all files, and make the shards appear."""
        columns = self._inputs.columns
        said, weights = columns.offer(), None
        if columns.weight is not None:
            weights, sentence = weighing(stages, merged["items"], self._given.weights or "auto")
            said = weights_sentence(columns.weight, sentence)
        parts = []
        for number in range(len(stages)):
            self._progress("sums", number, len(stages))
            parts.append(seal_shard(self._work, number, len(stages), weights))
        notes = [*self._inputs.notes, *merged["notes"]]
        given, least = self._given, self._options.min_rating
        about = {
            "columns": columns.sentence(),
            "weighting": said,
            "kinds": feedback.describe_kinds(
                merged["events"], given.kinds, given.dislike_kinds, notes
            )
            if columns.kind
            else "",
            "seen": seen_sentence(
                merged["seen"],
                merged["seen"] - merged["neutral"],
                least if isinstance(least, int | float) and columns.rating else None,
                given,
            ),
            "notes": notes,
        }
        seal_all(
            self._work,
            parts,
            kinds=merged["kinds"],
            n_items=merged["items"],
            account=RowAccount(**merged["account"]),
            times=columns.time is not None,
            weights=weights is not None,
            about=about,
        )
