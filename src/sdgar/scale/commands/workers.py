"""The processes of a command that trains with several of them, here or by torchrun."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sdgar.arguments import at_least
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.scale.workers import Workers

_HERE = "127.0.0.1"
_PATIENCE = 10.0
"""The seconds in which processes that follow must end once the first one is done."""


def follows() -> bool:
    """Return whether another process leads this one."""
    return int(os.environ.get("RANK") or 0) > 0


def started_again() -> bool:
    """Return whether torchrun has started this process again after a failure."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT") or 0) > 0


@contextmanager
def several(count: int) -> Iterator[Workers]:
    """Start so many processes with the words of this command, or join the processes of torchrun.

    The first one is this process, and the others end with it.
    """
    from sdgar.scale import meeting
    from sdgar.scale.workers import LostError

    at_least("workers", count, 1)
    _, there = meeting.from_environment()
    if there > 1 and count not in (1, there):
        raise UsageError(
            f"--workers is {count}, and {there} workers were started. Leave the option out: the "
            "number is that of torchrun.",
            code="two_numbers_of_workers",
        )
    started: list[subprocess.Popen[bytes]] = []
    try:
        if there == 1 and count > 1:
            from torch.distributed import TCPStore  # type: ignore[attr-defined]

            store = TCPStore(_HERE, 0, count, is_master=True, wait_for_workers=False)
            started += [_start(number, count, store.port) for number in range(1, count)]
            yield meeting.meet_at(store, 0, count)
        else:
            yield meeting.join()
    except LostError:
        for process in started:  # they may be waiting for the one that is gone
            process.kill()
        raise
    finally:
        meeting.leave()
        for process in started:
            _end(process)


def _start(number: int, count: int, port: int) -> subprocess.Popen[bytes]:
    """Start a process with the words of this command, and with the variables of torchrun."""
    place = {"MASTER_ADDR": _HERE, "MASTER_PORT": f"{port}", "RANK": f"{number}"}
    size = {"WORLD_SIZE": f"{count}", "LOCAL_WORLD_SIZE": f"{count}"}
    words = [sys.executable, "-m", "sdgar", *sys.argv[1:]]
    nowhere = subprocess.DEVNULL  # what the command prints, the first process prints
    return subprocess.Popen(
        words, env={**os.environ, **place, **size}, stdin=nowhere, stdout=nowhere
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
