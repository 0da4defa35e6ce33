"""Files that one process holds at a time; the system lets go of them when the process ends."""

from __future__ import annotations

from typing import IO, Any

from sdgar.errors import UsageError


def require() -> Any:
    """What locks files here; refused where there is none, before anything is written."""
    try:
        import fcntl
    except ModuleNotFoundError as error:
        raise UsageError(
            "sdgar runs on Linux and macOS: this system has no locks of files (fcntl), by which "
            "two runs are kept apart. On Windows, use WSL.",
            code="unsupported_system",
        ) from error
    return fcntl


def take(file: IO[Any]) -> None:
    """Hold a file for this process alone; ``BlockingIOError`` if another one holds it."""
    fcntl = require()
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
