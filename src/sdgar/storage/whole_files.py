"""Write files whole or not at all: a file gets its name only when it is complete."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sdgar.errors import ResourceError, UsageError
from sdgar.storage.folders import open_file


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield a temporary name to write to, and rename it to ``target`` if nothing fails.

    A link is followed, and what it leads to is replaced.
    """
    target = _followed(target)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        publish(temporary, target)
    except OSError as error:
        raise disk_error(target, error) from error
    finally:
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


def publish(temporary: Path, target: Path) -> None:
    """Rename a file after its bytes are on the disk: a crash leaves the whole file or none."""
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(target)


def disk_error(path: Path, error: OSError) -> ResourceError:
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
