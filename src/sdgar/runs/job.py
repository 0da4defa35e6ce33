"""A run with everything decided: the options of ``sdgar train``, as JSON and back."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sdgar.data.readers import ReadOptions, read_options
from sdgar.errors import UsageError
from sdgar.runs.run import RunData, RunResult, run
from sdgar.runs.workspace import partial_of, read_run
from sdgar.settings import CHECKPOINT_SECONDS, KS
from sdgar.storage.sealed import read_record
from sdgar.systems.base import Estimator
from sdgar.systems.make import estimator_from_params
from sdgar.systems.recipe import recipe_of

_TUPLES = ("header_columns", "context", "kinds", "dislike_kinds")
"""The fields of ``ReadOptions`` that are tuples, which JSON has as lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A run with everything decided, as RUN.partial/run.json keeps it for ``--resume``."""

    files: list[str] = field(default_factory=list)
    """The absolute paths of the files of events; empty if the events are synthetic."""
    test: list[str] = field(default_factory=list)
    """The absolute paths of the files of test events; empty if they are split off."""
    valid: list[str] = field(default_factory=list)
    """The absolute paths of the files of validation events; empty if they are set aside."""
    reading: dict[str, Any] = field(default_factory=lambda: asdict(ReadOptions()))
    """The fields of ``ReadOptions``."""
    system: str
    """The name of the system."""
    settings: dict[str, Any]
    """The values of all hyper-parameters, so that a later default cannot change them."""
    seed: int = 0
    """The seed by which test rows are split off."""
    engine: str = "auto"
    """The requested engine."""
    device: str = "auto"
    """The requested device."""
    protocol: str = "validated"
    """The way in which the number of epochs is chosen: validated or paper."""
    split: str | None = None
    """The rule by which test rows are split off; None is the rule that suits the data."""
    ks: list[int] = field(default_factory=lambda: list(KS))
    """The lengths of the lists that are measured."""
    overwrite: bool = False
    """Whether a model that is there already is replaced."""
    checkpoint_every: float = CHECKPOINT_SECONDS
    """The seconds between two checkpoints."""
    user_features: str | None = None
    """The absolute path of a table of users' features; None if there is none."""
    item_features: str | None = None
    """The absolute path of a table of items' features; None if there is none."""
    feature_kinds: dict[str, str] = field(default_factory=dict)
    """The kinds of columns of items' features, where the guess would be wrong."""
    metric: str | None = None
    """The metric that epochs are chosen by, which also leads the report; None is that of the
    system."""
    keep: str = "measured"
    """The model that is saved: the measured one, or with ``all`` one trained on all rows."""
    earlier: str | None = None
    """The absolute path of the model that training continues from; None starts from scratch."""
    vanished: str = "keep"
    """Whether rows that the earlier model has and the files lack are kept, or with ``drop`` not."""
    replace_if: str = "always"
    """The condition under which the model replaces the earlier one."""
    shards: dict[str, int] | None = None
    """Settings of training on shards: ram, together and test_users; None for files of events."""

    @classmethod
    def of(cls, estimator: Estimator, **more: Any) -> Job:
        """Return the job of training an estimator as it is, on synthetic events."""
        recipe = recipe_of(estimator)
        return cls(system=recipe.name, settings=recipe.settings, **more)

    def estimator(self) -> Estimator:
        """Make the system with the settings that were decided; an unknown setting is an error."""
        return estimator_from_params(self.system, self.settings)

    def read_options(self) -> ReadOptions:
        """Return how files are read; JSON has lists where the record has tuples."""
        tuples = {k: v and tuple(v) for k, v in self.reading.items() if k in _TUPLES}
        return read_options(**self.reading | tuples)

    def run(self, estimator: Estimator, rows: RunData, out: Path, **how: Any) -> RunResult:
        """Train the estimator of this job on its rows, measure it and save it in ``out``.

        ``how`` are arguments of ``sdgar.runs.run.run`` that a job does not keep. Only a job that
        has files can be resumed by the command line.
        """
        return run(
            estimator,
            rows,
            out,
            protocol=self.protocol,
            overwrite=self.overwrite,
            ks=self.ks,
            checkpoint_every=self.checkpoint_every,
            command=asdict(self) if self.files else None,
            replace_if=self.replace_if,
            **how,
        )


def interrupted(out: Path) -> Job:
    """Return the job of an interrupted run."""
    command = read_run(out)["command"]
    path = partial_of(out) / "run.json"
    if command is None:
        raise UsageError(
            f"the run in {partial_of(out)} was not started by `sdgar train`. Continue it as it "
            "was started, or start over with --overwrite.",
            code="not_a_command",
        )
    job = read_record(path, Job, command)
    read_record(path, ReadOptions, job.reading)
    return job
