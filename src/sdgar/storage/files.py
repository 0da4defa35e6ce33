"""Write files whole or not at all: a file gets its name only when it is complete."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from sdgar.errors import ResourceError, UsageError
from sdgar.storage import folders
from sdgar.storage.sealed import open_file


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield a temporary name to write to, and rename it to ``target`` if nothing fails.

    A link is followed, and what it leads to is replaced.
    """
    with replacing_all([target]) as (temporary,):
        yield temporary


@contextmanager
def replacing_all(targets: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield a temporary name for each file, and rename all of them at the end if nothing fails."""
    targets = [_followed(target) for target in targets]
    temporaries = [one.with_name(f".{one.name}.{os.getpid()}.tmp") for one in targets]
    try:
        yield temporaries
        for temporary in temporaries:
            folders.sync(temporary)  # renamed before, a crash could leave it empty
        for temporary, target in zip(temporaries, targets, strict=True):
            temporary.replace(target)
    except OSError as error:
        raise disk_error(targets[0] if len(targets) == 1 else targets[0].parent, error) from error
    finally:
        for temporary in temporaries:
            temporary.unlink(missing_ok=True)


def _followed(target: Path) -> Path:
    try:
        place = target.resolve()
        loop = place.is_symlink()
        in_the_way = place.exists() and not place.is_file()
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(
            f"{str(target)!r} cannot be a file: {error}. Choose another name.", code="bad_out"
        ) from error
    if loop or in_the_way:
        what = "is a link that leads back to itself" if loop else "is there and is not a file"
        raise UsageError(f"{target} {what}. Choose another name.", code="bad_out")
    return place


def make_parent(path: Path) -> None:
    """Make the folder in which a file is to lie."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk_error(path.parent, error) from error


def disk_error(path: Path | str, error: OSError) -> ResourceError:
    """Build the error for a file that cannot be read or written, with what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ResourceError(
            f"{path}: the disk is full. Free some space or choose another folder.",
            code="disk_full",
        )
    return ResourceError(
        f"{path}: {error.strerror or error}. Check the path and its permissions.",
        code="file_access",
    )


def digest(path: Path, algorithm: str) -> str:
    """Return the hexadecimal digest of a file, such as its ``sha256``."""
    with open_file(path) as file:
        return hashlib.file_digest(
            file, lambda: hashlib.new(algorithm, usedforsecurity=False)
        ).hexdigest()


def require_locks() -> Any:
    """Return the module that locks files; raise where the system has none."""
    try:
        import fcntl
    except ModuleNotFoundError as error:
        raise UsageError(
            "sdgar runs on Linux and macOS: this system has no locks of files (fcntl), by which "
            "two runs are kept apart. On Windows, use WSL.",
            code="unsupported_system",
        ) from error
    return fcntl


def lock(file: IO[Any]) -> None:
    """Lock a file for this process; raise ``BlockingIOError`` if another process has it."""
    fcntl = require_locks()
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
