"""How kernels are compiled by Numba, and where compiled code is kept between runs.

Kernels allocate nothing and hold no references (no NRT), so that the counting of references does
not cost atomic operations in inner loops. Divisions do not look for zero, which would keep loops
from becoming vectors. NaN and infinity keep their meaning everywhere; ``SUMS`` allows only that
additions change their order.

Compiled code lies in the user's own cache folder, in a folder named after the sources of all
kernels: Numba itself looks only at the file of the function it is asked for, and would go on using
what was compiled from an older version of a file that it calls. Compiled code is executed, so a
folder that others may write to is not used.
"""

from __future__ import annotations

import hashlib
import os
import stat
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config

SUMS = frozenset({"reassoc", "contract", "nsz"})


def inner(function: Callable[..., Any]) -> Any:
    """Compile what other kernels call."""
    return numba.njit(error_model="numpy", **_NO_REFERENCES)(function)


def summing(function: Callable[..., Any]) -> Any:
    """Compile what other kernels call for a sum that may be taken in any order."""
    return numba.njit(error_model="numpy", fastmath=set(SUMS), **_NO_REFERENCES)(function)


def outer(function: Callable[..., Any]) -> Any:
    """Compile what is called from Python, once for a machine."""
    return kept(error_model="numpy", nogil=True, **_NO_REFERENCES)(function)


def kept(*signature: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit`` with compiled code kept in the user's cache folder."""

    def compile_kept(function: Callable[..., Any]) -> Any:
        before = config.CACHE_DIR
        try:
            config.CACHE_DIR = _folder()
            return numba.njit(*signature, cache=bool(config.CACHE_DIR), **options)(function)
        finally:
            config.CACHE_DIR = before

    return compile_kept


_NO_REFERENCES: dict[str, Any] = {"_nrt": False}


def cache_root() -> Path:
    """The user's cache folder: NUMBA_CACHE_DIR, else XDG_CACHE_HOME, else ~/.cache."""
    if config.CACHE_DIR:
        return Path(config.CACHE_DIR)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sdgar"


def is_kept(name: str) -> bool:
    """Whether a kernel was compiled before on this machine."""
    return any(folder_of_sources().glob(f"**/*.{name}-*.nbi"))


@cache
def folder_of_sources() -> Path:
    """The folder for exactly these sources and this Numba."""
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(Path(__file__).parent.glob("numba_*.py")):
        digest.update(source.read_bytes())
    return cache_root() / f"kernels-{digest.hexdigest()[:16]}"


def _folder() -> str:
    """Where to keep compiled code, or nothing if there is no safe place."""
    folder = folder_of_sources()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        return _not_kept(f"{folder} cannot be made ({error.strerror})")
    writable = stat.S_IMODE(found.st_mode) & (stat.S_IWGRP | stat.S_IWOTH)
    if writable or (hasattr(os, "getuid") and found.st_uid != os.getuid()):
        return _not_kept(f"{folder} can be written to by others (chmod 700 makes it yours)")
    return str(folder)


def _not_kept(why: str) -> str:
    warnings.warn(
        f"{why}, so compiled code is not kept: kernels are compiled anew in each process. "
        "XDG_CACHE_HOME names another folder.",
        stacklevel=2,
    )
    return ""
