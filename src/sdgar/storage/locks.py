"""Locks on files; the system releases them when the process ends."""

from __future__ import annotations

from typing import IO, Any

from sdgar.errors import UsageError


def require() -> Any:
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


def take(file: IO[Any]) -> None:
    """Lock a file for this process; raise ``BlockingIOError`` if another process has it."""
    fcntl = require()
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
