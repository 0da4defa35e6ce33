"""The search for hyper-parameters on validation rows, with one seed; test rows play no part.

The n-th trial depends on the seed, on n and on the results before it, and on nothing else: each
has a new sampler with its own seed. The first trial has the defaults. If the grid of all choices is
no larger than the number of trials, it is tried in a random order; otherwise the tree-structured
Parzen estimator proposes.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sdgar.arguments import at_least
from sdgar.data import splits
from sdgar.data.interactions import Interactions
from sdgar.errors import NumericalError, UsageError
from sdgar.evaluation.measures import check_metric
from sdgar.lab.study import STARTUP, Tried, opened, record, require_optuna, tried_in
from sdgar.maths.rng import Draws, Stream, sort_keys
from sdgar.runs.run import identity_of, loop_of
from sdgar.runs.watching import Stop, Watch, Work, never
from sdgar.settings import METRIC
from sdgar.systems.base import Estimator
from sdgar.systems.defaults import RATES, Choice, Range, Space
from sdgar.systems.recipe import recipe_of, spec_of
from sdgar.training.records import EpochRecord, Phase

if TYPE_CHECKING:
    import optuna

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
            "best": asdict(self.best),
            "defaults": asdict(self.trials[0]),
            "trials": [asdict(tried) for tried in self.trials],
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
    system = recipe_of(base).name
    if metric is None:
        metric = base.get_params().get("early_stopping__metric", METRIC)
    elif "early_stopping__metric" in base.get_params():
        base = with_settings(base, {"early_stopping__metric": metric})
    _, k = check_metric(metric)
    space = searched_of(base, fixed)
    if not space:
        rest = " other than the given ones" if fixed else ""
        raise UsageError(
            f"{system} has no settings to search{rest}. Train it: sdgar train.",
            code="nothing_to_tune",
        )
    if valid is None:
        train, valid = splits.validation(train, seed=seed)
    params = recipe_of(base).settings | recipe_of(base).decided(train)
    first = rounded({name: values.nearest(params[name]) for name, values in space.items()})
    identity = identity_of(base, train, None, valid, "validated", (k,))
    identity |= {"searched": {name: repr(values) for name, values in space.items()}}
    identity |= {"search seed": seed, "metric": metric}
    warmup = _EVALUATIONS_BEFORE_PRUNING * params.get("early_stopping__every", 1)
    kept = "Nothing was kept; --study FILE keeps a search."
    if study is not None:
        kept = f"All trials but this one are kept in {study}; the same command resumes."
    work = Work(watch or Watch(), stop, kept)
    every = grid(space, first, seed)
    fits = all(isinstance(values, Choice) for values in space.values()) and len(every) <= trials
    wanted, planned = (len(every), every) if fits else (trials, [first])
    with opened(identity, warmup=warmup, path=study, overwrite=overwrite) as search:
        done = tried_in(search)
        for tried in done:
            work.end("before", _sentence(system, tried))
        while len(done) < wanted:
            work.require_going()
            before = [tried.settings for tried in done]
            untried = next((one for one in planned if one not in before), None)
            trial = _next_trial(search, space, untried, trial_seed(seed, len(done)))
            settings = rounded(trial.params)
            twin = next((tried for tried in done if tried.settings == settings), None)
            tried = Tried(number=len(done) + 1, settings=settings, state="pruned", value=None)
            if twin is None:
                tried = _train(trial, tried, base, train, valid, metric, work)
            else:  # the same settings have the same result
                tried = replace(twin, number=tried.number, seconds=0.0)
            record(search, trial, tried)
            done.append(tried)
            work.end("trial", _sentence(system, tried))
    tuned = Tuned(system=system, trials=tuple(done), searched=tuple(space), metric=metric)
    if all(tried.value is None for tried in tuned.trials):
        raise NumericalError(
            f"none of {len(tuned.trials)} trials of {system} gave a value; the first: "
            f"{tuned.trials[0].reason}",
            code="diverged",
        )
    return tuned


def searched_of(base: Estimator, fixed: Collection[str]) -> Space:
    """Return the settings of an estimator that a search would try, without the fixed ones."""
    space = {name: values for name, values in spec_of(base).searched.items() if name not in fixed}
    if space.get("learning_rate") in RATES.values():
        optimizer, _ = recipe_of(base).optimizer
        space["learning_rate"] = RATES.get(optimizer, space["learning_rate"])
    return space


def with_settings(base: Estimator, settings: Mapping[str, Any]) -> Estimator:
    """Make a fresh estimator with some settings changed."""
    return type(base)(**{**base.get_params(), **settings})


def _next_trial(
    study: optuna.Study, space: Space, settings: dict[str, Any] | None, seed: int
) -> optuna.Trial:
    """Begin a trial with these settings; if there are none, with settings that Optuna proposes."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution
    from optuna.samplers import TPESampler
    from optuna.trial import TrialState

    if settings is None:
        study.sampler = TPESampler(seed=seed, n_startup_trials=STARTUP)
    # A waiting trial was added for this turn before a crash.
    elif not study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
        study.enqueue_trial(settings)
    return study.ask(
        {
            name: FloatDistribution(values.low, values.high, log=True)
            if isinstance(values, Range)
            else CategoricalDistribution(values.values)
            for name, values in space.items()
        }
    )


def _train(
    trial: optuna.Trial,
    tried: Tried,
    base: Estimator,
    train: Interactions,
    valid: Interactions,
    metric: str,
    work: Work,
) -> Tried:
    """Train with the proposed settings and return the result."""
    from optuna import TrialPruned

    estimator = with_settings(base, tried.settings)
    recipe = recipe_of(estimator)
    watched = work.begin(f"{recipe.name} trial {tried.number}", loop_of(recipe.settled(train)))

    def on_epoch(phase: Phase, epoch: EpochRecord) -> None:
        watched(phase, epoch)
        if epoch.metric is not None:
            trial.report(epoch.metric, epoch.epoch)
            if trial.should_prune():
                raise TrialPruned

    start = time.perf_counter()
    try:
        chosen_on = valid if recipe.loop is not None and recipe.loop.early_stopping else None
        estimator.fit(train, chosen_on, on_epoch=on_epoch)
        value = estimator.evaluate(valid, ks=(check_metric(metric)[1],)).means()[metric]
        best_epoch = recipe_of(estimator).trained.chosen_epoch
        tried = replace(tried, state="complete", value=value, best_epoch=best_epoch)
    except TrialPruned:
        tried = replace(tried, state="pruned")
    except NumericalError as error:
        tried = replace(tried, state="failed", reason=str(error))
    return replace(tried, seconds=round(time.perf_counter() - start, 3))


def grid(space: Space, first: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """Return all combinations of the choices: ``first``, then the others in a random order."""
    choices = {name: v.values for name, v in space.items() if isinstance(v, Choice)}
    every = [
        first | dict(zip(choices, values, strict=True))
        for values in itertools.product(*choices.values())
    ]
    keys = sort_keys(seed, Stream.TRIALS, 0, np.arange(len(every)))
    others = [every[i] for i in np.argsort(keys, kind="stable") if every[i] != first]
    return [first, *others]


def trial_seed(seed: int, n: int) -> int:
    """Return the seed of the sampler for trial n, 32 random bits."""
    rows = np.array([n])
    return int(Draws(seed, Stream.TRIALS, 1, rows).words(0 * rows)[0][0])


def rounded(settings: dict[str, Any]) -> dict[str, Any]:
    """Round settings to three digits: a search is no more precise, and they are quick to type."""
    return {
        name: float(f"{value:.3g}") if isinstance(value, float) else value
        for name, value in settings.items()
    }


def _sentence(system: str, tried: Tried) -> str:
    """Return the result of a trial as one line."""
    result = tried.state if tried.value is None else f"{tried.value:.4f}"
    settings = " ".join(f"{name}={value}" for name, value in tried.settings.items())
    return f"{system} {tried.number:>3}  {result:>8}  {tried.seconds:6.1f} s  {settings}"
