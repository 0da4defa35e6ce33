"""The folder in which compiled code is kept between runs.

It lies in the user's own cache folder, and is named after the sources of all kernels: Numba itself
looks only at the file of the function it is asked for, and would go on using what was compiled from
an older version of a file that it calls. Compiled code is executed, so a folder that others may
write to is not used.

Nothing here imports Numba: who only asks whether something was compiled need not wait for that.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import warnings
import zipfile
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

PORTABLE = Path(__file__).parent / "portable_code"
"""Where a package can bring compiled code along (``portable``); one just checked out has none."""


def cache_root() -> Path | None:
    """Return NUMBA_CACHE_DIR, else a folder in XDG_CACHE_HOME, else one in ~/.cache; or none."""
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(named)
    cache_home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        home = cache_home if cache_home.is_absolute() else Path.home() / ".cache"
    except RuntimeError:  # there is no HOME, and the system does not know this user
        return None
    return home / "sdgar" if home.is_absolute() else None


def is_kept(name: str, variants: str = "") -> bool:
    """Return whether a kernel was compiled before on this machine, with these variants."""
    folder = folder_of_sources()
    if folder is None or not any(folder.glob(f"**/*.{name}-*.nbi")):
        return False
    return not variants or _note(folder, name, variants).exists()


def note_kept(name: str, variants: str) -> None:
    """Remember that a kernel was compiled with these variants, for ``is_kept``.

    Numba keeps the code for all variants of a kernel under one name.
    """
    folder = folder_of_sources()
    if folder is not None and is_kept(name) and not is_kept(name, variants):
        with suppress(OSError):  # kept by somebody who lets others only read
            _note(folder, name, variants).touch()


def _note(folder: Path, name: str, variants: str) -> Path:
    return folder / f"{name}.{variants}"


@cache
def folder_of_sources() -> Path | None:
    """Return the folder for exactly these sources and this Numba, if there is a place for it."""
    root = cache_root()
    return None if root is None else root / f"kernels-{digest_of_sources()}"


def digest_of_sources() -> str:
    """Return what tells exactly these sources and this Numba from others."""
    digest = hashlib.sha256(version("numba").encode())
    here = Path(__file__).parent
    for source in (*sorted(here.glob("*.py")), *sorted(here.glob("numba/*.py"))):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def portable_file() -> Path:
    """Return where portable code for these sources and this kind of processor would be."""
    return PORTABLE / f"{platform.machine()}-{digest_of_sources()}.zip"


def portable_systems() -> list[str]:
    """Return the systems of which all kernels came along with the package."""
    try:
        with zipfile.ZipFile(portable_file()) as file:
            return file.comment.decode().split()
    except (OSError, zipfile.BadZipFile):  # there is none, or it is told of when it is needed
        return []


def safe_folder() -> str:
    """Return the folder to keep compiled code in, or an empty name if there is no safe place."""
    folder = folder_of_sources()
    if folder is None:
        return not_kept("this user has no home folder")
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found, above = folder.stat(), [one.stat() for one in folder.resolve().parents]
    except (OSError, ValueError) as error:
        return not_kept(f"{folder} cannot be made ({getattr(error, 'strerror', None) or error})")
    if is_open_to_others(found):
        return not_kept(
            f"{folder} can be written to by others (remove it, and it is made anew for you alone)"
        )
    # Whoever can rename a folder above can put another one in its place.
    if any(one.st_mode & stat.S_IWOTH and not one.st_mode & stat.S_ISVTX for one in above):
        return not_kept(f"a folder above {folder} can be written to by others")
    return str(folder)


def is_open_to_others(found: os.stat_result) -> bool:
    """Return whether somebody else owns a file or folder, or may write to it."""
    writable = bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    return writable or (hasattr(os, "getuid") and found.st_uid != os.getuid())


def not_kept(why: str) -> str:
    """Say why compiled code is not kept, and return an empty name."""
    warnings.warn(
        f"{why}, so compiled code is not kept: kernels are compiled anew in each process. "
        "XDG_CACHE_HOME names another folder.",
        stacklevel=2,
    )
    return ""
