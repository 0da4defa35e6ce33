"""From measured runs to one table: means over seeds, differences, paired tests over users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sdgar.evaluation.counts import Counts
from sdgar.evaluation.paired import Paired, compare
from sdgar.evaluation.report import Report
from sdgar.lab.comparison import Comparison, Failure, Measured, Standing, by_fold, total_of
from sdgar.lab.tune import Tuned

_NOT_CHOSEN = ("seed", "engine", "device", "metric")


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
    """All systems of a comparison, those that were measured and those that failed."""

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
            versus = compare(reports[name], reports[against], metric)
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
