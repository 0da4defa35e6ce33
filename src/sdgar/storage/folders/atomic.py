"""Folders that appear and disappear in one step.

A folder is written under a temporary name beside its place, every file and the folder itself
are flushed to disk, and one rename makes it visible.
"""

from __future__ import annotations

import ctypes
import glob
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(target: Path, *, replace: bool) -> Iterator[Path]:
    """Yield a temporary folder to fill, and make it ``target`` in one step if nothing fails.

    With ``replace`` a folder that is there already is exchanged for the new one; without it, such
    a folder is an ``OSError``, as is whatever the disk refuses. Then nothing has changed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_for(target)
    temporary.mkdir(mode=0o755)
    try:
        yield temporary
        sync(temporary)
        if replace:
            _exchange_for(target, temporary)
        else:
            temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sync(target.parent)


def remove(target: Path) -> None:
    """Make a folder disappear in one step, and then take the time to delete what was in it."""
    doomed = _temporary_for(target)
    target.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def write(path: Path, data: bytes) -> None:
    """Write a new file and wait until the disk has it."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync(folder: Path) -> None:
    """Wait until the disk has the names in a folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange_for(target: Path, temporary: Path) -> None:
    """Rename the folder; exchange it for an existing one in one step where Linux can."""
    if not target.exists() or not any(target.iterdir()):
        temporary.replace(target)  # over an empty folder this is one step as well
        return
    if sys.platform == "linux" and _exchange(temporary, target):
        return  # the temporary name now holds the old folder, and is removed by the caller
    old = target.with_name(temporary.name + ".old")
    target.rename(old)
    try:
        temporary.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _exchange(a: Path, b: Path) -> bool:
    """Call renameat2(RENAME_EXCHANGE); return False if the file system or C library lacks it."""
    at_cwd, rename_exchange = -100, 2
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    return bool(renameat2(at_cwd, os.fsencode(a), at_cwd, os.fsencode(b), rename_exchange) == 0)


def _temporary_for(target: Path) -> Path:
    """Return a free name beside the target; remove temporary folders of killed processes."""
    prefix = f".{target.name}.tmp-"
    for orphan in target.parent.glob(f"{glob.escape(prefix)}*"):
        writer = re.fullmatch(r"([0-9]{1,9})-[0-9a-f]+(\.old)?", orphan.name.removeprefix(prefix))
        only_copy = bool(writer and writer[2] and not target.exists())
        if writer and not _alive(int(writer[1])) and not only_copy:
            shutil.rmtree(orphan, ignore_errors=True)
    return target.with_name(f"{prefix}{os.getpid()}-{secrets.token_hex(4)}")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
