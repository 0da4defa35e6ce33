"""What a saved model consists of, and the checks that nothing in it is damaged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.maths.rows import Rows
from sdgar.maths.sparse import SparseMatrix
from sdgar.storage.folders import DamagedError, Tensors

if TYPE_CHECKING:
    from sdgar.data.history import History

_AT_ONCE = 1 << 20
"""The most rows that are looked at at once."""
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
    """What the manifest says of how the model was made."""
    mapped: bool = False
    """Whether the arrays are mapped from files, so that none of them should be copied."""

    def take(self, wanted: Wanted) -> Tensors:
        """Give the arrays in the order that is wanted, if these are all there are and finite."""
        expect(self.path, self.tensors, wanted)
        for name in wanted:
            require_finite(self.path, name, self.tensors[name])
        return {name: self.tensors[name] for name in wanted}

    def matrix(
        self,
        start_R1: NDArray[np.int64],
        items_E: NDArray[np.int32],
        weight_E: NDArray[np.float32] | None = None,
    ) -> SparseMatrix:
        """Give rows of items as a matrix on the CPU; of the same memory if arrays are mapped."""
        n_items = self.sizes["items"]
        if self.mapped:
            arrays = (start_R1, items_E) if weight_E is None else (start_R1, items_E, weight_E)
            return SparseMatrix.of_rows(Rows(*arrays), n_items)
        return SparseMatrix.of(start_R1, items_E, n_items, weight_E, device=torch.device("cpu"))


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


def array(tensor: Tensor, dtype: type) -> NDArray[Any]:
    """Give a tensor as an array in the memory of the host."""
    return np.ascontiguousarray(tensor.detach().cpu().numpy(), dtype)
