"""Compile the training loop in a second process, while this one reads rows and starts.

The first training of a system on a machine compiles its loop, which takes longer than all else
that a training of small data needs. The second process runs one epoch of the same system on a few
synthetic rows, which compiles the loop into the cache folder. This process loads it from there,
or compiles it as well if it gets there first.

The second process starts before the job is known, because its imports take seconds too. It ends
when it is done, or when this process ends for any reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sdgar.kernels.cache import cache_folder, is_noted, note
from sdgar.systems.recipe import recipe_of

if TYPE_CHECKING:
    from sdgar.runs.job import Job


class Precompiler:
    """The second process, if the system, the engine and the device call for one."""

    def __init__(self, system: str, engine: str, device: str) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if (
            system != "composed"  # its parts may be of a module that only this process has
            and engine in ("auto", "fused-cpu")
            and device in ("auto", "cpu")
            and "RANK" not in os.environ  # the other cores are for the other workers
            and _several_cores()
            and cache_folder() is not None
            and not is_noted(f"precompiled.{system}")
        ):
            with suppress(OSError):  # no other process can be started
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "sdgar.cli.precompile"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,  # this process reports what fails there
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                )

    @contextmanager
    def compiling(self, job: Job) -> Iterator[None]:
        """Compile for a job while the work of the caller runs; note that it is compiled."""
        if self._process is None:
            yield
            return
        import torch

        useful = job.shards is None and (job.device == "cpu" or not torch.cuda.is_available())
        request = {"system": job.system, "settings": job.settings} if useful else {}
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        try:
            yield
        finally:
            self.end()
        if useful:
            note(f"precompiled.{job.system}")

    def end(self) -> None:
        """End the process if it runs, whatever it has compiled by now."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _several_cores() -> bool:
    """Return whether there is a core for another process, before torch is imported."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (usable or 1) > 1 and os.environ.get("OMP_NUM_THREADS") != "1"


def rehearse(system: str, settings: dict[str, Any]) -> None:
    """Run one epoch of a system on a few synthetic rows, if the loop has code for it."""
    import torch

    from sdgar.data.synthetic import Shape, generate
    from sdgar.engines.fused.cpu import FusedCpuEngine
    from sdgar.systems.learner import Learner
    from sdgar.systems.make import estimator_from_params

    estimator, cpu = estimator_from_params(system, settings), torch.device("cpu")
    if isinstance(estimator, Learner):
        rows = generate(Shape(users=80, items=60, interactions=1_200, concentration=0.2), seed=0)
        composed = recipe_of(estimator).settled(rows).compose(rows, seed=0, device=cpu, start=False)
        if FusedCpuEngine.covers(composed, cpu).runs:
            FusedCpuEngine(composed, rows, seed=0, device=cpu).run_epoch(0)


def _main() -> None:
    """Import what every training needs, and then compile for the requested job."""
    import sdgar.kernels.numba.epoch
    import sdgar.systems.make  # noqa: F401

    def end_with_the_other() -> None:
        sys.stdin.read()  # until the other process closes the input of this one
        os._exit(0)

    request = json.loads(sys.stdin.readline() or "{}")
    threading.Thread(target=end_with_the_other, daemon=True).start()
    if request:
        rehearse(**request)


if __name__ == "__main__":
    _main()
