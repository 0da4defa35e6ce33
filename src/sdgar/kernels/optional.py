"""Ask for compiled kernels of the CPU where their compiler, Numba, may not be installed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any


@cache
def kernels_of(module: str) -> Any:
    """Return a module of ``kernels.numba``, or None if the compiler is not installed."""
    try:
        return import_module(f"sdgar.kernels.numba.{module}")
    except ImportError:
        return None
