"""Whole files or none: what is written takes its name only when it is complete."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sdgar.errors import ResourceError


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Give a temporary sibling to write to, and rename it to ``target`` if nothing fails."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        settle(temporary, target)
    except OSError as error:
        raise disk_error(target, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def settle(temporary: Path, target: Path) -> None:
    """Rename, after the bytes are on the disk: a crash leaves the whole file or none."""
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(target)


def disk_error(path: Path, error: OSError) -> ResourceError:
    """Say that a file cannot be read or written, and what to do."""
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
    """Hexadecimal digest of a file, such as its ``sha256``."""
    with path.open("rb") as file:
        return hashlib.file_digest(
            file, lambda: hashlib.new(algorithm, usedforsecurity=False)
        ).hexdigest()
