"""From measured runs to one table: means over seeds, differences, paired tests over users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from sdgar.errors import SdgarError
from sdgar.evaluation.metrics import DEFINITIONS
from sdgar.evaluation.report import Counts, Paired, Report, compare
from sdgar.experiments.tune import Tuned

_NOT_CHOSEN = ("seed", "engine", "device", "metric")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One model, trained with one seed, and what the test rows said of it."""

    system: str
    seed: int | None
    """None for a system that draws nothing."""
    settings: dict[str, Any]
    metrics: dict[str, float]
    per_user: list[float]
    """The main metric of every test user."""
    counts: dict[str, int]
    definition: str
    engine: str
    best_epoch: int | None
    seconds: float
    """Training, with the looks at validation rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One row of the table: a system over all its seeds."""

    system: str
    runs: tuple[Measured, ...]
    chosen: dict[str, Any]
    """Settings that differ from the defaults."""
    tuned: Tuned | None
    means: dict[str, float]
    sds: dict[str, float] | None
    """Standard deviations over seeds; None for one run."""
    low: float
    """95 % bootstrap interval over users of the main metric's mean over seeds."""
    high: float
    versus: Paired | None = None
    """This system less the one it is held against; None for that one itself."""

    @property
    def seconds(self) -> float:
        """Mean time of a run."""
        return float(np.mean([run.seconds for run in self.runs]))

    @property
    def engine(self) -> str:
        """What trained it."""
        return self.runs[0].engine

    @property
    def settings(self) -> str:
        """The chosen settings as words."""
        return " ".join(f"{name}={value}" for name, value in self.chosen.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A system that could not be trained or measured."""

    system: str
    code: str
    message: str
    exit_code: int

    @classmethod
    def of(cls, system: str, error: SdgarError) -> Failure:
        """What went wrong."""
        return cls(system=system, code=error.code, message=str(error), exit_code=error.exit_code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All systems on the same rows, the best first; those that failed apart."""

    metric: str
    protocol: str
    seeds: tuple[int, ...]
    trials: int | None
    """Trials of each search on validation rows; None if nothing was searched."""
    against: str | None
    """The system the others are held against; None if all failed."""
    standings: tuple[Standing, ...]
    failures: tuple[Failure, ...]
    definition: str

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "metric": self.metric,
            "protocol": self.protocol,
            "seeds": list(self.seeds),
            "trials": self.trials,
            "against": self.against,
            "definition": self.definition,
            "definitions": dict(DEFINITIONS),
            "test": self.how_sure,
            "counts": asdict(self.counts) if self.counts else {},
            "systems": [_as_dict(standing, self.metric) for standing in self.standings],
            "failed": [asdict(failure) for failure in self.failures],
        }

    def columns(self) -> dict[str, list[Any]]:
        """The table with a column for every metric, for CSV."""
        rows = [self._row(standing) for standing in self.standings]
        rows += [{"system": f.system, "note": f.message} for f in self.failures]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}

    def markdown(self) -> str:
        """The table and what its numbers mean."""
        head, rows = self.table()
        rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
        lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
        kinds = [f"- {kind}@k: {said}" for kind, said in DEFINITIONS.items()]
        said = f"{self.definition} {self.how_sure}"
        return "\n".join([*lines, "", said, "", *kinds, ""])

    @property
    def how_sure(self) -> str:
        """What ± and p mean here."""
        return TEST if len(self.seeds) > 1 else ONE_SEED

    @property
    def counts(self) -> Counts | None:
        """What was evaluated, and what could not be; None if all systems failed."""
        return Counts(**self.standings[0].runs[0].counts) if self.standings else None

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Head and rows for people."""
        p = "p" if len(self.seeds) > 1 else "p of these runs"
        head = ["system", self.metric, f"vs {self.against}", p, "seconds", "engine", "settings"]
        rows = [
            [
                standing.system,
                _mean_and_sd(standing, self.metric),
                "" if standing.versus is None else f"{standing.versus.difference:+.4f}",
                "" if standing.versus is None else _p(standing.versus.sign_flip_p),
                f"{standing.seconds:.1f}",
                standing.engine,
                standing.settings,
            ]
            for standing in self.standings
        ]
        rows += [[f.system, "failed", "", "", "", "", f.message] for f in self.failures]
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


TEST = (
    "± is the standard deviation over seeds. p is two-sided, of the sign-flip test over users of "
    "the difference between the two systems' means over seeds; it is not corrected for looking "
    "at several systems."
)
ONE_SEED = (
    "With one seed p speaks of these runs only: it is two-sided, of the sign-flip test over users, "
    "and says nothing of how far another seed of either system would move the difference. Run "
    "three seeds or more before you believe a small one."
)


@dataclass(slots=True)
class Entrant:
    """What is known of a system when all its runs are over."""

    runs: list[Measured]
    defaults: Mapping[str, Any]
    tuned: Tuned | None = None


@dataclass(slots=True)
class Entrants:
    """Everyone who took part."""

    finished: dict[str, Entrant] = field(default_factory=dict)
    failed: list[Failure] = field(default_factory=list)


def stand(
    entrants: Entrants,
    *,
    metric: str,
    protocol: str,
    seeds: Sequence[int],
    trials: int | None,
    against: str | None,
) -> Comparison:
    """Sort by the mean over seeds and hold every system against the best, or against a named one.

    d_u = mean over seeds of a's metric for user u - the same of b's
    """
    reports = {name: _over_seeds(e.runs, metric) for name, e in entrants.finished.items()}
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
        definition=standings[0].runs[0].definition if standings else "",
    )


def _over_seeds(runs: Sequence[Measured], metric: str) -> Report:
    """Every user's mean over seeds, as one report."""
    per_user_T = np.mean([run.per_user for run in runs], axis=0)
    users_T = np.arange(len(per_user_T))
    return Report(users_T, {metric: per_user_T}, Counts(**runs[0].counts))


def _standing(
    name: str, entrant: Entrant, report: Report, metric: str, versus: Paired | None
) -> Standing:
    runs = entrant.runs
    values = {m: [run.metrics[m] for run in runs] for m in runs[0].metrics}
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
        sds={m: float(np.std(v, ddof=1)) for m, v in values.items()} if len(runs) > 1 else None,
        low=low,
        high=high,
        versus=versus,
    )


def _as_dict(standing: Standing, metric: str) -> dict[str, Any]:
    runs = []
    for run in standing.runs:
        values = asdict(run)
        for name in ("system", "settings", "per_user", "counts", "definition", "engine"):
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


def _mean_and_sd(standing: Standing, metric: str) -> str:
    mean = f"{standing.means[metric]:.4f}"
    return mean if standing.sds is None else f"{mean} ± {standing.sds[metric]:.4f}"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
