"""The contents of a saved model: its kinds, its arrays, and the checks for damage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.storage.sealed import DamagedError, Tensors

if TYPE_CHECKING:
    from sdgar.models.model import Model

_Array = TypeVar("_Array")
_AT_ONCE = 1 << 20
"""The most rows that are checked at once."""
Wanted = Mapping[str, tuple[Any, tuple[int, ...]]]
"""The type and the shape of each tensor, by its name."""


@dataclass(frozen=True, slots=True)
class Saved:
    """The parts of a saved model, none of which has been checked but for the sizes' types."""

    path: Path
    """The file of the tensors, which errors name."""
    sizes: Mapping[str, int]
    """The numbers of users, items and interactions, and the sizes that the kind of model has."""
    tensors: Tensors
    """The arrays of the file."""
    history: History
    """The items that each user of the model has."""
    about: Mapping[str, Any]
    """What the manifest says about how the model was made."""

    def take(self, wanted: Wanted) -> Tensors:
        """Return the wanted arrays in this order; raise if there are others, or one is damaged."""
        expect(self.path, self.tensors, wanted)
        for name in wanted:
            require_finite(self.path, name, self.tensors[name])
        return {name: self.tensors[name] for name in wanted}


_KINDS = {
    "factors": ("factors", "Factors"),
    "factors of fields": ("factors", "FieldFactors"),
    "factors, encoder": ("network", "EncodedFactors"),
    "item weights": ("item_weights", "ItemWeights"),
    "sparse item weights": ("item_weights", "SparseItemWeights"),
    "local item weights": ("item_weights", "LocalItemWeights"),
    "item vectors": ("item_weights", "ItemVectors"),
    "module": ("network", "ModuleScores"),
    "sum": ("sum", "Sum"),
    "transitions": ("transitions", "TransitionWeights"),
}
"""The module and the class of each kind, which are imported when a model needs them: networks
import torch."""


def model_class(kind: object) -> type[Model] | None:
    """Return the class of a kind of model; None if there is no such kind."""
    if not isinstance(kind, str) or kind not in _KINDS:
        return None
    module, name = _KINDS[kind]
    found: type[Model] = getattr(import_module(f"sdgar.models.{module}"), name)
    return found


def under(prefix: str, named: Mapping[str, _Array]) -> dict[str, _Array]:
    """Return the arrays whose names begin with a prefix, without the prefix."""
    return {n.removeprefix(prefix): array for n, array in named.items() if n.startswith(prefix)}


def expect(path: Path, tensors: Tensors, wanted: Wanted) -> None:
    """Refuse tensors of other names, types or shapes."""
    if set(tensors) != set(wanted):
        raise DamagedError(path, f"it holds {sorted(tensors)}, expected {sorted(wanted)}")
    for name, (dtype, shape) in wanted.items():
        found = tensors[name]
        if found.dtype != dtype or found.shape != shape:
            raise DamagedError(
                path,
                f"{name} is {found.dtype} {found.shape}, expected {np.dtype(dtype)} {shape}",
            )


def check_csr(
    path: Path, name: str, indptr_R1: NDArray[Any], items_E: NDArray[Any], n_items: int
) -> None:
    """Refuse rows that do not follow each other, and items that are not there."""
    falls = (indptr_R1[1:] < indptr_R1[:-1]).any()
    if indptr_R1[0] != 0 or indptr_R1[-1] != len(items_E) or falls:
        raise DamagedError(path, f"{name} does not describe the rows of items_E")
    if len(items_E) and not 0 <= items_E.min() <= items_E.max() < n_items:
        raise DamagedError(path, "an item index lies outside the catalogue")


def require_finite(path: Path, name: str, tensor: NDArray[Any]) -> None:
    """Refuse a tensor with a number that is not finite."""
    for first in range(0, len(tensor), _AT_ONCE):
        rows = tensor[first : first + _AT_ONCE]
        finite = np.isfinite(rows).all(axis=tuple(range(1, tensor.ndim)))
        if not finite.all():
            row = first + int(np.flatnonzero(~finite)[0])
            raise DamagedError(
                path, f"{name} holds a number that is not finite, first in row {row}"
            )
