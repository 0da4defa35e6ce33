"""How kernels are compiled by Numba, and where compiled code is kept between runs.

Kernels allocate nothing and hold no references (no NRT), so that the counting of references does
not cost atomic operations in inner loops. Divisions do not look for zero, which would keep loops
from becoming vectors. NaN and infinity keep their meaning everywhere; ``SUMS`` allows only that
additions change their order.

What differs from system to system has a class of its own for each kind, and a ``variant`` for each
class: only the kinds that a system has are compiled for it.

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
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config
from numba.extending import overload

SUMS = frozenset({"reassoc", "contract", "nsz"})
_NO_REFERENCES: dict[str, Any] = {"error_model": "numpy", "_nrt": False}
# Only kernels call these, so nothing unpacks Python objects for them: with large tuples as
# arguments that would be a quarter of all that is compiled.
_INNER: dict[str, Any] = {**_NO_REFERENCES, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def inner(function: Callable[..., Any]) -> Any:
    """Compile what other kernels call."""
    return numba.njit(**_INNER)(function)


def once(function: Callable[..., Any]) -> Any:
    """Compile as a part of the one kernel that calls it, and not on its own as well.

    Numba optimises every function before those that call it, which optimise it again.
    """
    return numba.njit(inline="always", **_INNER)(function)


def summing(function: Callable[..., Any]) -> Any:
    """Compile what other kernels call for a sum that may be taken in any order."""
    return numba.njit(fastmath=set(SUMS), **_INNER)(function)


def variant(
    generic: Callable[..., Any], *kinds: type, summing: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Compile what kernels that call ``generic`` get where its first argument is of a kind.

    Kinds are named tuples. As with ``functools.singledispatch``, but chosen by the compiler.
    """
    options = {**_INNER, "fastmath": set(SUMS)} if summing else _INNER

    def register(function: Callable[..., Any]) -> Any:
        @overload(generic, jit_options=options, strict=False)
        def choose(*args: Any) -> Any:
            return function if getattr(args[0], "instance_class", None) in kinds else None

        return function

    return register


def outer(function: Callable[..., Any]) -> Any:
    """Compile what is called from Python, once for a machine."""
    return kept(nogil=True, **_NO_REFERENCES)(function)


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


def cache_root() -> Path:
    """The user's cache folder: NUMBA_CACHE_DIR, else XDG_CACHE_HOME, else ~/.cache."""
    if config.CACHE_DIR:
        return Path(config.CACHE_DIR)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sdgar"


def is_kept(name: str, variants: str = "") -> bool:
    """Whether a kernel was compiled before on this machine, with these variants."""
    found = any(folder_of_sources().glob(f"**/*.{name}-*.nbi"))
    return found and (not variants or _note(name, variants).exists())


def note_kept(name: str, variants: str) -> None:
    """Remember that a kernel was compiled with these variants, for ``is_kept``.

    Numba keeps the code for all variants of a kernel under one name.
    """
    if is_kept(name) and not is_kept(name, variants):
        with suppress(OSError):  # kept by somebody who lets others only read
            _note(name, variants).touch()


def _note(name: str, variants: str) -> Path:
    return folder_of_sources() / f"{name}.{variants}"


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
