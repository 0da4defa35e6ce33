"""The table of a comparison: what was measured of each system, and how it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from itertools import zip_longest
from typing import Any

import numpy as np

from sdgar.errors import SdgarError
from sdgar.evaluation.counts import Counts
from sdgar.evaluation.measures import meanings
from sdgar.evaluation.metrics import DEFINITIONS
from sdgar.evaluation.paired import Paired
from sdgar.lab.tune import Tuned

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

    @classmethod
    def of(cls, system: str, error: SdgarError) -> Failure:
        """Describe the error that ended a system."""
        return cls(system=system, code=error.code, message=str(error), exit_code=error.exit_code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The table of a comparison: systems on the same rows, the best first, then failed ones."""

    metric: str
    """The metric that systems are sorted by."""
    protocol: str
    """The way in which the number of epochs was chosen: validated or paper."""
    seeds: tuple[int, ...]
    """The seeds that each system was trained with."""
    trials: int | None
    """How many trials each search on validation rows had; None if nothing was searched."""
    against: str | None
    """The system that the others are compared with; None if all failed."""
    standings: tuple[Standing, ...]
    """The systems that were measured, the best first."""
    failures: tuple[Failure, ...]
    """The systems that could not be trained or measured."""
    definition: str
    """The sentences that say how the lists were made."""
    folds: tuple[str, ...] = ("given",)
    """The rules by which the test rows of each fold were split off."""
    shown: tuple[str, ...] = ()
    """The metrics that the table shows after the one that systems are sorted by."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "metric": self.metric,
            "protocol": self.protocol,
            "seeds": list(self.seeds),
            "trials": self.trials,
            "against": self.against,
            "definition": self.definition,
            "definitions": self.definitions,
            "test": self.how_sure,
            "counts": asdict(self.counts) if self.counts else {},
            "folds": [
                {"how": how, "counts": counts}
                for how, counts in zip_longest(self.folds, map(asdict, self.fold_counts))
            ],
            "systems": [_as_dict(standing, self.metric) for standing in self.standings],
            "failed": [asdict(failure) for failure in self.failures],
        }

    def columns(self) -> dict[str, list[Any]]:
        """Return the table with a column for every metric, for CSV."""
        rows = [self._row(standing) for standing in self.standings]
        rows += [{"system": f.system, "note": f.message} for f in self.failures]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}

    def markdown(self) -> str:
        """Return the table and what its numbers mean, as Markdown."""
        head, rows = self.table()
        rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
        lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
        kinds = [f"- {kind}@k: {said}" for kind, said in self.definitions.items()]
        said = f"{self.definition} {self.how_sure}"
        return "\n".join([*lines, "", said, "", *kinds, ""])

    @property
    def definitions(self) -> dict[str, str]:
        """The meanings of the metrics that were measured."""
        return meanings(list(self.standings[0].means)) if self.standings else dict(DEFINITIONS)

    @property
    def how_sure(self) -> str:
        """The meaning of ± and p in this table."""
        said = TEST if len(self.seeds) > 1 else ONE_SEED
        return f"{_OVER_FOLDS.format(len(self.folds))} {said}" if len(self.folds) > 1 else said

    @property
    def counts(self) -> Counts | None:
        """The numbers of what was evaluated in all folds; None if all systems failed."""
        return total_of(self.fold_counts) if self.standings else None

    @property
    def fold_counts(self) -> list[Counts]:
        """The numbers of what was evaluated in each fold; an empty list if all systems failed."""
        runs = self.standings[0].runs if self.standings else ()
        found = {run.fold: Counts(**run.counts) for run in reversed(runs)}
        return [found[fold] for fold in sorted(found)]

    @property
    def further_metrics(self) -> tuple[str, ...]:
        """The metrics of the table after the main one; first the main one among cold items."""
        cold = self.metric + COLD
        has_cold = any(cold in standing.means for standing in self.standings)
        return (*([cold] if has_cold else []), *self.shown)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the head and the rows of the table for people."""
        p = "p" if len(self.seeds) > 1 else "p of these runs"
        head = ["system", self.metric, f"vs {self.against}", p, *self.further_metrics]
        head += ["seconds", "engine", "settings"]
        rows = [
            [
                standing.system,
                mean_and_sd(standing, self.metric),
                "" if standing.versus is None else f"{standing.versus.difference:+.4f}",
                "" if standing.versus is None else p_in_words(standing.versus.sign_flip_p),
                *(mean_and_sd(standing, name) for name in self.further_metrics),
                f"{standing.seconds:.1f}",
                standing.engine,
                standing.settings,
            ]
            for standing in self.standings
        ]
        blank = [""] * (len(head) - 3)
        rows += [[f.system, "failed", *blank, f.message] for f in self.failures]
        return head, rows

    def _row(self, standing: Standing) -> dict[str, Any]:
        row: dict[str, Any] = {"system": standing.system, "runs": len(standing.runs)}
        for name, mean in standing.means.items():
            row |= {name: mean, f"{name} sd": standing.sds and standing.sds[name]}
        row |= {"low": standing.low, "high": standing.high, "against": self.against}
        versus = standing.versus
        row |= {
            "difference": versus and versus.difference,
            "p": versus and versus.sign_flip_p,
            "t p": versus and versus.t_p,
            "seconds": standing.seconds,
            "engine": standing.engine,
            "settings": standing.settings,
            "note": "",
        }
        return row


def by_fold(runs: Sequence[Measured]) -> list[list[Measured]]:
    """Return the runs of each fold."""
    folds: dict[int, list[Measured]] = {}
    for run in runs:
        folds.setdefault(run.fold, []).append(run)
    return list(folds.values())


def total_of(counts: Sequence[Counts]) -> Counts:
    """Add up what was evaluated in all folds; a user of several folds counts in each."""
    if len(counts) == 1:
        return counts[0]
    sums = {f.name: sum(getattr(one, f.name) for one in counts) for f in fields(Counts)}
    return Counts(**sums | {"items": max(one.items for one in counts)})


def _as_dict(standing: Standing, metric: str) -> dict[str, Any]:
    runs = []
    for run in standing.runs:
        values = asdict(run)
        for name in (
            "system", "settings", "per_user", "users", "counts", "definition", "engine",
        ):  # fmt: skip
            del values[name]
        runs.append(values)
    return {
        "system": standing.system,
        metric: standing.means[metric],
        "sd": standing.sds and standing.sds[metric],
        "interval": [standing.low, standing.high],
        "versus": standing.versus and standing.versus.as_dict(),
        "seconds": round(standing.seconds, 3),
        "engine": standing.engine,
        "chosen": standing.chosen,
        "settings": {k: v for k, v in standing.runs[0].settings.items() if k != "seed"},
        "metrics": {
            name: {"mean": mean, "sd": standing.sds and standing.sds[name]}
            for name, mean in standing.means.items()
        },
        "runs": runs,
        "tuned": standing.tuned and standing.tuned.as_dict(),
    }


def mean_and_sd(standing: Standing, metric: str) -> str:
    """Return the mean over runs, with the standard deviation over seeds if there is one.

    The text is empty for a system without this metric, as one without cold items has none of these.
    """
    if metric not in standing.means:
        return ""
    mean = f"{standing.means[metric]:.4f}"
    return mean if standing.sds is None else f"{mean} ± {standing.sds[metric]:.4f}"


def p_in_words(value: float) -> str:
    """Return a p with three digits, as a table shows it."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
