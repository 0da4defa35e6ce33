"""Where arrays lie that may be larger than memory: in memory, or wherever somebody puts them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray


class Place(Protocol):
    """A place for arrays, such as files that are mapped into memory."""

    def array(self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return a new array to be filled."""
        ...


class InMemory:
    """A place in the memory of the process."""

    def array(self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return a new array to be filled; memory needs no names."""
        return np.empty(shape, dtype)
