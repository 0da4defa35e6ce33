"""``sdgar train`` on a folder of shards."""

from __future__ import annotations

import signal
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sdgar.cli.bars import training
from sdgar.cli.console import Screen
from sdgar.cli.finished import tell_finished
from sdgar.cli.reports import tell_system
from sdgar.cli.signals import HeldBack
from sdgar.errors import UsageError
from sdgar.scale.commands.workers import several

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.runs.job import Job
    from sdgar.scale.shards import Shards
    from sdgar.scale.workers import Workers
    from sdgar.systems.base import Estimator
    from sdgar.systems.learner import Learner


def train_on_shards(
    screen: Screen, job: Job, estimator: Estimator, out: Path, verbose: bool, explain: bool,
    *, workers: int = 1, resume: bool = False,
) -> None:  # fmt: skip
    """Run a job on its folder of shards, and tell what came of it."""
    from sdgar.scale.shards import Shards
    from sdgar.systems.learner import Learner

    if not isinstance(estimator, Learner):
        raise UsageError(
            f"{estimator.system_name} cannot be trained on shards. Train sdsoftmax, sdgar or bpr, "
            "or read the events into memory.",
            code="not_by_blocks",
        )
    assert job.shards is not None
    shards = Shards.open(job.files[0])
    with several(workers) as together:
        if together.count > 1 and "gpu_memory" in job.shards:
            raise UsageError(
                f"--gpu-memory has no meaning for {together.count} workers, which train on CPUs. "
                "Leave it out.",
                code="unused_option",
            )
        if together.leads:
            _lead(
                screen, job, estimator, shards, out, verbose, explain, together,
                resume=resume,
            )  # fmt: skip
        else:
            _follow(job, estimator, shards, out, together)


def _lead(
    screen: Screen, job: Job, estimator: Learner, shards: Shards, out: Path, verbose: bool,
    explain: bool, workers: Workers, *, resume: bool,
) -> None:  # fmt: skip
    """Train, alone or as the first of several workers."""
    from sdgar.runs.run import loop_of
    from sdgar.scale.needs import gib, gpu_needs
    from sdgar.scale.run import run_shards
    from sdgar.scale.training import OnShards

    assert job.shards is not None
    rows = cast("Interactions", shards)
    screen.say("data", f"{Path(job.files[0]).name}: {shards.sizes()}")
    tell_system(screen, estimator, rows)
    _show_memory(screen, estimator, shards, job.shards["together"], workers)
    if OnShards(workers=workers).device(estimator.device).type == "cuda":
        gpu = gpu_needs(estimator, shards, job.shards["together"])
        screen.say("GPU", f"{gib(gpu.total)}: {gpu.sentence()}")
    loop = loop_of(estimator.settled(rows), job.protocol)
    with HeldBack() as stop, training(screen, loop, verbose=verbose) as on_epoch:
        result = run_shards(
            estimator, shards, out=out, overwrite=job.overwrite, ks=tuple(job.ks),
            on_epoch=on_epoch, resume=resume, checkpoint_every=job.checkpoint_every, stop=stop,
            command=asdict(job), tell=lambda note: screen.say("resume", note), workers=workers,
            **job.shards,
        )  # fmt: skip
    tell_finished(screen, job, out, result, explain=explain)


def _follow(job: Job, estimator: Learner, shards: Shards, out: Path, workers: Workers) -> None:
    """Do the part of a worker that is led by the first, which alone listens to signals."""
    from sdgar.scale.run import follow_run

    assert job.shards is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    follow_run(estimator, shards, out=out, workers=workers, ks=tuple(job.ks), **job.shards)


def _show_memory(
    screen: Screen, estimator: Learner, shards: Shards, together: int, workers: Workers
) -> None:
    """Show the RAM that training takes."""
    from sdgar.scale.needs import gib
    from sdgar.scale.run import needs_of

    needs = needs_of(estimator, shards, together)
    several = workers.count > 1
    shared = " that workers of a machine share" if several else ""
    each = f" in each of {workers.count} workers" if several else ""
    items, block = gib(needs.items), gib(needs.block)
    screen.say("memory", f"{items} for items{shared}, and {block} for the users of a block{each}")
