"""``sdgar evaluate --run``: measure recommendations of another system, from files of TREC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from sdgar.cli.console import Screen
from sdgar.cli.inputs import read_events
from sdgar.cli.options.option import Option
from sdgar.cli.reports import print_report
from sdgar.data.read_options import ReadOptions
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.cli.evaluate import FactTables, GroupOptions

_OF_MODELS = (
    "saved", "test", "histories", "rules", "diversity", "popularity", "exclude_category",
    "write_run", "write_qrels",
)  # fmt: skip
"""Options that only the measurement of a model uses."""


@dataclass(frozen=True, kw_only=True)
class TrecRunOptions:
    """The recommendations of another system, and what they are compared with."""

    panel: ClassVar[str] = "Files of TREC"

    foreign: Annotated[Path | None, Option(metavar="FILE", flag="--run")] = None
    """Measure the recommendations of this run; no model is loaded."""
    qrels: Path | None = None
    """The relevant items of the users of --run."""


class MeasureTrecRun:
    """Measures a run of TREC by qrels."""

    options: ClassVar[type] = TrecRunOptions

    def claims(self, options: TrecRunOptions) -> bool:
        """Return whether a run is measured, and no model."""
        return options.foreign is not None or options.qrels is not None

    def measure(
        self,
        screen: Screen,
        written: Mapping[str, str],
        options: TrecRunOptions,
        train: list[Any] | None,
        reading: ReadOptions,
        metrics: GroupOptions,
        tables: FactTables,
        *,
        ks: tuple[int, ...] | None,
        explain: bool,
    ) -> None:
        """Measure the run, and print the result."""
        from sdgar.lab.trec_run import evaluate_run

        run, qrels = options.foreign, options.qrels
        if run is None or qrels is None:
            raise UsageError("--run and --qrels go together: give both.", code="missing_option")
        unused = [written[name] for name in _OF_MODELS if name in written]
        if unused:
            raise UsageError(
                f"{', '.join(unused)} is about a model, and --run names lists that are made "
                "already. Leave one of them out.",
                code="unused_option",
            )
        trained = read_events(screen, "train", train, reading)[0] if train else None
        report = evaluate_run(
            run, qrels, ks=ks, metrics=metrics.names(), train=trained, facts=tables.items,
        )  # fmt: skip
        print_report(screen, report, None, run.name, explain=explain)
        groups = metrics.show_groups(screen, report, tables)
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


RUN = MeasureTrecRun()
"""The extension ``evaluate:run``."""
