"""Count the threads that are worth having: the cores that this process may really use.

A process may run on fewer cores than the machine has: its affinity names the cores, a container's
quota bounds the CPU seconds a second, and OMP_NUM_THREADS or ``torch.set_num_threads`` say what
the user wants. The least of them counts, and ``torch.get_num_threads`` alone ignores quotas. Work
that many threads share also looks at how many cores other processes leave::

    free cores = cores - (CPU seconds of all processes - of this one) / seconds

Threads that wait for each other are no faster than the slowest of them, so a thread without a core
to itself makes all of them slower. Linux counts what every core does; processes of low priority
and waits for disks count as free. On other systems nothing is known, and all cores count as free.

Nothing here imports torch by itself: large files are read by many threads and without it.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

_TREES = ("sys/fs/cgroup", "sys/fs/cgroup/unified")
"""Where systems mount the tree of control groups of version 2."""
_requested: ContextVar[int | None] = ContextVar("requested", default=None)
"""The number of threads that the user wants, while torch is limited to fewer."""


@dataclass(frozen=True, slots=True)
class Cores:
    """The cores of the machine and of this process, and the threads that the user wants."""

    machine: int
    """The number of cores of the machine."""
    affinity: int
    """The number of cores that the process may run on."""
    quota: float | None
    """The CPU seconds a second that the control groups allow; None if they set no bound."""
    requested: int
    """The number of threads of torch, which OMP_NUM_THREADS or a call may have set."""

    @property
    def usable(self) -> int:
        """The number of threads that can run at once; part of a core counts as a thread."""
        most = math.inf if self.quota is None else max(1, math.ceil(self.quota))
        return int(min(self.affinity, most))

    @property
    def threads(self) -> int:
        """The number of threads to use."""
        return max(1, min(self.usable, self.requested))

    @property
    def why(self) -> str:
        """The reason for the number of threads, in words."""
        if self.requested < self.usable:
            return "OMP_NUM_THREADS or torch sets this number"
        if self.usable < self.affinity:
            return f"the quota of this container is {self.quota:g} cores"
        if self.affinity < self.machine:
            return f"this process may run on {self.affinity} cores"
        return "one for each core"


def found() -> Cores:
    """Return the cores as they are now; only the quota is read once a process."""
    machine = os.cpu_count() or 1
    requested = _requested.get() or _torch_threads(machine)
    return Cores(machine, _affinity() or machine, _own_quota(), requested)


def threads() -> int:
    """Return the number of threads to use now, whatever other processes use."""
    return found().threads


def threads_now(most: int) -> int:
    """Return how many of so many threads have a core now; other processes may want the cores."""
    return worth_threads(_free.count(), most) if most > 1 else 1


def _torch_threads(machine: int) -> int:
    """Return the number of threads that torch has, or that it would have if it were imported."""
    if "torch" in sys.modules:
        return int(sys.modules["torch"].get_num_threads())
    said = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]  # the first is for one level
    return int(said) if said.isdecimal() and int(said) > 0 else machine


@contextmanager
def torch_threads(most: int | None = None) -> Iterator[None]:
    """Limit torch to ``most`` threads for a while, or to the cores that can be used."""
    import torch

    before = torch.get_num_threads()
    meanwhile = min(before, threads() if most is None else most)
    with one_thread() if meanwhile == 1 else nullcontext():
        if meanwhile == before:
            yield
            return
        torch.set_num_threads(meanwhile)
        try:
            yield
        finally:
            torch.set_num_threads(before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch from starting threads for work of this thread.

    Arm's matrix products use as many threads as there were cores at the start of the process,
    whatever ``torch.set_num_threads`` has set since. OpenMP can refuse them these threads.
    """
    if "torch" not in sys.modules or (openmp := _openmp()) is None:
        yield
        return
    before = openmp.omp_get_max_active_levels()
    openmp.omp_set_max_active_levels(0)
    try:
        yield
    finally:
        openmp.omp_set_max_active_levels(before)


@cache
def _openmp() -> ctypes.CDLL | None:
    """Return the OpenMP library that torch's Arm builds have loaded, or None for other builds.

    Other builds of torch load it under another name, and need no such limit.
    """
    loaded_already = getattr(os, "RTLD_NOLOAD", 0)
    if not loaded_already:
        return None
    try:
        return ctypes.CDLL("libgomp.so.1", mode=loaded_already)
    except OSError:
        return None


@contextmanager
def torch_aside() -> Iterator[None]:
    """Limit torch to one thread for a while; compiled kernels use as many as before.

    For work that goes back and forth between the two: after every operation, torch's workers spin
    for milliseconds on the cores that the threads of the kernel are waiting for.
    """
    token = _requested.set(threads())
    try:
        with torch_threads(1):
            yield
    finally:
        _requested.reset(token)


def _affinity() -> int | None:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


@cache
def _own_quota() -> float | None:
    return quota(Path("/"))


def quota(root: Path) -> float | None:
    """Return the tightest quota of this process's control groups, in cores.

    A group is bound by its quota and by the quotas of all groups above it. Groups of version 2 have
    "QUOTA PERIOD" in ``cpu.max``; "max" means no bound. Version 1 is not read.
    """
    quotas = filter(None, map(_quota_of, _groups(root)))
    return min(quotas, default=None)


def _quota_of(group: Path) -> float | None:
    try:
        allowed, period = map(float, _text(group / "cpu.max").split())
    except ValueError:  # "max", or there is no such file
        return None
    return allowed / period if allowed > 0 and period > 0 else None


def _groups(root: Path) -> Iterator[Path]:
    """Yield the folders of this process's groups, and of all groups above them."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            group = Path(line.removeprefix("0::").lstrip("/"))
            # A container may see its own group as the top, and then the names lead nowhere.
            groups = [Path()] if ".." in group.parts else [group, *group.parents]
            yield from (root / tree / one for tree in _TREES for one in groups)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except (OSError, ValueError):  # no such file, no right to read it, or no possible name
        return ""


_STAT = Path("/proc/stat")
_WINDOW = 0.1
"""The shortest window in seconds: the system counts in hundredths of a second."""
_LONG_AGO = 0.5
"""Seconds after which an earlier window is ignored: the processes of then may have ended."""
_TAKES = (0, 2, 5, 6)
"""The columns of what a core does for processes of normal priority and for interrupts: user,
system, irq, softirq. What other machines on the same hardware take is left out: it makes a thread
slower, but leaving a core alone would not give it back."""


class CoreUse(NamedTuple):
    """What was used of some cores: the CPU seconds of all processes and of this one, by a clock."""

    cores: int
    clock: float
    everyone: float
    own: float


class FreeCores:
    """The cores that other processes left unused lately; ``count`` costs nothing within a window.

    After a long time without a call all cores count as free, until the next window ends.
    """

    def __init__(self, use: Callable[[], CoreUse | None]) -> None:
        self._use, self._lock = use, threading.Lock()
        self._before = use()
        self._others = 0.0

    def count(self) -> float:
        """Return how many cores are free; without a bound where nothing is known."""
        before = self._before
        if before is None:
            return math.inf
        if time.perf_counter() - before.clock >= _WINDOW and self._lock.acquire(blocking=False):
            try:
                self._before = now = self._use()
                self._others = self._used_by_others(before, now)
            finally:
                self._lock.release()
        return before.cores - self._others

    def _used_by_others(self, before: CoreUse, now: CoreUse | None) -> float:
        if now is None or now.own < before.own:  # a process that was forked
            return self._others
        seconds = now.clock - before.clock
        if not 0 < seconds <= _LONG_AGO:
            return 0.0
        used = (now.everyone - before.everyone) - (now.own - before.own)
        return max(0.0, used / seconds)


def core_use() -> CoreUse | None:
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
    return CoreUse(len(ours), time.perf_counter(), seconds, time.process_time())


def worth_threads(free: float, most: int) -> int:
    """Return how many of ``most`` threads have a core to themselves; at least one.

    A thread that has its core for most of the time counts.

    >>> from sdgar.machine.cores import worth_threads
    >>> [worth_threads(free, 2) for free in (0.6, 1.0, 1.4, 1.6, 1.95)]
    [1, 1, 1, 2, 2]
    """
    return max(1, math.floor(min(most, free + 0.5)))


_free = FreeCores(core_use)
