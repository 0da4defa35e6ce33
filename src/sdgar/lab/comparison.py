"""The result of a comparison: what was measured of each system, and the test over users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby, zip_longest
from typing import Any

import numpy as np

from sdgar.evaluation.measures import DEFINITIONS, meanings
from sdgar.evaluation.paired import Paired
from sdgar.evaluation.paired import compare as paired_test
from sdgar.evaluation.ranked import Counts
from sdgar.evaluation.report import Report
from sdgar.lab.conditions import Candidate, Conditions
from sdgar.lab.tune import Tuned
from sdgar.systems.recipe import recipe_of

TEST = (
    "± is the standard deviation over seeds. p is two-sided, of the sign-flip test over users of "
    "the difference between the two systems' means over seeds; it is not corrected for "
    "comparing several systems."
)
ONE_SEED = (
    "With one seed p is about these runs only: it is two-sided, of the sign-flip test over users. "
    "Another seed of either system may move the difference, and p does not include that. Run "
    "three seeds or more before you trust a small difference."
)
COLD = " among cold"
"""Ends the name of a metric that was measured among cold items alone."""
_OVER_FOLDS = (
    "All values are means over {} folds, which have equal weight; in the test a user of several "
    "folds counts once, with all of them."
)
_NOT_CHOSEN = ("seed", "engine", "device", "early_stopping__metric")
_OF_ALL_RUNS = ("system", "settings", "per_user", "users", "counts", "definition", "engine")
"""The fields of a run that a report has once for a system, or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One model, trained with one seed, and its metrics on the test rows."""

    system: str
    """The name of the system."""
    seed: int | None
    """The seed of the training; None for a system that draws nothing."""
    settings: dict[str, Any]
    """All hyper-parameters of the system."""
    metrics: dict[str, float]
    """The mean of each metric over test users."""
    per_user: list[float]
    """The main metric of every test user."""
    counts: dict[str, int]
    """The numbers of users, items and rows that were evaluated or could not be."""
    definition: str
    """The sentences that say how the lists were made."""
    engine: str
    """The engine that trained the model, or what computed it."""
    best_epoch: int | None
    """The epoch that was kept; None for a system without epochs."""
    seconds: float
    """The seconds of training, with the evaluations on validation rows."""
    fold: int = 0
    """The number of the split that the model was trained and measured on, from 0."""
    users: list[str | int] | None = None
    """The ids of the test users, which identify them across folds; None with one split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One row of the table: a system over all its seeds and folds."""

    system: str
    """The name of the system."""
    runs: tuple[Measured, ...]
    """The runs with all seeds and on all folds."""
    chosen: dict[str, Any]
    """The settings that differ from the defaults."""
    tuned: Tuned | None
    """The search that chose the settings; None if there was none."""
    means: dict[str, float]
    """The mean of each metric over runs."""
    sds: dict[str, float] | None
    """The standard deviations over seeds; None for one run."""
    low: float
    """The lower end of the 95 % bootstrap interval over users of the main metric's mean."""
    high: float
    """The upper end of the 95 % bootstrap interval over users of the main metric's mean."""
    versus: Paired | None = None
    """The difference of this system to the one it is compared with; None for that one itself."""

    @property
    def seconds(self) -> float:
        """The mean seconds of a run."""
        return float(np.mean([run.seconds for run in self.runs]))

    @property
    def engine(self) -> str:
        """The engine that trained the system, or what computed it."""
        return self.runs[0].engine

    @property
    def settings(self) -> str:
        """The chosen settings in words."""
        return " ".join(f"{name}={value}" for name, value in self.chosen.items())

    def mean_and_sd(self, metric: str) -> str:
        """Return the mean over runs, with the standard deviation over seeds if there is one.

        The text is empty for a metric that the system lacks, as without cold items.
        """
        if metric not in self.means:
            return ""
        mean = f"{self.means[metric]:.4f}"
        return mean if self.sds is None else f"{mean} ± {self.sds[metric]:.4f}"

    def as_dict(self, metric: str) -> dict[str, Any]:
        """Return plain values, for JSON; ``metric`` is the main one."""
        sds = self.sds or dict.fromkeys(self.means)
        runs = [
            {name: value for name, value in asdict(run).items() if name not in _OF_ALL_RUNS}
            for run in self.runs
        ]
        return {
            "system": self.system,
            metric: self.means[metric],
            "sd": sds[metric],
            "interval": [self.low, self.high],
            "versus": self.versus and self.versus.as_dict(),
            "seconds": round(self.seconds, 3),
            "engine": self.engine,
            "chosen": self.chosen,
            "settings": {k: v for k, v in self.runs[0].settings.items() if k != "seed"},
            "metrics": {name: {"mean": m, "sd": sds[name]} for name, m in self.means.items()},
            "runs": runs,
            "tuned": self.tuned and self.tuned.as_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A system that could not be trained or measured."""

    system: str
    """The name of the system."""
    code: str
    """The stable word for the kind of error."""
    message: str
    """The sentences of the error."""
    exit_code: int
    """The exit code that the error has on the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSystems:
    """Systems on the same rows, the best first, then the failed ones."""

    conditions: Conditions
    """The rows, the protocol, the seeds and the metrics that all systems share."""
    against: str | None
    """The system that the others are compared with; None if all failed."""
    standings: tuple[Standing, ...]
    """The systems that were measured, the best first."""
    failures: tuple[Failure, ...]
    """The systems that could not be trained or measured."""

    @property
    def metric(self) -> str:
        """The metric that systems are sorted by."""
        return self.conditions.sorted_by

    @property
    def definition(self) -> str:
        """The sentences that say how the lists were made, in the first fold."""
        if not self.standings:
            return ""
        said = self.standings[0].runs[0].definition
        return f"Of the first fold: {said}" if len(self.fold_counts) > 1 else said

    @property
    def definitions(self) -> dict[str, str]:
        """The meanings of the metrics that were measured."""
        return meanings(list(self.standings[0].means)) if self.standings else dict(DEFINITIONS)

    @property
    def how_sure(self) -> str:
        """The meaning of ± and p in this table."""
        said = TEST if len(self.conditions.seeds) > 1 else ONE_SEED
        n_folds = len(self.conditions.folds)
        return f"{_OVER_FOLDS.format(n_folds)} {said}" if n_folds > 1 else said

    @property
    def counts(self) -> Counts | None:
        """The numbers of what was evaluated in all folds; None if all systems failed."""
        return _total(self.fold_counts) if self.standings else None

    @property
    def fold_counts(self) -> list[Counts]:
        """The numbers of what was evaluated in each fold; an empty list if all systems failed."""
        runs = self.standings[0].runs if self.standings else ()
        return [Counts(**fold[0].counts) for fold in _by_fold(runs)]

    @property
    def further_metrics(self) -> tuple[str, ...]:
        """The metrics of the table after the main one; first the main one among cold items."""
        cold = self.metric + COLD
        has_cold = any(cold in standing.means for standing in self.standings)
        return (*([cold] if has_cold else []), *self.conditions.shown)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        conditions = self.conditions
        hows = [fold.how for fold in conditions.folds]
        return {
            "metric": self.metric,
            "protocol": conditions.protocol,
            "seeds": list(conditions.seeds),
            "trials": conditions.trials,
            "against": self.against,
            "definition": self.definition,
            "definitions": self.definitions,
            "test": self.how_sure,
            "counts": asdict(self.counts) if self.counts else {},
            "folds": [
                {"how": how, "counts": counts}
                for how, counts in zip_longest(hows, map(asdict, self.fold_counts))
            ],
            "systems": [standing.as_dict(self.metric) for standing in self.standings],
            "failed": [asdict(failure) for failure in self.failures],
        }


def stand(
    candidates: Sequence[Candidate],
    runs: Mapping[str, Sequence[Measured]],
    tuned: Mapping[str, Tuned],
    failures: Sequence[Failure],
    conditions: Conditions,
    against: str | None,
) -> ComparedSystems:
    """Sort by the mean over folds and seeds, and compare every system with the best or a named one.

    d_u = a's metric for user u, over seeds and folds - the same of b's
    """
    metric = conditions.sorted_by
    reports = {system: _over_runs(own, metric) for system, own in runs.items()}
    order = sorted(reports, key=lambda system: (-reports[system].means()[metric], system))
    if against not in order:  # none was named, or it failed
        against = order[0] if order else None
    standings = []
    for system in order:
        versus = None
        if against is not None and system != against:
            versus = paired_test(reports[system], reports[against], metric)
        own = tuple(runs[system])
        low, high = reports[system].intervals()[metric]
        means, sds = _means(own)
        kind = next(type(c.estimator) for c in candidates if c.system == system)
        defaults = recipe_of(kind()).settings
        chosen = {
            name: value
            for name, value in own[0].settings.items()
            if name not in _NOT_CHOSEN and value != defaults[name]
        }
        standings.append(
            Standing(
                system=system,
                runs=own,
                chosen=chosen,
                tuned=tuned.get(system),
                means=means,
                sds=sds,
                low=low,
                high=high,
                versus=versus,
            )
        )
    return ComparedSystems(
        conditions=conditions,
        against=against,
        standings=tuple(standings),
        failures=tuple(failures),
    )


def _means(runs: Sequence[Measured]) -> tuple[dict[str, float], dict[str, float] | None]:
    """Return mean and standard deviation of each metric over seeds, of means over folds.

    A fold without cold items has none of their metrics, and then there is no mean over folds.
    """
    seeds = list(zip(*_by_fold(runs), strict=True))
    names = [name for name in runs[0].metrics if all(name in run.metrics for run in runs)]
    values = {name: [np.mean([r.metrics[name] for r in same]) for same in seeds] for name in names}
    means = {name: float(np.mean(v)) for name, v in values.items()}
    if len(seeds) == 1:
        return means, None
    return means, {name: float(np.std(v, ddof=1)) for name, v in values.items()}


def _over_runs(runs: Sequence[Measured], metric: str) -> Report:
    """Return every user's mean over seeds and folds as one report, in which folds weigh alike.

    With n users in all F folds, T_f of them in fold f, and the mean over seeds m_fu of each:

        x_u = n / F · Σ_f m_fu / T_f,   so that   mean_u x_u = mean_f mean_u m_fu
    """
    folds = _by_fold(runs)
    users = [np.arange(len(run.per_user)) if run.users is None else run.users for run, *_ in folds]
    everyone, at_E = np.unique(np.concatenate(users), return_inverse=True)
    value_T = np.zeros(len(everyone))
    first = 0
    for fold in folds:
        mean_T = np.mean([run.per_user for run in fold], axis=0)
        at_T = at_E[first : first + len(mean_T)]
        value_T[at_T] += mean_T * (len(everyone) / (len(folds) * len(mean_T)))
        first += len(mean_T)
    counts = _total([Counts(**fold[0].counts) for fold in folds])
    return Report(np.arange(len(everyone)), {metric: value_T}, counts)


def _by_fold(runs: Sequence[Measured]) -> list[list[Measured]]:
    """Return the runs of each fold, which stand together."""
    return [list(fold) for _, fold in groupby(runs, lambda run: run.fold)]


def _total(counts: Sequence[Counts]) -> Counts:
    """Add up what was evaluated in all folds; a user of several folds counts in each."""
    if len(counts) == 1:
        return counts[0]
    sums = {f.name: sum(getattr(one, f.name) for one in counts) for f in fields(Counts)}
    return Counts(**sums | {"items": max(one.items for one in counts)})
