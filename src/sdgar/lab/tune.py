"""The search for hyper-parameters on validation rows, with one seed; test rows play no part."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdgar.arguments import at_least
from sdgar.data import splits
from sdgar.data.interactions import Interactions
from sdgar.errors import NumericalError, UsageError
from sdgar.evaluation.metrics import check_metric
from sdgar.lab.study import Proposal, PrunedError, Study, Tried, require_optuna, rounded
from sdgar.runs.run import (
    Stop,
    Unwatched,
    Watch,
    at_once,
    identity_of,
    loop_of,
    never,
    require_going,
    stoppable,
)
from sdgar.settings import METRIC
from sdgar.systems.base import Estimator
from sdgar.systems.defaults import RATES, Space
from sdgar.systems.learner import Learner
from sdgar.systems.recipe import recipe_of, spec_of
from sdgar.training.fit import EpochRecord
from sdgar.training.trained import Phase

_EVALUATIONS_BEFORE_PRUNING = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The result of a search: all trials, of which one is the best."""

    system: str
    """The name of the system."""
    trials: tuple[Tried, ...]
    """The trials that are over, in their order."""
    searched: tuple[str, ...]
    """The names of the settings that were searched."""
    metric: str = METRIC
    """The metric on validation rows that the trials were compared by."""

    @property
    def best(self) -> Tried:
        """The trial with the largest value; of several, the first."""
        return max(
            (t for t in self.trials if t.value is not None), key=lambda t: (t.value, -t.number)
        )

    @property
    def seconds(self) -> float:
        """The seconds that all trials took."""
        return sum(tried.seconds for tried in self.trials)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "system": self.system,
            "metric": self.metric,
            "best": self.best.as_dict(),
            "defaults": self.trials[0].as_dict(),
            "trials": [tried.as_dict() for tried in self.trials],
            "seconds": round(self.seconds, 3),
        }


def tune(
    base: Estimator,
    train: Interactions,
    valid: Interactions | None = None,
    *,
    trials: int = 20,
    fixed: Collection[str] = (),
    metric: str | None = None,
    seed: int = 0,
    study: Path | None = None,
    overwrite: bool = False,
    watch: Watch | None = None,
    stop: Stop = never,
) -> Tuned:
    """Search the settings of ``base`` that are not ``fixed``, for the best validation metric.

    The validation metric is ``metric``, or else that of ``base``; it chooses the epochs too.
    The first trial is ``base`` as it is. Without ``valid``, 10 % of the rows are set aside for
    all trials. A trial is given up early if its values on the validation rows fall behind the
    median of those before it. With ``study`` the search is kept in a file; the same call then
    resumes where it was interrupted, and one with more ``trials`` adds to them.
    """
    at_least("trials", trials, 1)
    require_optuna()
    watch = watch or Unwatched()
    if metric is None:
        metric = base.get_params().get("early_stopping__metric", METRIC)
    elif "early_stopping__metric" in base.get_params():
        base = with_settings(base, {"early_stopping__metric": metric})
    _, k = check_metric(metric)
    space = searched_of(base, fixed)
    if not space:
        rest = " other than the given ones" if fixed else ""
        raise UsageError(
            f"{recipe_of(base).name} has no settings to search{rest}. Train it: sdgar train.",
            code="nothing_to_tune",
        )
    if valid is None:
        train, valid = splits.validation(train, seed=seed)
    params = recipe_of(base).settings | recipe_of(base).decided(train)
    first = rounded({name: values.nearest(params[name]) for name, values in space.items()})
    identity = identity_of(base, train, None, valid, "validated", (k,))
    identity |= {"searched": {name: repr(values) for name, values in space.items()}}
    identity |= {"search seed": seed, "metric": metric}
    looks = params.get("early_stopping__every", 1)
    kept = "Nothing was kept; --study FILE keeps a search."
    if study is not None:
        kept = f"All trials but this one are kept in {study}; the same command resumes."
    with Study(
        space,
        first,
        trials=trials,
        seed=seed,
        warmup=_EVALUATIONS_BEFORE_PRUNING * looks,
        identity=identity,
        path=study,
        overwrite=overwrite,
    ) as search:
        for tried in search.tried:
            watch.end("before", _sentence(recipe_of(base).name, tried))
        while not search.over:
            require_going(stop, kept)
            proposal = search.propose()
            done = search.tried
            twin = next((t for t in done if t.settings == proposal.settings), None)
            if twin is not None:
                proposal.repeats(twin)
            else:
                _try(proposal, base, train, valid, metric, watch, stop, kept)
            watch.end("trial", _sentence(recipe_of(base).name, search.tried[-1]))
        tuned = Tuned(
            system=recipe_of(base).name,
            trials=tuple(search.tried),
            searched=tuple(space),
            metric=metric,
        )
    if all(tried.value is None for tried in tuned.trials):
        raise NumericalError(
            f"none of {len(tuned.trials)} trials of {tuned.system} gave a value; the first: "
            f"{tuned.trials[0].reason}",
            code="diverged",
        )
    return tuned


def searched_of(base: Estimator, fixed: Collection[str]) -> Space:
    """Return the settings of an estimator that a search would try, without the fixed ones."""
    space = {name: values for name, values in spec_of(base).searched.items() if name not in fixed}
    if space.get("learning_rate") in RATES.values() and isinstance(base, Learner):
        optimizer, _ = recipe_of(base).optimizer
        space["learning_rate"] = RATES.get(optimizer, space["learning_rate"])
    return space


def with_settings(base: Estimator, settings: dict[str, Any]) -> Estimator:
    """Make a fresh estimator with some settings changed."""
    return type(base)(**(base.get_params() | settings))


def _try(
    proposal: Proposal,
    base: Estimator,
    train: Interactions,
    valid: Interactions,
    metric: str,
    watch: Watch,
    stop: Stop,
    kept: str,
) -> None:
    """Train with the proposed settings and record the result."""
    start = time.perf_counter()
    estimator = with_settings(base, proposal.settings)
    loop = loop_of(recipe_of(estimator).settled(train)) or at_once()
    hear = stoppable(
        watch.begin(f"{recipe_of(base).name} trial {proposal.number}", loop), stop, kept
    )

    def on_epoch(phase: Phase, epoch: EpochRecord) -> None:
        hear(phase, epoch)
        if epoch.metric is not None:
            proposal.look(epoch.epoch, epoch.metric)

    def seconds() -> float:
        return round(time.perf_counter() - start, 3)

    try:
        looks = recipe_of(estimator).loop
        looked_at = valid if looks is not None and looks.early_stopping else None
        estimator.fit(train, looked_at, on_epoch=on_epoch)
        value = estimator.evaluate(valid, ks=(check_metric(metric)[1],)).means()[metric]
    except PrunedError:
        proposal.pruned(seconds=seconds())
    except NumericalError as error:
        proposal.failed(str(error), seconds=seconds())
    else:
        chosen = recipe_of(estimator).trained.chosen_epoch
        proposal.complete(value, seconds=seconds(), best_epoch=chosen)


def _sentence(system: str, tried: Tried) -> str:
    """Return the result of a trial as one line."""
    result = tried.state if tried.value is None else f"{tried.value:.4f}"
    settings = " ".join(f"{name}={value}" for name, value in tried.settings.items())
    return f"{system} {tried.number:>3}  {result:>8}  {tried.seconds:6.1f} s  {settings}"
