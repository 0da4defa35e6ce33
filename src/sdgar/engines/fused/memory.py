"""Tables for the CPU kernels: they start with a cache line, and hold moments beside parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

_LINE = 64
"""The number of bytes of a cache line."""


def aligned(shape: tuple[int, ...], dtype: Any = np.float32) -> NDArray[Any]:
    """Allocate room that starts with a cache line; NumPy asks for huge pages where it is large."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(size + _LINE, np.uint8)
    start = -room.ctypes.data % _LINE
    table: NDArray[Any] = room[start : start + size].view(dtype).reshape(shape)
    return table


def aligned_copy(tensor: Tensor) -> NDArray[Any]:
    """Copy a tensor to where it starts with a cache line."""
    array = tensor.numpy()
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
