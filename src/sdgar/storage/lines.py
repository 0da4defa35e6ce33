"""Files of JSON lines that several runs of a command add to: results, and studies.

One process holds a file at a time. A line counts once its line feed is on the disk; what a
killed process left of its last line is cut off by the next one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from sdgar.errors import UsageError
from sdgar.storage import locks
from sdgar.storage.folders import DamagedError
from sdgar.storage.whole_files import disk_error

Mark = Mapping[str, str | int]
"""The entries of the first line of a file by which it is known to be ours."""


@contextmanager
def locked(path: Path, *, mark: Mark, what: str, empty: bool = False) -> Iterator[IO[bytes]]:
    """Lock a file for this process, make it if there is none, and cut off a torn last line.

    ``mark`` is what the first line of such a file holds; a file without it is not touched.
    ``empty`` throws away what is in it.
    """
    locks.require()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
    except OSError as error:
        raise disk_error(path, error) from error
    with file:
        try:
            locks.take(file)
        except BlockingIOError as error:
            raise UsageError(
                f"another process is writing to {path}. Wait for it, or choose another place.",
                code="locked",
            ) from error
        file.seek(0)
        data = file.read()
        if data and not _begins(data, mark):
            raise foreign(path, what)
        whole = 0 if empty else data.rfind(b"\n") + 1
        if whole < len(data):
            file.truncate(whole)
        yield file


def read(file: IO[bytes], path: Path) -> list[dict[str, Any]]:
    """Return all lines of a locked file."""
    file.seek(0)
    found = []
    for number, line in enumerate(file, start=1):
        try:
            found.append(dict(json.loads(line)))
        except (TypeError, ValueError, RecursionError) as error:
            raise DamagedError(path, f"line {number} is not a JSON object") from error
    return found


def append(file: IO[bytes], path: Path, record: Mapping[str, Any]) -> None:
    """Add a line to a locked file and wait until the disk has it."""
    try:
        file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    except OSError as error:
        raise disk_error(path, error) from error


def foreign(path: Path, what: str) -> UsageError:
    """Build the error for a file that belongs to something else."""
    return UsageError(
        f"{path} is there and is not {what}, so it is left as it is. Choose another place, or "
        "remove it.",
        code="out_foreign",
    )


def remove_ours(path: Path, mark: Mark) -> None:
    """Remove a file that begins with the mark; leave any other as it is."""
    try:
        if path.is_file() and _begins(path.read_bytes(), mark):
            path.unlink()
    except OSError as error:
        raise disk_error(path, error) from error


def _begins(data: bytes, mark: Mark) -> bool:
    try:
        first = json.loads(data.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and all(first.get(key) == value for key, value in mark.items())
