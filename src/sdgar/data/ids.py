"""Opaque ids: never parsed, rounded or normalised; they come out as they went in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sdgar.errors import DataError

MAX_BYTES = 256
"""Longest id that a file may hold, in UTF-8."""


def plain(value: Any) -> Any:
    """A NumPy number or text as Python has it; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Ids:
    """Distinct ids in ascending order; the position of an id is its index."""

    values: NDArray[Any]
    """int64, uint64, or an object array of str."""

    @classmethod
    def of(cls, values: NDArray[Any]) -> Ids:
        """Wrap ids that are distinct already, after checking their kind."""
        if values.dtype.kind in "OUT":
            values = np.array([str(v) for v in values], dtype=object)
        elif values.dtype.kind == "u" and values.dtype.itemsize == 8:
            values = values.astype(np.uint64)
        elif values.dtype.kind in "iu":
            values = values.astype(np.int64)
        else:
            raise DataError(
                f"ids are of type {values.dtype}, which cannot be an id. Cast them to text or to "
                "integers first; floats lose digits above 2^53.",
                code="float_ids" if values.dtype.kind == "f" else "unsupported_type",
            )
        return cls(values)

    @property
    def kind(self) -> Literal["int64", "uint64", "text"]:
        """How the ids are held."""
        kinds: dict[str, Literal["int64", "uint64", "text"]] = {"i": "int64", "u": "uint64"}
        return kinds.get(self.values.dtype.kind, "text")

    def __len__(self) -> int:
        return len(self.values)

    def at(self, indices: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Ids of some indices."""
        chosen: NDArray[Any] = self.values[indices]
        return chosen

    def index_of(self, raw: Iterable[Any]) -> NDArray[np.int64]:
        """Index of each raw id, -1 where it is unknown.

        An integer and its plain decimal spelling name the same id, so that ``17`` typed on a
        command line finds the integer 17, while ``017`` and ``17.0`` do not.
        """
        array = raw if isinstance(raw, np.ndarray) else np.asarray(list(raw), dtype=object)
        if self.kind != "text" and array.dtype.kind in "iu":
            at = np.searchsorted(self.values, array).clip(max=max(len(self) - 1, 0))
            found = self.values[at] == array if len(self) else np.zeros(len(array), bool)
            return np.where(found, at, -1).astype(np.int64)
        return np.fromiter((self._index.get(str(v), -1) for v in array), np.int64, len(array))

    @cached_property
    def _index(self) -> dict[str, int]:
        return {str(v): i for i, v in enumerate(self.values.tolist())}
