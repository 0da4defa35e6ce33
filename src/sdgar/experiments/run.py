"""One run from interactions to a saved, measured model, beside the most-popular yardstick."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sdgar import artifact
from sdgar.data.interactions import Interactions
from sdgar.errors import ResourceError, UsageError, unknown_name
from sdgar.estimators import Estimator, Learner
from sdgar.evaluation.report import Report
from sdgar.recommender import Recommender, most_popular
from sdgar.training.fit import EpochRecord
from sdgar.training.protocols import OnPhase, Phase

PROTOCOLS = ("validated", "paper")


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run gave, for people and for machines."""

    model: Recommender
    test: Report | None
    popular: Report | None
    summary: dict[str, Any]
    """What ``sdgar train --json`` prints."""
    log: tuple[tuple[Phase, EpochRecord], ...]


class Workspace:
    """The folder RUN.partial: the log of a run in progress, removed when RUN is complete.

    RUN itself exists only once the model in it is whole. A run that fails before its first
    epoch leaves nothing; one that fails later leaves RUN.partial with its log.
    """

    def __init__(self, out: Path, *, overwrite: bool) -> None:
        self._out = out
        self._overwrite = overwrite
        self._folder = out.with_name(f"{out.name}.partial")
        self._lines: list[str] = []

    def __enter__(self) -> Self:
        artifact.require_free(self._out, overwrite=self._overwrite)
        try:
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            self._folder.mkdir()
        except FileExistsError as error:
            raise UsageError(
                f"{self._folder} exists: another run writes there, or one was interrupted. "
                "Remove it if no run is using it, or choose another --out.",
                code="locked",
            ) from error
        except OSError as error:
            raise ResourceError(
                f"cannot write to {self._folder.parent}: {error.strerror}.", code="unwritable"
            ) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if kind is None or not self._lines:
            shutil.rmtree(self._folder, ignore_errors=True)

    def record(self, phase: Phase, epoch: EpochRecord) -> None:
        """Append a line to the log."""
        self._lines.append(json.dumps({"phase": phase, **epoch.as_dict()}))
        with (self._folder / "log.jsonl").open("a") as file:
            file.write(self._lines[-1] + "\n")

    def commit(self, model: Recommender, about: dict[str, Any]) -> None:
        """Save the model, its report and the log as RUN."""
        model.about.update(about)
        log = "".join(line + "\n" for line in self._lines)
        model.save(self._out, overwrite=self._overwrite, attachments={"log.jsonl": log.encode()})


def run(
    estimator: Estimator,
    train: Interactions,
    *,
    test: Interactions | None,
    valid: Interactions | None,
    protocol: str,
    out: Path,
    overwrite: bool = False,
    ks: Sequence[int] = (10, 20, 50),
    on_epoch: OnPhase | None = None,
) -> RunResult:
    """Train by a protocol, read the test rows once, save."""
    if protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, PROTOCOLS)
    started = time.perf_counter()
    with Workspace(out, overwrite=overwrite) as workspace:

        def watch(phase: Phase, epoch: EpochRecord) -> None:
            workspace.record(phase, epoch)
            if on_epoch is not None:
                on_epoch(phase, epoch)

        _fit(estimator, train, test, valid, protocol, watch)
        model = estimator.recommender_
        before_test = time.perf_counter()
        report = None if test is None else model.evaluate(test, ks=tuple(ks))
        evaluate_seconds = time.perf_counter() - before_test
        popular = None if test is None else most_popular(model).evaluate(test, ks=tuple(ks))
        summary = _summary(estimator, train, report, popular, protocol)
        if "seconds" in summary:
            summary["seconds"]["evaluate"] = round(
                summary["seconds"]["evaluate"] + evaluate_seconds, 3
            )
            summary["seconds"]["total"] = round(time.perf_counter() - started, 3)
        workspace.commit(model, {"report": summary})
    log = estimator.trained_.log if isinstance(estimator, Learner) else ()
    return RunResult(model, report, popular, summary, log)


def _fit(
    estimator: Estimator,
    train: Interactions,
    test: Interactions | None,
    valid: Interactions | None,
    protocol: str,
    watch: OnPhase,
) -> None:
    if not isinstance(estimator, Learner):
        estimator.fit(train if valid is None or protocol == "paper" else train.merge(valid))
    elif protocol == "paper":
        if test is None:
            raise UsageError(
                "the paper protocol chooses its epoch on the test rows, and there are none. "
                "Give --test, or use --split.",
                code="no_test",
            )
        estimator.fit_as_the_paper(train, test, on_epoch=watch)
    else:
        estimator.fit(train, valid, refit=True, on_epoch=watch)


def _summary(
    estimator: Estimator,
    train: Interactions,
    report: Report | None,
    popular: Report | None,
    protocol: str,
) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "system": estimator.system_name,
        "protocol": protocol,
        "data": {
            "users": train.n_users,
            "items": train.n_items,
            "interactions": len(train),
            "rows": train.rows.as_dict(),
        },
    }
    if isinstance(estimator, Learner):
        trained = estimator.trained_
        summary |= {
            "engine": trained.engine,
            "seed": estimator.seed,
            "epochs": trained.epochs,
            "best_epoch": trained.best_epoch,
            "seconds": trained.seconds.as_dict(),
            "positives_per_second": round(trained.positives_per_second),
            "valid": trained.valid,
        }
    summary["test"] = {} if report is None else report.means()
    if report is not None and popular is not None:
        summary |= {
            "test_intervals": report.intervals(),
            "test_users": len(report.users_T),
            "most_popular": popular.means(),
            "definition": report.definition,
        }
    return summary
