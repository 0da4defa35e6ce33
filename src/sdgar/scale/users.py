"""Vectors and states of users, shard by shard, while users of other shards are trained.

A file is never changed: putting a shard writes the next version of it, and a version is removed
once no checkpoint needs it. So a run that is killed in the middle of an epoch finds the users as
they were when its last checkpoint was written.

Several workers may share a folder. All count the versions of all shards, and each writes and
removes the versions of the shards that it owns. Another worker can read them once all have met.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.errors import ArtifactError
from sdgar.storage import folders
from sdgar.storage.arrays import map_tensors, reserve, write_tensors
from sdgar.storage.files import disk_error

Arrays = dict[str, NDArray[Any]]
"""Arrays by name, each with a row for every user of a shard."""
Places = Sequence[tuple[int, slice]]
"""The numbers of consecutive shards, with the places of their users in a block."""


class UserStore:
    """Vectors and states of users between two visits, where no checkpoint restores them.

    They are in RAM, or on the device that trains (``on_device``). A subclass keeps them in files.
    """

    def __init__(self, *, on_device: bool = False) -> None:
        self.on_device = on_device
        self._kept: dict[tuple[int, str], dict[str, Tensor]] = {}

    def has(self, shard: int, kind: str) -> bool:
        """Return whether a shard has stored arrays."""
        return (shard, kind) in self._kept

    def get(self, shard: int, kind: str) -> Arrays | None:
        """Return the stored arrays of a shard; None without."""
        if not self.has(shard, kind):
            return None
        return {name: table.cpu().numpy() for name, table in self._kept[shard, kind].items()}

    def put(self, shard: int, kind: str, arrays: Arrays) -> None:
        """Keep a copy of the ``vectors`` or the ``states`` of the users of a shard."""
        kept = self._kept.setdefault((shard, kind), {})
        for name, array in arrays.items():
            if name in kept:  # allocated memory is faster than new memory
                kept[name].numpy()[...] = array
            else:
                kept[name] = torch.from_numpy(np.array(array))

    def keep(self, shard: int, kind: str, tables: dict[str, Tensor]) -> None:
        """Keep a copy of tables that are on the device."""
        self._kept[shard, kind] = {name: table.clone() for name, table in tables.items()}

    def join(self, shards: range, kind: str) -> dict[str, Tensor] | None:
        """Return the tables of consecutive shards, concatenated; None without."""
        if not self.has(shards[0], kind):
            return None
        parts = [self._kept[shard, kind] for shard in shards]
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def allocate(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Allocate an array for all users."""
        return np.empty(shape, np.float32)

    def state(self) -> Tensor:
        """Return a tensor by which ``load_state`` returns to what is stored now."""
        return torch.zeros(0)

    def load_state(self, state: Tensor) -> None:
        """Return to what was stored when ``state`` returned this."""

    def read(self, kind: str, places: Places, wanted: Collection[int]) -> Arrays | None:
        """Return the stored arrays of shards by their places, concatenated; None without.

        Only the ``wanted`` shards are read, and the rows of the others are 0.
        """
        found: Arrays = {}
        for shard, place in places:
            if shard not in wanted:
                continue
            arrays = self.get(shard, kind)
            if arrays is None:
                return None
            for name, array in arrays.items():
                if name not in found:
                    n_users = places[-1][1].stop
                    found[name] = np.zeros((n_users, *array.shape[1:]), array.dtype)
                found[name][place] = array
        return found

    def store(self, kind: str, places: Places, arrays: Arrays) -> None:
        """Put the arrays of consecutive shards, shard by shard."""
        for shard, place in places:
            self.put(shard, kind, {name: array[place] for name, array in arrays.items()})


KINDS = ("vectors", "states")
"""The kinds of files of a shard."""
_STATES_KEPT = 3
"""The number of states that can be restored: the present one and the last checkpoints."""

Versions = dict[tuple[int, str], int]


class UsersOnDisk(UserStore):
    """Users of all shards in a folder."""

    def __init__(
        self, folder: Path, n_shards: int, owns: Callable[[int], bool] = lambda shard: True
    ) -> None:
        """Open a folder; ``owns`` decides which shards this process writes."""
        super().__init__()
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._n_shards, self._owns = folder, n_shards, owns
        self._now: Versions = {}
        self._states: deque[Versions] = deque(maxlen=_STATES_KEPT)

    def has(self, shard: int, kind: str) -> bool:
        """Return whether a shard has stored arrays."""
        return (shard, kind) in self._now

    def get(self, shard: int, kind: str) -> Arrays | None:
        """Map the stored arrays of a shard from its file; None without."""
        version = self._now.get((shard, kind))
        if version is None:
            return None
        path = self._path(shard, kind, version)
        try:
            return dict(map_tensors(path))
        except (OSError, ValueError) as error:
            raise _lost(path, f"cannot be read ({error})") from error

    def put(self, shard: int, kind: str, arrays: Arrays) -> None:
        """Write the next version of a shard's arrays, if this process owns the shard."""
        version = self._now.get((shard, kind), 0) + 1
        self._now[shard, kind] = version
        if not self._owns(shard):
            return
        path = self._path(shard, kind, version)
        writing = path.with_suffix(".tmp")
        try:
            writing.unlink(missing_ok=True)
            write_tensors(writing, arrays)
            writing.replace(path)
        except OSError as error:
            raise disk_error(path, error) from error
        self._prune(shard, kind)

    def allocate(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Allocate an array for all users, in a file."""
        path = self._folder / name
        try:
            array = np.memmap(path, np.float32, "w+", shape=shape)
            reserve(path)
        except OSError as error:
            raise disk_error(path, error) from error
        return array

    def state(self) -> Tensor:
        """Return the present versions, which can be restored until two more calls."""
        folders.sync(self._folder)
        self._states.append(dict(self._now))
        versions = [[self._now.get((s, kind), 0) for kind in KINDS] for s in range(self._n_shards)]
        return torch.tensor(versions)

    def load_state(self, state: Tensor) -> None:
        """Return to the versions of a state."""
        self._now = {
            (shard, kind): int(version)
            for shard, row in enumerate(state)
            for kind, version in zip(KINDS, row, strict=True)
            if version > 0
        }
        self._states.append(dict(self._now))
        for key, version in self._now.items():
            if not (path := self._path(*key, version)).exists():
                raise _lost(path, "is missing")
        for shard in range(self._n_shards):
            for kind in KINDS:
                self._prune(shard, kind)

    def _prune(self, shard: int, kind: str) -> None:
        """Remove the versions of an own shard that no state has."""
        if not self._owns(shard):
            return
        key = shard, kind
        wanted = {
            self._path(*key, versions[key])
            for versions in (*self._states, self._now)
            if key in versions
        }
        for path in self._folder.glob(f"{kind}-{shard:05d}-*.safetensors"):
            if path not in wanted:
                path.unlink()

    def _path(self, shard: int, kind: str, version: int) -> Path:
        return self._folder / f"{kind}-{shard:05d}-{version:09d}.safetensors"


def _lost(path: Path, why: str) -> ArtifactError:
    return ArtifactError(
        f"{path} {why}, so the run cannot resume from its last checkpoint. Start over with "
        "--overwrite.",
        code="damaged",
    )
