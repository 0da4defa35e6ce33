"""Find out how much memory is free, and raise early if a model cannot fit."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from sdgar.errors import ResourceError


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
