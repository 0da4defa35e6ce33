"""Aligned arrays, free and allocated RAM, and an early error if a model cannot fit."""

from __future__ import annotations

import math
import mmap
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sdgar.errors import ResourceError

_LINE = 64
"""The number of bytes of a cache line."""
_HUGE = 1 << 21
"""The number of bytes of a huge page."""
_HAS_HUGE = hasattr(mmap, "MADV_HUGEPAGE")


def aligned(shape: tuple[int, ...], dtype: Any = np.float32) -> NDArray[Any]:
    """Allocate an array that starts at a cache line, or at a huge page if it is large.

    A processor caches the addresses of about a thousand pages. A table of several MiB has more
    pages of the usual size, and the address of nearly every row would have to be looked up.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    page = _HUGE if _HAS_HUGE and size >= _HUGE // 2 else _LINE
    if page == _LINE:
        buffer = np.empty(size + _LINE, np.uint8)
    else:
        pages = mmap.mmap(
            -1, (-(-size // _HUGE) + 1) * _HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        )
        pages.madvise(mmap.MADV_HUGEPAGE)
        buffer = np.frombuffer(pages, np.uint8)
    start = -buffer.ctypes.data % page
    table: NDArray[Any] = buffer[start : start + size].view(dtype).reshape(shape)
    return table


def is_aligned(array: NDArray[Any]) -> bool:
    """Return whether an array is one piece of memory that starts with a cache line."""
    return array.flags.c_contiguous and array.ctypes.data % _LINE == 0


def allocated_bytes() -> int:
    """Return the bytes of memory that this process has now, without pages of files.

    Where the system does not report them, this is the most that the process ever had.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("RssAnon"):
                return int(line.split()[1]) << 10
    from resource import RUSAGE_SELF, getrusage

    unit = 1 if sys.platform == "darwin" else 1 << 10
    return getrusage(RUSAGE_SELF).ru_maxrss * unit


def free_bytes(device: torch.device) -> int:
    """Return the free bytes of memory of a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        available = next(
            w for w in meminfo.read_text().splitlines() if w.startswith("MemAvailable")
        )
        return int(available.split()[1]) << 10
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def require_memory(system: str, needed: int, device: torch.device) -> None:
    """Raise if a model cannot fit in memory."""
    free = free_bytes(device)
    if needed > free:
        raise ResourceError(
            f"{system} needs at least {needed / 2**30:,.1f} GiB with these settings, and "
            f"{free / 2**30:,.1f} GiB are free on {device}. Use a smaller dim, batch_size, "
            "n_negatives or states, or leave rare users and items out.",
            code="out_of_memory",
        )
