"""Run a training: from interactions to a saved model, measured and compared with most-popular."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sdgar._version import __version__
from sdgar.arguments import one_of
from sdgar.data.interactions import Interactions
from sdgar.engines.choose import choose_device
from sdgar.errors import UsageError
from sdgar.evaluation.measures import DEFINITIONS, check_metric
from sdgar.evaluation.report import Report
from sdgar.recommend.evaluating import among_cold
from sdgar.recommend.recommender import Recommender, most_popular
from sdgar.runs.succession import Succession, compared, require_succession
from sdgar.runs.watching import Stop, never
from sdgar.runs.workspace import Workspace
from sdgar.settings import CHECKPOINT_SECONDS, KS, METRIC
from sdgar.systems.base import Estimator
from sdgar.systems.names import SYSTEMS
from sdgar.systems.recipe import Recipe, recipe_of
from sdgar.training.checkpoints import Checkpoints
from sdgar.training.fitting import Fit, paper_options
from sdgar.training.records import EpochRecord, FitOptions, OnPhase, Phase

PROTOCOLS = ("validated", "paper")
_LOGGER = logging.getLogger("sdgar")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """The interactions of one run, and what each part of them is for."""

    train: Interactions
    """The rows that the measured model is trained on."""
    test: Interactions | None = None
    """The rows that the model is measured on; None measures nothing."""
    valid: Interactions | None = None
    """The rows that the epoch is chosen on; None sets some of the training rows aside."""
    everything: Interactions | None = None
    """The rows that the saved model is then trained on as long, test rows included: the model to
    put into use; None saves the measured model."""
    histories: Interactions | None = None
    """The rows from which test users are folded in; None if training has the test users."""
    before: Recommender | None = None
    """The model that training continues from; None starts from scratch."""
    counted: dict[str, Any] = field(default_factory=dict)
    """The options of reading that say which rows count, as far as they are not the usual ones: the
    manifest keeps them for the next model that continues from this one."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run: the model, its reports, a summary and the log."""

    model: Recommender
    """The model that is saved."""
    test: Report | None
    """The report on the test rows; None if nothing was measured."""
    popular: Report | None
    """The report of the most popular items on the test rows; None if nothing was measured."""
    summary: dict[str, Any]
    """The object that ``sdgar train --json`` prints."""
    log: tuple[tuple[Phase, EpochRecord], ...]
    """The record of every epoch, with the pass that it belongs to."""
    succession: Succession | None = None
    """The comparison with the earlier model; None if there is none, or nothing was measured."""
    refusal: str | None = None
    """The reason why the model did not replace the earlier one; None if it did."""
    cold: Report | None = None
    """The report among cold items alone; None if there are none with test rows."""


def run(
    estimator: Estimator,
    rows: RunData,
    out: Path,
    *,
    protocol: str = "validated",
    overwrite: bool = False,
    ks: Sequence[int] = KS,
    on_epoch: OnPhase | None = None,
    resume: bool = False,
    checkpoint_every: float = CHECKPOINT_SECONDS,
    stop: Stop = never,
    command: Mapping[str, Any] | None = None,
    notify: Callable[[str], None] = _LOGGER.info,
    replace_if: str = "always",
) -> RunResult:
    """Train by a protocol, read the test rows once, save.

    While it trains, the run is kept in OUT.partial: every ``checkpoint_every`` seconds, at the end
    of a pass if a minute has gone by, and when ``stop`` names a signal, which ends the run after
    the current epoch with ``StoppedError``. ``resume`` continues from there, with the same data and
    settings, to the model of an uninterrupted run. ``command`` is what
    ``sdgar train --resume`` will read.

    If training continues from an earlier model, both are measured on the test rows. The new one is
    not saved if it does not meet ``replace_if``, and the old one stays.
    """
    _require_possible(estimator, rows, protocol, replace_if)
    recipe, before, test = recipe_of(estimator), rows.before, rows.test
    identity = identity_of(
        estimator, rows.train, test, rows.valid, protocol, ks, rows.histories
    )  # fmt: skip
    identity["all data"] = None if rows.everything is None else rows.everything.fingerprint()
    if before is not None:
        identity["earlier model"] = before.version
    with Workspace(
        out, identity, command=command, overwrite=overwrite, resume=resume, on_epoch=on_epoch
    ) as workspace:
        checkpoints = None
        if recipe.loop is not None:
            device = choose_device(estimator.get_params()["device"])
            checkpoints = workspace.checkpoints(device, checkpoint_every, stop, notify)
        how: dict[str, Any] = {"on_epoch": workspace.record, "checkpoints": checkpoints}
        further: dict[str, Any] = {"protocol": "warm", "before": before, **how}
        if before is None:
            fit_by(protocol, estimator, rows.train, test, rows.valid, **how)
        else:
            recipe.fit(Fit(rows=rows.train, **further))
        model = estimator.recommender_
        before_test = time.perf_counter()
        popular = report = cold = succession = refusal = None
        if test is not None:
            report = model.evaluate(test, ks=tuple(ks), histories=rows.histories)
            cold = among_cold(model, test, ks=tuple(ks), histories=rows.histories)
        evaluate_seconds = time.perf_counter() - before_test
        if test is not None:
            popular = most_popular(model).evaluate(test, ks=tuple(ks), histories=rows.histories)
        if before is not None and test is not None:
            metric = estimator.get_params().get("early_stopping__metric", METRIC)
            lists = tuple(sorted({*ks, check_metric(metric)[1]}))
            succession = compared(model, before, rows.train, test, ks=lists, metric=metric)
            refusal = succession.refusal(replace_if)
        if rows.everything is not None and refusal is None:
            again = {"protocol": "all", **how} if before is None else {**further, "phase": "all"}
            recipe.fit(Fit(rows=rows.everything, **again))
            model = estimator.recommender_
        summary = summary_of(estimator, rows.train, report, popular, protocol)
        if cold is not None:
            summary["among_cold"] = {**asdict(cold.counts), "test": cold.means()}
        summary["kept"] = {
            "rows": "measured" if rows.everything is None and test is not None else "all",
            **_sizes(rows.everything or rows.train),
        }
        seconds = summary["seconds"]
        seconds["evaluate"] = round(seconds["evaluate"] + evaluate_seconds, 3)
        if rows.everything is None:  # else the pass on all rows came later, and has counted it
            seconds["total"] = round(seconds["total"] + time.perf_counter() - before_test, 3)
        if succession is not None:
            summary["succession"] = succession.as_dict() | {"refusal": refusal}
        if refusal is None:
            workspace.commit(model, {"report": summary, "counted": dict(rows.counted)})
    return RunResult(model, report, popular, summary, recipe.trained.log, succession, refusal, cold)


def _require_possible(estimator: Estimator, rows: RunData, protocol: str, replace_if: str) -> None:
    """Raise, before anything is trained, if the rows do not go with the protocol or the system."""
    one_of("protocol", protocol, PROTOCOLS)
    if rows.everything is not None and protocol == "paper":
        raise UsageError(
            "the paper's protocol is for comparing with its tables, and chooses its epoch on the "
            "test rows. Keep the measured model, or train with the protocol validated.",
            code="keep_with_paper",
        )
    if rows.histories is not None:
        require_folding([estimator], protocol)
    if rows.before is not None:
        require_succession(estimator, rows.before, rows.test, protocol, replace_if)


def identity_of(
    estimator: Estimator,
    train: Interactions,
    test: Interactions | None,
    valid: Interactions | None,
    protocol: str,
    ks: Sequence[int],
    histories: Interactions | None = None,
) -> dict[str, Any]:
    """Return what must be the same for a run to resume to a bit-identical model, by name."""
    settings = recipe_of(estimator).settings
    if "device" in settings:
        settings["device"] = choose_device(settings["device"]).type
    parts = {"training data": train, "test data": test, "validation data": valid}
    return {
        "sdgar version": __version__,
        "system": recipe_of(estimator).name,
        **settings,
        "protocol": protocol,
        "k": list(ks),
        **{name: None if part is None else part.fingerprint() for name, part in parts.items()},
        **({} if histories is None else {"histories": histories.fingerprint()}),
    }


def require_folding(estimators: Sequence[Estimator], protocol: str) -> None:
    """Raise, before anything is trained, if new test users could not be folded in."""
    recipes = map(recipe_of, estimators)
    cannot = [recipe.name for recipe in recipes if not recipe.folds_in]
    if cannot:
        able = [name for name, system in SYSTEMS.items() if recipe_of(system()).folds_in]
        raise UsageError(
            "a split of users measures users who are new to a model, and new users cannot be "
            f"folded into models of {', '.join(cannot)}. Use {', '.join(able)} (with "
            "similarity=cosine), a network with fold_in such as sequence, or another split.",
            code="no_fold_in",
        )
    if protocol == "paper":
        raise UsageError(
            "the paper's protocol chooses its epoch on the rows of test users, who are new to the "
            "model in a split of users. Use --protocol validated, or another split.",
            code="fold_in_with_paper",
        )


def check_settings(estimator: Estimator, protocol: str = "validated") -> None:
    """Raise if parts or settings are wrong, as far as is known before a long read of data."""
    one_of("protocol", protocol, PROTOCOLS)
    recipe = recipe_of(estimator)
    loop_of(recipe, protocol)
    recipe.check()


def loop_of(recipe: Recipe, protocol: str = "validated") -> FitOptions | None:
    """Return how long a system trains and when it evaluates; None if it has no epochs."""
    options = recipe.loop
    return paper_options(options) if options is not None and protocol == "paper" else options


def fit_by(
    protocol: str,
    estimator: Estimator,
    train: Interactions,
    test: Interactions | None,
    valid: Interactions | None,
    on_epoch: OnPhase | None = None,
    checkpoints: Checkpoints | None = None,
) -> None:
    """Train by a named protocol; a system without epochs takes all rows at once."""
    recipe = recipe_of(estimator)
    how: dict[str, Any] = {"on_epoch": on_epoch, "checkpoints": checkpoints}
    if protocol != "paper":
        recipe.fit(Fit(rows=train, valid=valid, refit=True, **how))
    elif test is not None:
        recipe.fit(Fit(rows=train, test=test, protocol="paper", **how))
    elif recipe.loop is None:
        estimator.fit(train)
    else:
        raise UsageError(
            "the paper protocol chooses its epoch on the test rows, and there are none. "
            "Give --test, or use --split.",
            code="no_test",
        )


def _sizes(data: Interactions) -> dict[str, int]:
    return {"users": data.n_users, "items": data.n_items, "interactions": len(data)}


def summary_of(
    estimator: Estimator,
    train: Interactions,
    report: Report | None,
    popular: Report | None,
    protocol: str,
) -> dict[str, Any]:
    """Return how a model was trained and what it reached, as ``sdgar train --json`` prints it."""
    recipe = recipe_of(estimator)
    trained = recipe.trained
    summary: dict[str, Any] = {
        "system": recipe.name,
        "protocol": protocol,
        "data": {**_sizes(train), "rows": train.account.as_dict()},
        "decided": recipe.decided(train),
        "engine": trained.engine,
        "why": trained.why,
        "seed": estimator.get_params().get("seed"),
        "epochs": trained.epochs,
        "best_epoch": trained.best_epoch,
        "seconds": trained.seconds.as_dict(),
        "positives_per_second": round(trained.positives_per_second),
        "valid": trained.valid,
        "memory": trained.memory,
        "deterministic": trained.deterministic,
        "generator": trained.generator,
    }
    summary["test"] = {} if report is None else report.means()
    if report is not None and popular is not None:
        summary |= {
            "test_intervals": report.intervals(),
            "test_counts": asdict(report.counts),
            "most_popular": popular.means(),
            "definition": report.definition,
            "definitions": dict(DEFINITIONS),
        }
    return summary
