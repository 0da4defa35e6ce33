"""What belongs to the users of blocks, in files: one for each block and kind, written anew.

A file is never changed: putting a block writes the next version of it, and a version is removed
once no state that may still be gone back to has it. So a run that is killed in the middle of an
epoch finds the users as they were when its last checkpoint was written.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.errors import ArtifactError
from sdgar.storage import folders

KINDS = ("vectors", "states")
"""The kinds of files of a block."""
_STATES_KEPT = 3
"""How many states may still be gone back to: that of now, and those of the last checkpoints."""

Versions = dict[tuple[int, str], int]


class UsersOnDisk:
    """A folder for the users of blocks; see ``engines.blocks.Users``."""

    def __init__(self, folder: Path, n_blocks: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._n_blocks = folder, n_blocks
        self._now: Versions = {}
        self._next = 1 + max(map(_version, folder.glob("*.safetensors")), default=0)
        self._kept: deque[Versions] = deque(maxlen=_STATES_KEPT)

    def has(self, block: int, kind: str) -> bool:
        """Tell whether something was put for a block."""
        return (block, kind) in self._now

    def take(self, block: int, kind: str) -> dict[str, NDArray[Any]]:
        """Read what was put for a block; nothing if nothing was."""
        version = self._now.get((block, kind))
        if version is None:
            return {}
        import safetensors.numpy

        path = self._path(block, kind, version)
        try:
            return safetensors.numpy.load_file(path)
        except (OSError, safetensors.SafetensorError) as error:
            raise ArtifactError(
                f"{path} cannot be read ({error}), so the run cannot go on from its last "
                "checkpoint. Start over with --overwrite.",
                code="damaged",
            ) from error

    def put(self, block: int, kind: str, arrays: dict[str, NDArray[Any]]) -> None:
        """Write the next version of what belongs to the users of a block."""
        version, self._next = self._next, self._next + 1
        path = self._path(block, kind, version)
        writing = path.with_suffix(".tmp")
        writing.unlink(missing_ok=True)
        folders.write_tensors(writing, arrays)
        writing.rename(path)
        self._now[block, kind] = version
        self._prune()

    def room(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Return room for numbers of all users, in a file."""
        return np.memmap(self._folder / name, np.float32, "w+", shape=shape)

    def state(self) -> Tensor:
        """Return the versions of now, which can be gone back to until two more were asked for."""
        folders.sync(self._folder)
        self._kept.append(dict(self._now))
        versions = [[self._now.get((b, kind), 0) for kind in KINDS] for b in range(self._n_blocks)]
        return torch.tensor(versions)

    def load_state(self, versions_BK: Tensor) -> None:
        """Go back to the versions of a state."""
        self._now = {
            (block, kind): int(version)
            for block, row in enumerate(versions_BK)
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
        self._prune()

    def _prune(self) -> None:
        wanted = {
            self._path(*key, version)
            for versions in (*self._kept, self._now)
            for key, version in versions.items()
        }
        for path in self._folder.glob("*.safetensors"):
            if path not in wanted:
                path.unlink()

    def _path(self, block: int, kind: str, version: int) -> Path:
        return self._folder / f"{kind}-{block:05d}-{version:09d}.safetensors"


def _version(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])
