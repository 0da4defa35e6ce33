"""The folder in which Numba keeps compiled kernels between runs.

It is in the user's cache folder, and its name has a digest of the sources of all kernels: Numba
compares only the file of the kernel itself, and would reuse code compiled from an older version of
a file that the kernel calls. Compiled code is executed, so a folder that others can write to is
not used.

Nothing here imports Numba, so that a command can ask what is compiled without waiting for it.
"""

from __future__ import annotations

import hashlib
import os
import stat
import warnings
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path


def cache_root() -> Path | None:
    """Return NUMBA_CACHE_DIR, else a folder in XDG_CACHE_HOME, else one in ~/.cache, or None."""
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(named)
    cache_home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        home = cache_home if cache_home.is_absolute() else Path.home() / ".cache"
    except RuntimeError:  # HOME is not set, and the system has no entry for this user
        return None
    return home / "sdgar" if home.is_absolute() else None


@cache
def cache_folder() -> Path | None:
    """Return the folder for exactly these sources and this Numba, or None without a root."""
    root = cache_root()
    if root is None:
        return None
    digest = hashlib.sha256(version("numba").encode())
    here = Path(__file__).parent
    for source in (*sorted(here.glob("*.py")), *sorted(here.glob("numba/*.py"))):
        digest.update(source.read_bytes())
    return root / f"kernels-{digest.hexdigest()[:16]}"


def is_noted(name: str) -> bool:
    """Return whether ``note`` was called with a name, on this machine and for these sources."""
    folder = cache_folder()
    return folder is not None and (folder / name).exists()


def note(name: str) -> None:
    """Remember a name, for example of what was compiled, as long as its code is kept."""
    folder = cache_folder()
    if folder is not None and folder.exists():
        with suppress(OSError):  # the folder is read-only
            (folder / name).touch()


def safe_folder() -> str:
    """Return the folder to keep compiled code in, or an empty name if there is no safe place."""
    folder = cache_folder()
    if folder is None:
        return not_kept("this user has no home folder")
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found, above = folder.stat(), [one.stat() for one in folder.resolve().parents]
    except (OSError, ValueError) as error:
        return not_kept(f"{folder} cannot be made ({getattr(error, 'strerror', None) or error})")
    if _is_open_to_others(found):
        return not_kept(f"{folder} can be written to by others (remove it to have a private one)")
    # Who can rename a folder above can put another one in its place.
    if any(one.st_mode & stat.S_IWOTH and not one.st_mode & stat.S_ISVTX for one in above):
        return not_kept(f"a folder above {folder} can be written to by others")
    return str(folder)


def _is_open_to_others(found: os.stat_result) -> bool:
    """Return whether another user owns a folder, or may write to it."""
    writable = bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    return writable or (hasattr(os, "getuid") and found.st_uid != os.getuid())


def not_kept(why: str) -> str:
    """Warn that compiled code is not kept, and return an empty name."""
    warnings.warn(
        f"{why}, so compiled code is not kept: kernels are compiled again in each process. "
        "XDG_CACHE_HOME sets another folder.",
        stacklevel=2,
    )
    return ""
