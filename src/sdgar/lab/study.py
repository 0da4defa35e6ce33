"""The file of a search: its trials, as lines of Optuna's journal.

Unlike an SQLite file a journal needs no SQLAlchemy at run time, people can read it, and a crash can
harm at most its last line, which is cut off (``ledger.locked_lines``). It has two weak points, both
handled here: Optuna continues to write after a torn line, and waits half a minute for a lock that a
killed process has left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sdgar.errors import ResourceError
from sdgar.storage import ledger
from sdgar.storage.sealed import DamagedError
from sdgar.training.checkpoint_file import Identity, as_json, require_same

if TYPE_CHECKING:
    import optuna

_NAME, _WHAT = "sdgar", "a study of sdgar tune"
_MARK: ledger.Mark = {"op_code": 0, "study_name": _NAME}
"""The entries by which the file of a study is known as ours: Optuna made it, under our name."""
_IDENTITY, _TRIED = "identity", "tried"
STARTUP = 5
"""The number of trials before proposals are modelled, and before a trial may be given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One trial that is over, and its result."""

    number: int
    """The number of the trial, from 1."""
    settings: dict[str, Any]
    """The settings that were tried."""
    state: Literal["complete", "pruned", "failed"]
    """The way in which the trial ended."""
    value: float | None
    """The metric on validation rows; None unless the trial is complete."""
    best_epoch: int | None = None
    """The epoch with the best metric; None if there is none."""
    seconds: float = 0.0
    """The seconds that the trial took."""
    reason: str | None = None
    """The reason why the trial failed; None if it did not."""


def require_optuna() -> None:
    """Raise if Optuna is not installed, and say how to install it."""
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise ResourceError(
            'tuning needs Optuna, which is not installed: pip install "sdgar[tune]".',
            code="no_optuna",
        ) from error


@contextmanager
def opened(
    identity: Identity, *, warmup: int, path: Path | None = None, overwrite: bool = False
) -> Iterator[optuna.Study]:
    """Open a study, in a file for this process alone or in RAM; raise if it is of another search.

    A trial is given up if it is below the median of those before it, ``warmup`` epochs or later.
    """
    import optuna
    from optuna.trial import TrialState

    now, before = as_json(identity), optuna.logging.get_verbosity()
    with ExitStack() as files:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            study = optuna.create_study(
                storage=None if path is None else _journal(path, files, overwrite=overwrite),
                study_name=_NAME,
                direction="maximize",
                pruner=optuna.pruners.MedianPruner(STARTUP, warmup),
                load_if_exists=True,
            )
        finally:
            optuna.logging.set_verbosity(before)
        if _IDENTITY not in study.user_attrs:
            study.set_user_attr(_IDENTITY, now)
        require_same(study.user_attrs[_IDENTITY], now, path or Path())
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            study.tell(trial.number, state=TrialState.FAIL)
        yield study


def _journal(path: Path, files: ExitStack, *, overwrite: bool) -> optuna.storages.BaseStorage:
    """Lock the file until ``files`` are closed; raise if it is not a study of ours."""
    from optuna.storages.journal import JournalFileBackend, JournalStorage

    files.enter_context(ledger.locked_lines(path, mark=_MARK, what=_WHAT, empty=overwrite))
    # We hold the file, so a lock of Optuna that is there was left by a killed process.
    Path(f"{path}.lock").unlink(missing_ok=True)
    try:
        return JournalStorage(JournalFileBackend(str(path)))
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(path, f"it is not a journal of Optuna ({error!r})") from error


def tried_in(study: optuna.Study) -> list[Tried]:
    """Return all trials that came to an end; interrupted ones are left out."""
    from optuna.trial import TrialState

    found = []
    for trial in study.get_trials(deepcopy=False):
        tried = trial.user_attrs.get(_TRIED)
        ended = trial.state.is_finished() and trial.state != TrialState.FAIL
        if tried is not None and (ended or tried["state"] == "failed"):
            found.append(Tried(**tried))
    return found


def record(study: optuna.Study, trial: optuna.Trial, tried: Tried) -> None:
    """Keep the result of a trial; the next process resumes after it."""
    from optuna.trial import TrialState

    states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED}
    trial.set_user_attr(_TRIED, asdict(tried))
    study.tell(trial, tried.value, state=states.get(tried.state, TrialState.FAIL))
