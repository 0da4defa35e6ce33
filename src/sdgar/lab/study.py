"""A search over settings by Optuna that resumes after an interruption with the same trials.

The n-th proposal depends on the seed, on n and on what came of the trials before it, and on
nothing else: a new sampler is made for each, its seed addressed by (seed, stream, n). The first
proposal is the defaults. If the grid of all choices is no larger than the number of trials it is
walked in a random order, else the tree-structured Parzen estimator proposes.

A study can be a file: Optuna's journal, JSON lines. Unlike an SQLite file it needs no SQLAlchemy
at run time, people can read it, and a crash can harm at most its last line, which is cut off
(``ledger.locked_lines``). It has two weak points, both handled here: Optuna writes on behind a torn
line, and waits half a minute for a lock that a killed process has left.
"""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from sdgar.errors import ResourceError
from sdgar.maths.rng import Draws, Stream, sort_keys
from sdgar.storage import ledger
from sdgar.storage.sealed import DamagedError
from sdgar.systems.defaults import Choice, Range, Space
from sdgar.training.identity import Identity, as_json, require_same

if TYPE_CHECKING:
    import optuna

_NAME, _WHAT = "sdgar", "a study of sdgar tune"
MARK: ledger.Mark = {"op_code": 0, "study_name": _NAME}
"""The entries by which the file of a study is known as ours: Optuna made it, under our name."""
_IDENTITY, _REASON, _SECONDS, _BEST_EPOCH = "identity", "reason", "seconds", "best_epoch"
_STARTUP = 5
"""The number of trials before proposals are modelled, and before a trial may be given up."""

State = Literal["complete", "pruned", "failed"]


class PrunedError(Exception):
    """The error that ends a trial that looks worse than the median of those before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One trial that is over, and its result."""

    number: int
    """The number of the trial, from 1."""
    settings: dict[str, Any]
    """The settings that were tried."""
    state: State
    """The way in which the trial ended: complete, pruned or failed."""
    value: float | None
    """The metric on validation rows; None unless the trial is complete."""
    best_epoch: int | None = None
    """The epoch with the best metric; None if there is none."""
    seconds: float = 0.0
    """The seconds that the trial took."""
    reason: str | None = None
    """The reason why the trial failed; None if it did not."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def require_optuna() -> None:
    """Raise if Optuna is not installed, and say how to install it."""
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise ResourceError(
            'tuning needs Optuna, which is not installed: pip install "sdgar[tune]".',
            code="no_optuna",
        ) from error


class Study:
    """A search that proposes settings and keeps their results, in a file or in memory."""

    def __init__(
        self,
        space: Space,
        first: dict[str, Any],
        *,
        trials: int,
        seed: int,
        warmup: int,
        identity: Identity,
        path: Path | None = None,
        overwrite: bool = False,
    ) -> None:
        self._space = space
        self._first = first
        self._trials = trials
        self._seed = seed
        self._warmup = warmup
        self._identity = as_json(identity)
        self._path = path
        self._overwrite = overwrite
        self._files = ExitStack()
        self._grid = grid(space, first, seed)
        self._study: optuna.Study

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            self._study = self._open(opening)
            self._files = opening.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._files.close()

    @property
    def over(self) -> bool:
        """Whether all trials are done, or every combination was tried."""
        done = self.tried
        return len(done) >= self._trials or (self._walks and len(done) >= len(self._grid))

    @property
    def tried(self) -> list[Tried]:
        """All trials that came to an end; interrupted ones are left out."""
        from optuna.trial import TrialState

        states: dict[TrialState, State] = {
            TrialState.COMPLETE: "complete",
            TrialState.PRUNED: "pruned",
            TrialState.FAIL: "failed",
        }
        over = [
            trial
            for trial in self._study.get_trials(deepcopy=False, states=tuple(states))
            if trial.state != TrialState.FAIL or _REASON in trial.user_attrs
        ]
        return [
            Tried(
                number=number,
                settings=rounded(trial.params),
                state=states[trial.state],
                value=trial.value if trial.state == TrialState.COMPLETE else None,
                best_epoch=trial.user_attrs.get(_BEST_EPOCH),
                seconds=trial.user_attrs.get(_SECONDS, 0.0),
                reason=trial.user_attrs.get(_REASON),
            )
            for number, trial in enumerate(over, start=1)
        ]

    def propose(self) -> Proposal:
        """Return the next settings to try."""
        from optuna.samplers import TPESampler
        from optuna.trial import TrialState

        done = self.tried
        n = len(done)
        if self._walks or n == 0:
            before = [tried.settings for tried in done]
            untried = [settings for settings in self._grid if settings not in before]
            # A waiting trial was added for this turn before a crash.
            if not self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
                self._study.enqueue_trial(untried[0])
        else:
            self._study.sampler = TPESampler(seed=address(self._seed, n), n_startup_trials=_STARTUP)
        trial = self._study.ask(_distributions(self._space))
        return Proposal(self._study, trial, n + 1)

    @property
    def _walks(self) -> bool:
        finite = all(isinstance(values, Choice) for values in self._space.values())
        return finite and len(self._grid) <= self._trials

    def _open(self, stack: ExitStack) -> optuna.Study:
        import optuna
        from optuna.trial import TrialState

        before = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            study = optuna.create_study(
                storage=None if self._path is None else self._journal(self._path, stack),
                study_name=_NAME,
                direction="maximize",
                pruner=optuna.pruners.MedianPruner(_STARTUP, self._warmup),
                load_if_exists=True,
            )
        finally:
            optuna.logging.set_verbosity(before)
        if _IDENTITY not in study.user_attrs:
            study.set_user_attr(_IDENTITY, self._identity)
        require_same(study.user_attrs[_IDENTITY], self._identity, self._path or Path())
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            study.tell(trial.number, state=TrialState.FAIL)
        return study

    def _journal(self, path: Path, stack: ExitStack) -> optuna.storages.BaseStorage:
        """Open the file for this process alone; raise if it is not a study of ours."""
        import optuna
        from optuna.storages.journal import JournalFileBackend, JournalStorage

        stack.enter_context(ledger.locked_lines(path, mark=MARK, what=_WHAT, empty=self._overwrite))
        # We hold the file, so a lock of Optuna that is there was left by a killed process.
        Path(f"{path}.lock").unlink(missing_ok=True)
        try:
            storage = JournalStorage(JournalFileBackend(str(path)))
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedError(path, f"it is not a journal of Optuna ({error!r})") from error
        if set(optuna.get_all_study_names(storage)) - {_NAME}:
            raise ledger.foreign_file(path, _WHAT)
        return storage


class Proposal:
    """Settings to try; their result is reported once."""

    def __init__(self, study: optuna.Study, trial: optuna.Trial, number: int) -> None:
        self._study = study
        self._trial = trial
        self.number = number
        self.settings = rounded(trial.params)

    def look(self, epoch: int, value: float) -> None:
        """Report a value on the validation rows; raise if the trial is to be given up."""
        self._trial.report(value, epoch)
        if self._trial.should_prune():
            raise PrunedError

    def repeats(self, twin: Tried) -> None:
        """Record the result of an earlier trial of the same settings, without training again."""
        if twin.value is not None:
            self.complete(twin.value, seconds=0.0, best_epoch=twin.best_epoch)
        elif twin.reason is not None:
            self.failed(twin.reason, seconds=0.0)
        else:
            self.pruned(seconds=0.0)

    def complete(self, value: float, *, seconds: float, best_epoch: int | None) -> None:
        """Record that the trial gave a value."""
        self._trial.set_user_attr(_SECONDS, seconds)
        self._trial.set_user_attr(_BEST_EPOCH, best_epoch)
        self._study.tell(self._trial, value)

    def pruned(self, *, seconds: float) -> None:
        """Record that the trial was given up."""
        from optuna.trial import TrialState

        self._trial.set_user_attr(_SECONDS, seconds)
        self._study.tell(self._trial, state=TrialState.PRUNED)

    def failed(self, reason: str, *, seconds: float) -> None:
        """Record that the trial cannot give a value."""
        from optuna.trial import TrialState

        self._trial.set_user_attr(_SECONDS, seconds)
        self._trial.set_user_attr(_REASON, reason)
        self._study.tell(self._trial, state=TrialState.FAIL)


def grid(space: Space, first: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """Return all settings that choices allow, ``first`` first, the others in a random order."""
    choices = {name: v.values for name, v in space.items() if isinstance(v, Choice)}
    every = [
        first | dict(zip(choices, values, strict=True))
        for values in itertools.product(*choices.values())
    ]
    keys = sort_keys(seed, Stream.TRIALS, 0, np.arange(len(every)))
    others = [every[i] for i in np.argsort(keys, kind="stable") if every[i] != first]
    return [first, *others]


def address(seed: int, n: int) -> int:
    """Return the 32 random bits of trial n."""
    rows = np.array([n])
    return int(Draws(seed, Stream.TRIALS, 1, rows).words(0 * rows)[0][0])


def _distributions(space: Space) -> dict[str, Any]:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    return {
        name: FloatDistribution(values.low, values.high, log=True)
        if isinstance(values, Range)
        else CategoricalDistribution(values.values)
        for name, values in space.items()
    }


def rounded(settings: dict[str, Any]) -> dict[str, Any]:
    """Round to three digits, as a search is no more precise, and they can be typed again."""
    return {
        name: float(f"{value:.3g}") if isinstance(value, float) else value
        for name, value in settings.items()
    }
