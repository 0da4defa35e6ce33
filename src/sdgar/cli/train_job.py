"""The work of ``sdgar train`` once everything is decided: read, train, measure, save, tell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgar.cli.bars import training
from sdgar.cli.console import Screen
from sdgar.cli.finished import tell_earlier, tell_finished
from sdgar.cli.inputs import read_rows
from sdgar.cli.reports import tell_system
from sdgar.cli.signals import HeldBack
from sdgar.scale.commands.train_shards import train_on_shards

if TYPE_CHECKING:
    from sdgar.cli.ahead import Ahead
    from sdgar.runs.job import Job
    from sdgar.systems.base import Estimator


def train_job(
    screen: Screen, job: Job, estimator: Estimator, out: Path, verbose: bool, explain: bool,
    workers: int, ahead: Ahead, *, resume: bool = False,
    inputs: tuple[Any, ...] = (),
) -> None:  # fmt: skip
    """Read the rows of a job, run it on them, and tell what came of it."""
    with ahead.compiling(job):
        if job.shards is None:
            _train(screen, job, estimator, out, verbose, explain, resume=resume, inputs=inputs)
            return
        train_on_shards(
            screen, job, estimator, out, verbose, explain, workers=workers, resume=resume,
        )  # fmt: skip


def _train(
    screen: Screen, job: Job, estimator: Estimator, out: Path, verbose: bool, explain: bool, *,
    resume: bool, inputs: tuple[Any, ...],
) -> None:  # fmt: skip
    from sdgar.runs.run import loop_of

    rows = read_rows(screen, job, *inputs)
    tell_system(screen, estimator, rows.train)
    loop = loop_of(estimator.settled(rows.train), job.protocol)
    if rows.before is not None:
        tell_earlier(screen, job, estimator, rows.before)
        loop = estimator.settled(rows.train).further_options()
    with HeldBack() as stop, training(screen, loop, verbose=verbose) as on_epoch:
        result = job.run(
            estimator, rows, out, resume=resume, on_epoch=on_epoch, stop=stop,
            notify=lambda note: screen.say("resume", note),
        )  # fmt: skip
    tell_finished(screen, job, out, result, explain=explain)
