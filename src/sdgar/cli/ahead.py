"""Compile what a training needs in a second process, while this one reads rows and starts.

The first training of a system on a machine compiles its loop, which takes longer than all else that
a training of small data needs. The second process makes a tiny training of the same system: first
an epoch, then all the rest. This process loads what is compiled by then, and compiles the rest.

The second process is started before it is known what to compile for, because its imports take
seconds too. It ends when it is done, or when this process has ended in whatever way.

Where the package brought the code of a system along, only its instructions are left to make, for
which a thread of this process is enough.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgar.kernels.folder import folder_of_sources, portable_systems

if TYPE_CHECKING:
    from sdgar.recommend.recommender import Recommender
    from sdgar.runs.job import Job


class Ahead:
    """The second process or the thread, if what is known so early speaks for one."""

    def __init__(self, system: str, engine: str, device: str) -> None:
        self._helper: _Process | _Thread | None = None
        if (
            system != "composed"  # its parts may be of a module that only this process has
            and engine in ("auto", "fused-cpu")
            and device in ("auto", "cpu")
            and "RANK" not in os.environ  # whose other cores are for the other workers
            and _several_cores()
            and _is_left_to_compile(system)
        ):
            with suppress(OSError):  # there is no room for another process
                self._helper = _Thread() if system in portable_systems() else _Process()

    @contextmanager
    def compiling(self, job: Job) -> Iterator[None]:
        """Compile for a job, until the work here is done; then the next job needs no help."""
        if self._helper is None:
            yield
            return
        useful = _is_on_cpu(job)
        self._helper.go_on(job if useful else None)
        try:
            yield
        finally:
            self.end()
        if useful:
            _write_note(job.system)

    def end(self) -> None:
        """End what helps, if it has not ended; a command that goes wrong early needs no help."""
        if self._helper is not None:
            self._helper.end()
            self._helper = None


class _Process:
    """Compiles what it is told of."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sdgar.cli.ahead"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # what fails there is compiled and told of here
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def go_on(self, job: Job | None) -> None:
        """Tell it the system, or that there is nothing to compile."""
        asked = {} if job is None else {"system": job.system, "settings": job.settings}
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            self._process.stdin.flush()

    def end(self) -> None:
        """End it, whatever it has compiled by now."""
        self._process.kill()
        self._process.communicate()


class _Thread:
    """Makes instructions of all code that came along."""

    def __init__(self) -> None:
        from sdgar.kernels.portable import begin

        self.end = begin()

    def go_on(self, job: Job | None) -> None:
        """End it if there is nothing to compile."""
        if job is None:
            self.end()


def _several_cores() -> bool:
    """Tell whether there is a core for another process, before torch is imported."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (usable or 1) > 1 and os.environ.get("OMP_NUM_THREADS") != "1"


def _is_left_to_compile(system: str) -> bool:
    """Tell whether Numba is there, and has to compile some of a system on this machine yet."""
    note = _note(system)
    return note is not None and not note.exists() and importlib.util.find_spec("numba") is not None


def _is_on_cpu(job: Job) -> bool:
    """Tell whether a job is a training of rows in memory, on the CPU."""
    import torch

    return job.shards is None and (job.device == "cpu" or not torch.cuda.is_available())


def _note(system: str) -> Path | None:
    """Return the file that says that all of a system was compiled; none if no code is kept."""
    folder = folder_of_sources()
    return None if folder is None else folder / f"ahead.{system}"


def _write_note(system: str) -> None:
    """Note that all of a system was compiled, if its code is kept here."""
    note = _note(system)
    if note is not None and note.parent.exists():
        with suppress(OSError):  # only others may write there
            note.touch()


def rehearse(system: str, settings: dict[str, Any]) -> Recommender:
    """Train a system on a few made-up rows, the part that takes longest to compile first."""
    import torch

    from sdgar.contracts import Covered
    from sdgar.data.splits.single import per_user
    from sdgar.data.synthetic import Shape, generate
    from sdgar.engines.fused.cpu import FusedCpuEngine
    from sdgar.systems.learner import Learner
    from sdgar.systems.make import make_again

    estimator, cpu = make_again(system, settings), torch.device("cpu")
    rows = generate(Shape(users=80, items=60, interactions=1_200, concentration=0.2), seed=0)
    if isinstance(estimator, Learner):
        composed = estimator.settled(rows).compose(rows, seed=0, device=cpu, start=False)
        if isinstance(FusedCpuEngine.covers(composed, cpu), Covered):
            FusedCpuEngine(composed, rows, seed=0, device=cpu).run_epoch(0)
    split = per_user(rows)
    estimator.fit(split.train).evaluate(split.held_out)
    _write_note(system)
    return estimator.recommender_


def _help() -> None:
    """Import what every training needs, and then compile for the job that is told."""
    import sdgar.kernels.numba.epoch
    import sdgar.systems.make  # noqa: F401

    asked = json.loads(sys.stdin.readline() or "{}")
    threading.Thread(target=_end_with_the_other, daemon=True).start()
    if asked:
        rehearse(**asked)


def _end_with_the_other() -> None:
    """End when the other process does, which closes what is read here."""
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    _help()
