"""Folders that appear and disappear in one step.

A folder is written under a temporary name next to its place, every file and the folder itself
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
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sdgar.errors import ResourceError, UsageError


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


def sync(path: Path) -> None:
    """Wait until the disk has the bytes of a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
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
    """Return a free name next to the target; remove temporary folders of killed processes."""
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
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


_MAX_NAME_BYTES = 255 - len(".") - len(".tmp-4194304-01234567.old")
"""The most bytes of a name that a file system allows, less what a temporary name adds."""


def place_of(path: str | Path) -> Path:
    """Return where a folder of this name lies or would lie; links are followed.

    Raise if no folder can have this name, or none can be made in that place. The folder is
    replaced as a whole, so it cannot be the one the process works in.
    """
    above_cwd = False
    try:
        place = Path(path).resolve()
        links = [one for one in (place, *place.parents) if one.is_symlink()]
        above = next(one for one in place.parents if one.exists())
        long = len(os.fsencode(place.name)) > _MAX_NAME_BYTES
    except (OSError, StopIteration, TypeError, ValueError) as error:
        raise _bad_place(path, str(error) or "it names no folder") from error
    except RuntimeError as error:  # what some versions of Python make of such a link
        raise _bad_place(path, "a link leads back to itself") from error
    if links:
        raise _bad_place(path, "a link leads back to itself")
    if long:
        raise _bad_place(path, f"its name has more than {_MAX_NAME_BYTES} bytes")
    with suppress(FileNotFoundError):  # the process may work in a folder that is gone
        above_cwd = Path.cwd().is_relative_to(place)
    if above_cwd:
        raise _bad_place(path, f"it is the folder {place}, which this process works in")
    if not above.is_dir():
        raise _bad_place(path, f"{above} is not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise ResourceError(
            f"cannot write to {above}, where {place} would lie. Change its permissions, or choose "
            "another place.",
            code="unwritable",
        )
    return place


def _bad_place(path: object, why: str) -> UsageError:
    return UsageError(
        f"{str(path)!r} cannot be a folder for results: {why}. Choose another place.",
        code="bad_out",
    )


def in_the_way(place: Path, names: list[str], what: str) -> UsageError:
    """Build the error for a folder that would be replaced, but holds files that are not ours."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return UsageError(
        f"{place} holds {', '.join(map(repr, names[:3]))}{more}, which {what}, so nothing there is "
        "replaced. Move that away, or choose another place.",
        code="out_foreign",
    )


def require_free(
    path: str | Path, *, overwrite: bool, own: Callable[[Path], Collection[str]], what: str
) -> Path:
    """Refuse a place that is taken, before any work is spent on it, and return where it is.

    ``own`` names what sdgar wrote into a folder, and only a folder with nothing else is ever
    replaced; ``what`` says what such a folder is.
    """
    target = place_of(path)
    if not target.exists():
        return target
    if not target.is_dir():
        raise UsageError(
            f"{target} exists and is not a folder. Choose another --out.", code="out_exists"
        )
    found = sorted(entry.name for entry in target.iterdir())
    if found and not overwrite:
        raise UsageError(
            f"{target} exists and is not empty. Choose another place, or replace it with "
            "--overwrite (overwrite=True in Python).",
            code="out_exists",
        )
    if foreign := [name for name in found if name not in own(target)]:
        raise in_the_way(target, foreign, f"is not part of {what} of sdgar")
    return target
