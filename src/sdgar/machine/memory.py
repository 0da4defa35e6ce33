"""Find out how much memory is free or taken, raise early if a model cannot fit, and make room."""

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
    """Allocate room that starts with a cache line, and with a huge page where it is large.

    A processor remembers where some thousand pages lie. A table of several MiB has more of the
    usual size, so that it would look for the page of nearly every row.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    page = _HUGE if _HAS_HUGE and size >= _HUGE // 2 else _LINE
    if page == _LINE:
        room = np.empty(size + _LINE, np.uint8)
    else:
        pages = mmap.mmap(
            -1, (-(-size // _HUGE) + 1) * _HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        )
        pages.madvise(mmap.MADV_HUGEPAGE)
        room = np.frombuffer(pages, np.uint8)
    start = -room.ctypes.data % page
    table: NDArray[Any] = room[start : start + size].view(dtype).reshape(shape)
    return table


def is_aligned(array: NDArray[Any]) -> bool:
    """Tell whether an array is one piece of memory that starts with a cache line."""
    return array.flags.c_contiguous and array.ctypes.data % _LINE == 0


def allocated_bytes() -> int:
    """Return the bytes of memory that this process has now, without pages of files.

    Where the system does not tell, they are the most that it ever had.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("RssAnon"):
                return int(line.split()[1]) << 10
    if sys.platform == "win32":
        return 0
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
