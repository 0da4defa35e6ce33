"""Tables for the CPU kernels: they start with a cache line, and hold moments beside parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sdgar.machine.memory import aligned, is_aligned


def lined_up(tensor: Tensor) -> NDArray[Any]:
    """Return the numbers of a tensor that nobody changes, from where a cache line starts.

    They are copied only if they do not lie so already.
    """
    array = tensor.numpy()
    if is_aligned(array):
        return array
    copy = aligned(array.shape, array.dtype)
    copy[...] = array
    return copy


def packed(parameter: Tensor, columns: int) -> NDArray[np.float32]:
    """Copy a parameter into column 0 of a table; the other columns are moments, and begin at 0."""
    rows = parameter.detach().numpy()
    table = aligned((len(rows), columns, *rows.shape[1:]))
    table[:, 0], table[:, 1:] = rows, 0
    return table


def all_minus_one(n: int) -> NDArray[np.int32]:
    """Allocate n places that point to nothing yet."""
    table = aligned((n,), np.int32)
    table[:] = -1
    return table
