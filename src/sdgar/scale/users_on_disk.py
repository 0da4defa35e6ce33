"""What belongs to users, in files: one for each shard and kind, written anew.

A file is never changed: putting a shard writes the next version of it, and a version is removed
once no state that may still be gone back to has it. So a run that is killed in the middle of an
epoch finds the users as they were when its last checkpoint was written.

Several workers may share a folder. All count the versions of all shards, and each writes and
removes those of its own shards; what another one has written can be read once all have met.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.errors import ArtifactError
from sdgar.storage import folders
from sdgar.storage.mapped import reserve
from sdgar.storage.whole_files import disk_error

KINDS = ("vectors", "states")
"""The kinds of files of a shard."""
_STATES_KEPT = 3
"""How many states may still be gone back to: that of now, and those of the last checkpoints."""

Versions = dict[tuple[int, str], int]


class UsersOnDisk:
    """A folder for the users of shards; see ``engines.users.Users``."""

    def __init__(
        self, folder: Path, n_shards: int, owns: Callable[[int], bool] = lambda shard: True
    ) -> None:
        """Open a folder; ``owns`` tells which shards are written here."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._n_shards, self._owns = folder, n_shards, owns
        self._now: Versions = {}
        self._kept: deque[Versions] = deque(maxlen=_STATES_KEPT)

    def has(self, shard: int, kind: str) -> bool:
        """Tell whether something was put for a shard."""
        return (shard, kind) in self._now

    def take(self, shard: int, kind: str) -> dict[str, NDArray[Any]] | None:
        """Map what was put for a shard into memory; None if nothing was."""
        version = self._now.get((shard, kind))
        if version is None:
            return None
        path = self._path(shard, kind, version)
        try:
            return dict(folders.map_tensors(path))
        except (OSError, ValueError) as error:
            raise ArtifactError(
                f"{path} cannot be read ({error}), so the run cannot go on from its last "
                "checkpoint. Start over with --overwrite.",
                code="damaged",
            ) from error

    def put(self, shard: int, kind: str, arrays: dict[str, NDArray[Any]]) -> None:
        """Write the next version of what belongs to the users of a shard, if it is our own."""
        version = self._now.get((shard, kind), 0) + 1
        self._now[shard, kind] = version
        if not self._owns(shard):
            return
        path = self._path(shard, kind, version)
        writing = path.with_suffix(".tmp")
        try:
            writing.unlink(missing_ok=True)
            folders.write_tensors(writing, arrays)
            writing.replace(path)
        except OSError as error:
            raise disk_error(path, error) from error
        self._prune(shard, kind)

    def room(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Return room for numbers of all users, in a file."""
        path = self._folder / name
        try:
            room = np.memmap(path, np.float32, "w+", shape=shape)
            reserve(path)
        except OSError as error:
            raise disk_error(path, error) from error
        return room

    def state(self) -> Tensor:
        """Return the versions of now, which can be gone back to until two more were asked for."""
        folders.sync(self._folder)
        self._kept.append(dict(self._now))
        versions = [[self._now.get((s, kind), 0) for kind in KINDS] for s in range(self._n_shards)]
        return torch.tensor(versions)

    def load_state(self, versions_SK: Tensor) -> None:
        """Go back to the versions of a state."""
        self._now = {
            (shard, kind): int(version)
            for shard, row in enumerate(versions_SK)
            for kind, version in zip(KINDS, row, strict=True)
            if version > 0
        }
        self._kept.append(dict(self._now))
        missing = [self._path(*key, v) for key, v in self._now.items()]
        if gone := [path for path in missing if not path.exists()]:
            raise ArtifactError(
                f"{gone[0]} is missing, so the run cannot go on from its last checkpoint. Start "
                "over with --overwrite.",
                code="damaged",
            )
        for shard in range(self._n_shards):
            for kind in KINDS:
                self._prune(shard, kind)

    def _prune(self, shard: int, kind: str) -> None:
        """Remove the versions of one of our own shards that no state has."""
        if not self._owns(shard):
            return
        key = shard, kind
        wanted = {
            self._path(*key, versions[key])
            for versions in (*self._kept, self._now)
            if key in versions
        }
        for path in self._folder.glob(f"{kind}-{shard:05d}-*.safetensors"):
            if path not in wanted:
                path.unlink()

    def _path(self, shard: int, kind: str, version: int) -> Path:
        return self._folder / f"{kind}-{shard:05d}-{version:09d}.safetensors"
