"""Arrays in files that are mapped into memory: they may be larger than the memory of the machine.

The system keeps pages of such a file in memory as long as there is room, and writes them to the
disk when it needs the room for something else.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def reserve(path: Path) -> None:
    """Reserve room for all of a file; raise ``OSError`` if the disk has none.

    A page of a mapped file that the disk has no room for would end the process.
    """
    if hasattr(os, "posix_fallocate") and (size := path.stat().st_size):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, size)


class MappedArrays:
    """New arrays in the files ``NAME.npy`` of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def array(self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return a new array to be filled; raise ``OSError`` if the disk has no room for it."""
        path = self._folder / f"{name}.npy"
        sizes = (shape,) if isinstance(shape, int) else shape
        mapped = np.lib.format.open_memmap(path, "w+", dtype, sizes)
        reserve(path)
        return np.asarray(mapped)

    def keep(self, names: Collection[str]) -> None:
        """Wait until the disk has these arrays, and remove the files of all others.

        An array whose file is removed can be used as long as it is referred to.
        """
        for path in sorted(self._folder.glob("*.npy")):
            if path.name.removesuffix(".npy") not in names:
                path.unlink()
                continue
            with path.open("rb") as file:
                os.fsync(file.fileno())
