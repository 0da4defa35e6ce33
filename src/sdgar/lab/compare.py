"""Compare several systems on the same rows, with the same search and seeds, in one table.

    OUT/results.jsonl      one line a finished run, with what must be the same for it to count
    OUT/studies/*.jsonl    the searches
    OUT/compare.json, .csv, .md, .png

An interrupted comparison resumes with the same call: finished runs are read from the lines, not
trained again. A line that was made with other data or settings is refused, never mixed in.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sdgar.data.held_out import measured_users
from sdgar.errors import (
    ArtifactError,
    SdgarError,
    StoppedError,
    UsageError,
    exhausted,
    unknown_name,
)
from sdgar.evaluation.counts import Counts
from sdgar.evaluation.paired import Paired
from sdgar.evaluation.paired import compare as paired_test
from sdgar.evaluation.report import Report
from sdgar.lab.comparison import (
    COLD,
    Comparison,
    Failure,
    Measured,
    Standing,
    by_fold,
    total_of,
)
from sdgar.lab.conditions import Candidate, Conditions
from sdgar.lab.results import Results
from sdgar.lab.study import require_optuna
from sdgar.lab.tune import Tuned, tune, with_settings
from sdgar.runs.run import (
    Stop,
    Unwatched,
    Watch,
    at_once,
    fit_by,
    loop_of,
    never,
    require_folding,
    require_going,
    stoppable,
)
from sdgar.systems.base import Estimator
from sdgar.systems.recipe import recipe_of


def compare(
    candidates: Sequence[Candidate],
    conditions: Conditions,
    *,
    against: str | None = None,
    out: Path | None = None,
    overwrite: bool = False,
    watch: Watch | None = None,
    stop: Stop = never,
) -> Comparison:
    """Train every system by the protocol with every seed, and read the test rows once a run.

    With ``trials``, each system's settings are first searched on validation rows, all with the
    same number of trials; of several folds, on the training rows of the first. A system that fails
    is reported with its reason; the others are still compared. With ``out`` everything is kept
    there.
    """
    _require_distinct(candidates, against)
    if conditions.trials is not None:
        require_optuna()
    if any(fold.histories is not None for fold in conditions.folds):
        require_folding([candidate.estimator for candidate in candidates], conditions.protocol)
    watch = watch or Unwatched()
    entrants = Entrants()
    with Results(out, overwrite=overwrite) as results:
        for candidate in candidates:
            # Before any training. What a search may change is checked after the search.
            free = candidate.searched if conditions.trials is not None else ()
            for number, fold in enumerate(conditions.folds):
                for seed in candidate.seeds(conditions.seeds):
                    ready = conditions.ready(candidate.estimator, seed)
                    identity = conditions.identity_of(ready, fold)
                    results.require_same((candidate.system, seed, number), identity, free=free)
        for candidate in candidates:
            try:
                entrants.finished[candidate.system] = _enter(
                    candidate, conditions, results, watch, stop
                )
            except (StoppedError, ArtifactError):
                raise  # about the comparison, not about the system
            except (SdgarError, MemoryError, RuntimeError) as error:
                known = error if isinstance(error, SdgarError) else exhausted(error)
                if known is None:
                    raise
                failure = Failure.of(candidate.system, known)
                entrants.failed.append(failure)
                watch.end("failed", f"{candidate.system}: {failure.message}")
    return stand(
        entrants,
        metric=conditions.sorted_by,
        protocol=conditions.protocol,
        seeds=conditions.seeds,
        trials=conditions.trials,
        against=against,
        folds=[fold.how for fold in conditions.folds],
        shown=conditions.shown,
    )


def pieces(candidates: Sequence[Candidate], conditions: Conditions) -> int:
    """Count the trials and runs of a comparison."""
    trials = conditions.trials or 0
    return sum(
        len(candidate.seeds(conditions.seeds)) * len(conditions.folds)
        + (trials if candidate.searched else 0)
        for candidate in candidates
    )


def _enter(
    candidate: Candidate, conditions: Conditions, results: Results, watch: Watch, stop: Stop
) -> Entrant:
    """Search a system's settings if that is wanted, then train it with every seed."""
    entrant = Entrant([], recipe_of(type(candidate.estimator)()).settings)
    estimator = candidate.estimator
    if conditions.trials is not None and candidate.searched:
        entrant.tuned = tune(
            conditions.ready(estimator, conditions.seeds[0]),
            conditions.folds[0].train,
            conditions.valid,
            trials=conditions.trials,
            fixed=candidate.fixed,
            metric=conditions.metric,
            seed=conditions.seeds[0],
            study=results.study_of(candidate.system),
            watch=watch,
            stop=stop,
        )
        estimator = with_settings(estimator, entrant.tuned.best.settings)
    for number, fold in enumerate(conditions.folds):
        for seed in candidate.seeds(conditions.seeds):
            require_going(stop, results.kept)
            ready = conditions.ready(estimator, seed)
            identity = conditions.identity_of(ready, fold)
            run = results.find((candidate.system, seed, number), identity)
            before = run is not None
            if run is None:
                run = _measure(ready, seed, number, conditions, watch, stop, results.kept)
                results.add(run, identity)
            entrant.runs.append(run)
            said = _name(run.system, seed, number, conditions)
            value = run.metrics[conditions.sorted_by]
            said += f": {conditions.sorted_by} {value:.4f} in {run.seconds:.1f} s"
            watch.end("before" if before else "run", said)
    return entrant


def _measure(
    estimator: Estimator,
    seed: int | None,
    number: int,
    conditions: Conditions,
    watch: Watch,
    stop: Stop,
    kept: str,
) -> Measured:
    """Train by the protocol and read the test rows once."""
    fold = conditions.folds[number]
    name = _name(recipe_of(estimator).name, seed, number, conditions)
    loop = loop_of(recipe_of(estimator).settled(fold.train), conditions.protocol) or at_once()
    hear = stoppable(watch.begin(name, loop), stop, kept)
    start = time.perf_counter()
    fit_by(
        conditions.protocol,
        estimator,
        fold.train,
        fold.held_out,
        conditions.valid,
        hear,
    )
    seconds = time.perf_counter() - start
    report, cold = conditions.evaluate(estimator, fold), conditions.among_cold(estimator, fold)
    of_cold = {} if cold is None else {f"{n}{COLD}": mean for n, mean in cold.means().items()}
    users = None
    if len(conditions.folds) > 1:
        users = measured_users(fold.held_out, estimator.recommender_).tolist()
    trained = recipe_of(estimator).trained
    return Measured(
        system=recipe_of(estimator).name,
        seed=seed,
        settings=recipe_of(estimator).settings,
        metrics=report.means() | of_cold,
        per_user=report.per_user[conditions.sorted_by].tolist(),
        counts=asdict(report.counts),
        definition=report.definition,
        engine=trained.engine,
        best_epoch=trained.chosen_epoch,
        seconds=round(seconds, 3),
        fold=number,
        users=users,
    )


def _require_distinct(candidates: Sequence[Candidate], against: str | None) -> None:
    names = [candidate.system for candidate in candidates]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise UsageError(f"{twice[0]} is named twice; name each system once.", code="named_twice")
    if not names:
        raise UsageError("a comparison needs systems, got none. Name some: --systems bpr,sdgar.")
    if against is not None and against not in names:
        raise unknown_name("system to compare the others with", against, names)


def _name(system: str, seed: int | None, number: int, conditions: Conditions) -> str:
    """Return what a run is called on the screen."""
    fold = f" fold {number + 1}" if len(conditions.folds) > 1 else ""
    return system + ("" if seed is None else f" seed {seed}") + fold


_NOT_CHOSEN = ("seed", "engine", "device", "early_stopping__metric")


@dataclass(slots=True)
class Entrant:
    """A system with all its runs, when they are over."""

    runs: list[Measured]
    """The measured runs."""
    defaults: Mapping[str, Any]
    """The default settings of the system."""
    tuned: Tuned | None = None
    """The search that chose the settings; None if there was none."""


@dataclass(slots=True)
class Entrants:
    """The measured and the failed systems of a comparison."""

    finished: dict[str, Entrant] = field(default_factory=dict)
    """The measured systems by name."""
    failed: list[Failure] = field(default_factory=list)
    """The systems that could not be trained or measured."""


def stand(
    entrants: Entrants,
    *,
    metric: str,
    protocol: str,
    seeds: Sequence[int],
    trials: int | None,
    against: str | None,
    folds: Sequence[str] = ("given",),
    shown: Sequence[str] = (),
) -> Comparison:
    """Sort by the mean over folds and seeds, and compare every system with the best or a named one.

    d_u = a's metric for user u, over seeds and folds - the same of b's
    """
    reports = {name: _over_runs(e.runs, metric) for name, e in entrants.finished.items()}
    order = sorted(reports, key=lambda name: (-reports[name].means()[metric], name))
    if against not in order:  # nobody was named, or it failed
        against = order[0] if order else None
    standings = []
    for name in order:
        versus = None
        if against is not None and name != against:
            versus = paired_test(reports[name], reports[against], metric)
        standings.append(_standing(name, entrants.finished[name], reports[name], metric, versus))
    return Comparison(
        metric=metric,
        protocol=protocol,
        seeds=tuple(seeds),
        trials=trials,
        against=against,
        standings=tuple(standings),
        failures=tuple(entrants.failed),
        definition=_definition(standings[0].runs) if standings else "",
        folds=tuple(folds),
        shown=tuple(shown),
    )


def _over_runs(runs: Sequence[Measured], metric: str) -> Report:
    """Return every user's mean over seeds and folds as one report, in which folds weigh alike.

    With n users in all F folds, T_f of them in fold f, and the mean over seeds m_fu of each:

        x_u = n / F · Σ_f m_fu / T_f,   so that   mean_u x_u = mean_f mean_u m_fu
    """
    folds = by_fold(runs)
    users = [np.arange(len(run.per_user)) if run.users is None else run.users for run, *_ in folds]
    everyone, at_E = np.unique(np.concatenate(users), return_inverse=True)
    value_T = np.zeros(len(everyone))
    first = 0
    for fold in folds:
        mean_T = np.mean([run.per_user for run in fold], axis=0)
        at_T = at_E[first : first + len(mean_T)]
        value_T[at_T] += mean_T * (len(everyone) / (len(folds) * len(mean_T)))
        first += len(mean_T)
    counts = total_of([Counts(**fold[0].counts) for fold in folds])
    return Report(np.arange(len(everyone)), {metric: value_T}, counts)


def _definition(runs: Sequence[Measured]) -> str:
    """Return how the lists of the first fold were made."""
    folds = by_fold(runs)
    return runs[0].definition if len(folds) == 1 else f"Of the first fold: {runs[0].definition}"


def _standing(
    name: str, entrant: Entrant, report: Report, metric: str, versus: Paired | None
) -> Standing:
    runs = entrant.runs
    # One value a seed: its mean over folds.
    seeds = list(zip(*by_fold(runs), strict=True))
    # A fold without cold items has none of their metrics, and then there is no mean over folds.
    measured = [m for m in runs[0].metrics if all(m in run.metrics for run in runs)]
    values = {m: [np.mean([r.metrics[m] for r in same]) for same in seeds] for m in measured}
    low, high = report.intervals()[metric]
    return Standing(
        system=name,
        runs=tuple(runs),
        chosen={
            key: value
            for key, value in runs[0].settings.items()
            if key not in _NOT_CHOSEN and value != entrant.defaults[key]
        },
        tuned=entrant.tuned,
        means={m: float(np.mean(v)) for m, v in values.items()},
        sds={m: float(np.std(v, ddof=1)) for m, v in values.items()} if len(seeds) > 1 else None,
        low=low,
        high=high,
        versus=versus,
    )
