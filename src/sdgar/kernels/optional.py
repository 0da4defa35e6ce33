"""Ask for compiled kernels of the CPU where their compiler, Numba, may not be installed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

LEAST = 1 << 22
"""The rows from which on kernels do faster what NumPy can do too, even if Numba has to be imported
first."""


@cache
def kernels_of(module: str) -> Any:
    """Return a module of ``kernels.numba``, or None if the compiler is not installed."""
    try:
        return import_module(f"sdgar.kernels.numba.{module}")
    except ImportError:
        return None


def kernels_for(module: str, n_rows: int) -> Any:
    """Return a module of ``kernels.numba`` if it is faster than NumPy for so many rows, or None."""
    return kernels_of(module) if n_rows >= LEAST else None
