"""``sdgar train`` on a folder of shards."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from sdgar.cli.console import Screen
from sdgar.cli.options.option import Option
from sdgar.cli.options.values import bytes_of
from sdgar.cli.reports import print_result, print_system
from sdgar.cli.training_screen import stop_signals, training
from sdgar.errors import UsageError
from sdgar.scale.commands import processes
from sdgar.settings import TEST_USERS, TOGETHER
from sdgar.systems.recipe import recipe_of

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.runs.job import Job
    from sdgar.scale.shards import Shards
    from sdgar.scale.workers import Workers
    from sdgar.systems.base import Estimator
    from sdgar.systems.learner import Learner


@dataclass(frozen=True, kw_only=True)
class ShardOptions:
    """Options of a training on shards."""

    panel: ClassVar[str] = "Shards"

    ram: Annotated[int, Option(metavar="BYTES", parse=bytes_of("--ram"))] = 4 << 30
    """Train on shards within this much RAM, as 4GiB or 800MiB; default: 4GiB."""
    together: int = TOGETHER
    """Hold the users of so many shards in RAM at once; the model depends on this number."""
    test_users: int = TEST_USERS
    """Measure a model that is trained on shards on the rows of so many users."""
    workers: int = 1
    """Train on shards by so many processes of this machine; for several machines, start the command
    with torchrun instead."""
    gpu_memory: Annotated[int | None, Option(metavar="BYTES", parse=bytes_of("--gpu-memory"))] = (
        None
    )
    """Train on shards within this much memory of the GPU, as 16GiB; default: all that is free."""


class TrainOnShards:
    """Trains on a folder of shards, which stands alone among the inputs."""

    options: ClassVar[type] = ShardOptions
    follows = staticmethod(processes.follows)
    started_again = staticmethod(processes.started_again)
    unused: Sequence[str] = (
        "test", "valid", "split", "keep", "from", "vanished", "replace_if", "user_features",
        "item_features", "feature_kinds", "dislikes",
    )  # fmt: skip

    def claims(self, files: Sequence[Any]) -> bool:
        """Return whether the inputs are a folder of shards; refuse one among others."""
        from sdgar.scale.shards import is_shards

        found = [file for file in files if isinstance(file, Path) and is_shards(file)]
        if found and len(files) > 1:
            raise UsageError(
                f"{found[0]} is a folder of shards, which stands alone. Shard all events together: "
                "sdgar data shard EVENTS… --out FOLDER.",
                code="several_inputs",
            )
        return bool(found)

    def claims_job(self, job: Job) -> bool:
        """Return whether an interrupted run trains on shards."""
        return job.shards is not None

    def of_job(self, options: ShardOptions) -> dict[str, int]:
        """Return the options as a job keeps them."""
        found = {name: value for name, value in asdict(options).items() if value is not None}
        del found["workers"]  # another number of them gives the same model
        return found

    def train(
        self, screen: Screen, job: Job, estimator: Estimator, out: Path, options: ShardOptions, *,
        resume: bool, verbose: bool, explain: bool,
    ) -> None:  # fmt: skip
        """Run a job on its folder of shards, and print the result."""
        from sdgar.scale.run import run_shards
        from sdgar.scale.shards import Shards
        from sdgar.systems.learner import Learner

        if not isinstance(estimator, Learner):
            name = recipe_of(estimator).name
            raise UsageError(
                f"{name} cannot be trained on shards. Train sdsoftmax, sdgar or "
                "bpr, or read the events into RAM.",
                code="not_by_blocks",
            )
        assert job.shards is not None
        shards = Shards.open(job.files[0])
        with processes.several(options.workers) as together:
            if together.count > 1 and "gpu_memory" in job.shards:
                raise UsageError(
                    f"--gpu-memory has no meaning for {together.count} workers, which train on "
                    "CPUs. Leave it out.",
                    code="unused_option",
                )
            if together.leads:
                _lead(
                    screen, job, estimator, shards, out, verbose, explain, together,
                    resume=resume,
                )  # fmt: skip
                return
            for number in (signal.SIGINT, signal.SIGTERM):  # to which the first worker listens
                signal.signal(number, signal.SIG_IGN)
            how: Any = job.shards
            run_shards(estimator, shards, out=out, workers=together, ks=tuple(job.ks), **how)


SHARDS = TrainOnShards()
"""The extension ``train:shards``."""


def _lead(
    screen: Screen, job: Job, estimator: Learner, shards: Shards, out: Path, verbose: bool,
    explain: bool, workers: Workers, *, resume: bool,
) -> None:  # fmt: skip
    """Train, alone or as the first of several workers."""
    from sdgar.runs.run import loop_of
    from sdgar.scale.needs import gib, gpu_needs, ram_needs
    from sdgar.scale.run import run_shards
    from sdgar.scale.training import OnShards

    assert job.shards is not None
    rows = cast("Interactions", shards)
    screen.say("data", f"{Path(job.files[0]).name}: {shards.size_text()}")
    print_system(screen, estimator, rows)
    together = job.shards["together"]
    needs, several = ram_needs(estimator, shards, together), workers.count > 1
    shared = " that workers of a machine share" if several else ""
    each = f" in each of {workers.count} workers" if several else ""
    items, block = gib(needs.items), gib(needs.block)
    screen.say("memory", f"{items} for items{shared}, and {block} for the users of a block{each}")
    if OnShards(workers=workers).device(estimator.device).type == "cuda":
        gpu = gpu_needs(estimator, shards, together)
        screen.say("GPU", f"{gib(gpu.total)}: {gpu.sentence()}")
    loop = loop_of(recipe_of(estimator).settled(rows), job.protocol)
    with stop_signals() as stop, training(screen, loop, verbose=verbose) as on_epoch:
        result = run_shards(
            estimator, shards, out=out, overwrite=job.overwrite, ks=tuple(job.ks),
            on_epoch=on_epoch, resume=resume, checkpoint_every=job.checkpoint_every, stop=stop,
            command=asdict(job), report_note=lambda note: screen.say("resume", note),
            workers=workers,
            **job.shards,
        )  # fmt: skip
    assert result is not None
    print_result(screen, job, out, result, explain=explain)
