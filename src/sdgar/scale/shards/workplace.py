"""The folder OUT.partial holds unfinished shards; it is removed when OUT is complete.

    plan.json      the files and options that it was begun with, sealed
    lock           held by the process that works there
    *.json         what is decided so far
    runs/          checked rows, a folder for each run
    items/         the ids of items
    stages/        merged rows, a folder for each shard
    whole/         what becomes OUT in one rename

Every piece appears in one rename. The same command resumes from the pieces that are there; with
other files or options, it starts again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sdgar.data.account import RowAccount
from sdgar.data.weighting import Weighing
from sdgar.errors import DataError, UsageError
from sdgar.scale.shards.format import (
    Part,
    file_of,
    folder_of,
    mapped,
    read_part,
    sums_of,
    write_described,
    write_part,
    write_plain,
)
from sdgar.scale.shards.merging import RAW, read_stage
from sdgar.storage import files, folders, sealed
from sdgar.storage.files import disk_error, replacing
from sdgar.storage.sealed import DamagedError

_PLAN, _LOCK, _DONE = "plan.json", "lock", "done.json"
_RUNS, _STAGES, _WHOLE = "runs", "stages", "whole"
_FORMAT = "sdgar-shards-plan"


def partial_of(out: Path) -> Path:
    """Return the folder of unfinished shards."""
    return folders.place_of(out.with_name(f"{out.name}.partial"))


class Workplace:
    """The folder of unfinished shards, while one process works in it."""

    def __init__(self, out: Path, plan: Mapping[str, Any]) -> None:
        self.folder = partial_of(out)
        self.whole = self.folder / _WHOLE
        self.items = self.folder / "items"
        self.note: str | None = None
        self._out = out
        self._plan = json.loads(json.dumps({"format": _FORMAT, **plan}))
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        files.require_locks()
        try:
            with ExitStack() as opening:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._require_ours()
                lock = opening.enter_context((self.folder / _LOCK).open("a"))
                try:
                    files.lock(lock)
                except BlockingIOError as error:
                    raise UsageError(
                        f"another process is writing to {self.folder}. Wait for it, or choose "
                        "another place.",
                        code="locked",
                    ) from error
                self._begin()
                self._stack = opening.pop_all()
        except OSError as error:
            raise disk_error(self.folder, error) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Keep what is done if the work can be resumed; bad input leaves nothing behind."""
        with self._stack:
            if error is None or isinstance(error, DataError | UsageError):
                self.remove()
        if isinstance(error, OSError):
            raise disk_error(self.folder, error) from error

    def remove(self) -> None:
        """Remove the folder; until the last moment it says that its work is done."""
        with suppress(OSError):
            for entry in list(self.folder.iterdir()):
                if entry.is_dir():
                    shutil.rmtree(entry)
            folders.remove(self.folder)

    def _require_ours(self) -> None:
        """Raise if the folder holds something else; a killed process may have left half a plan."""
        names = [entry.name for entry in self.folder.iterdir()]
        others = [name for name in names if name != _LOCK and not name.startswith(f".{_PLAN}")]
        if others and _PLAN not in others:
            raise folders.in_the_way(
                self.folder, sorted(others), "is not part of unfinished shards"
            )

    def _begin(self) -> None:
        """Resume from what is there, or start again if that was made from something else."""
        changed = self._changed()
        if changed:
            self.note = (
                f"{self.folder} was begun with other {' and '.join(changed)}: its work is not "
                "used, and starts again."
            )
        if changed or not (self.folder / _PLAN).exists():
            self.keep(_PLAN, {"format": _FORMAT})  # until all that is old is gone
            for entry in list(self.folder.iterdir()):
                if entry.name not in (_LOCK, _PLAN):
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            self.keep(_PLAN, self._plan)
        for name in (_RUNS, _STAGES, _WHOLE):
            (self.folder / name).mkdir(exist_ok=True)

    def _changed(self) -> list[str]:
        """Return what the work that is there was begun with, and is not the same now."""
        try:
            found = self.kept(_PLAN)
        except DamagedError:
            return ["plan"]
        if found is None:
            return []
        return [name for name in self._plan if found.get(name) != self._plan[name]]

    def keep(self, name: str, table: Mapping[str, Any]) -> None:
        """Write a sealed table, whole or not at all."""
        with replacing(self.folder / name) as temporary:
            temporary.write_text(json.dumps(sealed.with_seal(table)))

    def kept(self, name: str) -> dict[str, Any] | None:
        """Return a table that was kept; None if there is none."""
        path = self.folder / name
        if not path.exists():
            return None
        table = sealed.read_table(path)
        sealed.check_seal(path, table)
        table.pop(sealed.SEAL)
        return table

    def run(self, number: int) -> Path:
        """Return the folder of a run."""
        return self.folder / _RUNS / f"{number:06d}"

    def remove_runs(self) -> None:
        """Remove the runs, which are merged."""
        shutil.rmtree(self.folder / _RUNS)
        (self.folder / _RUNS).mkdir()

    def stage(self, number: int) -> Path:
        """Return the folder of the merged rows of a shard."""
        return self.folder / _STAGES / f"{number:05d}"

    def is_done(self) -> bool:
        """Return whether the same work was done, and killed before it removed this folder."""
        manifest = self._out / sealed.MANIFEST
        if not (self.folder / _PLAN).exists() or self._changed() or not manifest.exists():
            return False
        done = self.kept(_DONE)
        return done is not None and bool(
            sealed.read_table(manifest).get(sealed.SEAL) == done["seal"]
        )

    def finish(self) -> None:
        """Make OUT of what is whole."""
        seal = sealed.read_table(self.whole / sealed.MANIFEST)[sealed.SEAL]
        self.keep(_DONE, {"seal": seal})
        folders.sync(self.whole)
        if self._out.exists() and any(self._out.iterdir()):
            folders.remove(self._out)
        self.whole.replace(self._out)
        folders.sync(self._out.parent)


def link(source: Path, target: Path) -> None:
    """Return a file a second name, or copy it where a file system has no such names."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


_WEIGHT = "weight"


@dataclass(frozen=True)
class _Staged:
    """The merged rows of a shard, with raw weights."""

    folder: Path

    @property
    def indptr_U1(self) -> NDArray[np.int64]:
        return mapped(self.folder, "indptr", "int64", None)

    @property
    def items_E(self) -> NDArray[np.int32]:
        return mapped(self.folder, "items", "int32", None)

    @property
    def weight_E(self) -> NDArray[np.float32]:
        return mapped(self.folder, RAW, "float32", None)


def weighing(stages: list[Path], n_items: int, how: str) -> tuple[Weighing, str]:
    """Decide how weights are transformed, and return what is said of it."""
    staged = [_Staged(folder) for folder in stages]
    decided = Weighing(staged, n_items, how)
    if decided.is_raw:
        return decided, decided.sentence()
    low, high = np.inf, -np.inf
    for one in staged:
        tamed_E = decided.tamed(one)
        low, high = tamed_E.min(initial=low), tamed_E.max(initial=high)
    return decided, decided.sentence(f"{low:.3g} to {high:.3g}")


def seal_shard(work: Workplace, number: int, of: int, weights: Weighing | None) -> Part:
    """Make one shard of its merged rows, whole or not at all, and return what is known of it."""
    place, stage = folder_of(work.whole, number), work.stage(number)
    if place.exists():
        return read_part(place)
    known = read_stage(stage)
    with folders.whole(place, replace=False) as temporary:
        for path in stage.glob("*.npy"):
            if path != file_of(stage, RAW):
                link(path, temporary / path.name)
        if weights is not None and weights.is_raw:
            link(file_of(stage, RAW), file_of(temporary, _WEIGHT))
        elif weights is not None:
            write_plain(temporary, {_WEIGHT: weights.tamed(_Staged(stage))})
        sizes = (known.users, known.rows, known.seen)
        return write_part(temporary, number, of, sizes, sums_of(temporary))


def seal_all(
    work: Workplace,
    parts: list[Part],
    *,
    kinds: Mapping[str, str],
    n_items: int,
    account: RowAccount,
    times: bool,
    weights: bool,
    about: Mapping[str, Any],
) -> None:
    """Write the manifest of all shards, and make them appear."""
    for path in work.items.glob("*.npy"):
        if not (work.whole / path.name).exists():
            link(path, work.whole / path.name)
    (work.whole / sealed.MANIFEST).unlink(missing_ok=True)
    write_described(
        work.whole,
        kinds=kinds,
        items=n_items,
        parts=parts,
        account=account,
        weights=weights,
        times=times,
        files=sums_of(work.whole),
        about=about,
    )
    work.finish()
