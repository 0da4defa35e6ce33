"""The part of `sdgar evaluate` that measures lists of another system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgar.cli.console import Screen
from sdgar.cli.inputs import read_events
from sdgar.cli.measured import Wanted
from sdgar.cli.reports import tell_main, tell_measured, tell_metrics
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.data.readers import ReadOptions

_OF_MODELS = (
    "run", "test", "histories", "rules", "diversity", "popularity", "exclude_category", "write_run",
    "write_qrels",
)  # fmt: skip
"""Parameters that only the measurement of a model looks at."""


def measure_run(
    screen: Screen,
    given: Mapping[str, str],
    run: Path | None,
    qrels: Path | None,
    train: list[Any] | None,
    reading: ReadOptions,
    wanted: Wanted,
) -> None:
    """Measure a run of TREC by qrels, and say what was found."""
    from sdgar.lab.trec_run import evaluate_run

    if run is None or qrels is None:
        raise UsageError("--run and --qrels go together: give both.", code="missing_option")
    unused = ["RUN" if name == "run" else given[name] for name in _OF_MODELS if name in given]
    if unused:
        raise UsageError(
            f"{', '.join(unused)} is about a model, and --run names lists that are made already. "
            "Leave one of them out.",
            code="unused_option",
        )
    trained = read_events(screen, "train", train, reading)[0] if train else None
    report = evaluate_run(
        run, qrels, ks=wanted.ks if wanted.ks_given else None, metrics=wanted.metrics,
        train=trained, facts=wanted.items,
    )  # fmt: skip
    tell_metrics(screen, report)
    tell_main(screen, report, None, run.name)
    tell_measured(screen, report.definition, list(report.means()), explain=wanted.explain)
    groups = wanted.groups(screen, report)
    wanted.write(screen, report)
    screen.result(
        {
            "run": str(run),
            "qrels": str(qrels),
            "test": report.means(),
            "intervals": report.intervals(),
            "counts": asdict(report.counts),
            "definition": report.definition,
            **groups,
        }
    )
