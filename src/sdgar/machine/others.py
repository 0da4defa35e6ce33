"""Find out how many cores other processes leave.

    free cores = cores - (CPU seconds of all processes - those of this one) / seconds

Threads that wait for each other are no faster than the slowest of them, so a thread without a core
of its own makes all of them slower. Linux counts what every core does; processes of low priority
and waits for disks count as free. On other systems nothing is known, and all cores count as free.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_STAT = Path("/proc/stat")
_WINDOW = 0.1
"""The least seconds that are judged: cores are counted in hundredths of a second."""
_LONG_AGO = 0.5
"""Seconds after which what was seen says nothing of now: who used the cores then may be gone."""
_TAKES = (0, 2, 5, 6)
"""The columns of what a core does for processes of normal priority and for interrupts: user,
system, irq, softirq. What other machines on the same hardware take is left out: it makes a thread
slower, but leaving a core alone would not give it back."""


class Use(NamedTuple):
    """What was used of some cores: the CPU seconds of all processes and of this one, by a clock."""

    cores: int
    clock: float
    everyone: float
    own: float


class Free:
    """The cores that others left of late; ``look`` costs nothing between two windows.

    After a long time without a look all cores count as free, until the next window ends.
    """

    def __init__(self, use: Callable[[], Use | None]) -> None:
        self._use, self._lock = use, threading.Lock()
        self._before = use()
        self._others = 0.0

    def look(self) -> float:
        """Return how many cores are free; without a bound where nothing is known."""
        before = self._before
        if before is None:
            return math.inf
        if time.perf_counter() - before.clock >= _WINDOW and self._lock.acquire(blocking=False):
            try:
                self._update()
            finally:
                self._lock.release()
        return before.cores - self._others

    def _update(self) -> None:
        now, before = self._use(), self._before
        self._before = now
        if now is None or before is None or now.own < before.own:  # a process that was forked
            return
        if now.clock - before.clock > _LONG_AGO:
            self._others = 0.0
        elif now.clock > before.clock:
            used = (now.everyone - before.everyone) - (now.own - before.own)
            self._others = max(0.0, used / (now.clock - before.clock))


def use() -> Use | None:
    """Return what was used so far of the cores that this process may run on; None if unknown."""
    try:
        with _STAT.open("rb") as file:
            rows = [line.split() for line in file if line.startswith(b"cpu")]
        ours = {b"cpu%d" % core for core in os.sched_getaffinity(0)}
        taken = [sum(int(row[1 + column]) for column in _TAKES) for row in rows if row[0] in ours]
        seconds = sum(taken) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return None
    if len(taken) < len(ours):
        return None
    return Use(len(ours), time.perf_counter(), seconds, time.process_time())


def worth(free: float, most: int) -> int:
    """Return how many threads have a core of their own, out of ``most``; at least one.

    A thread that has its core for most of the time counts.

    >>> from sdgar.machine.others import worth
    >>> [worth(free, 2) for free in (0.6, 1.0, 1.4, 1.6, 1.95)]
    [1, 1, 1, 2, 2]
    """
    return max(1, math.floor(min(most, free + 0.5)))
