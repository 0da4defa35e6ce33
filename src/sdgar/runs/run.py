"""Run a training: from interactions to a saved model, measured and compared with most-popular."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from signal import Signals
from typing import Any, Protocol

from sdgar._version import __version__
from sdgar.data.interactions import Interactions
from sdgar.engines.choose import choose_device
from sdgar.errors import StoppedError, UsageError, unknown_name
from sdgar.evaluation.metrics import DEFINITIONS, check_metric
from sdgar.evaluation.report import Report
from sdgar.recommend.measuring import among_cold
from sdgar.recommend.recommender import Recommender, most_popular
from sdgar.runs.succession import Succession, compared, require_succession
from sdgar.runs.workspace import Workspace
from sdgar.settings import CHECKPOINT_SECONDS, KS, METRIC
from sdgar.show.printed import command as command_line
from sdgar.systems.base import Estimator
from sdgar.systems.names import SYSTEMS
from sdgar.systems.recipe import Recipe, recipe_of
from sdgar.training.checkpoints import Checkpoints
from sdgar.training.fit import EpochRecord, FitOptions
from sdgar.training.fitting import Fit
from sdgar.training.protocols import paper_options
from sdgar.training.trained import OnPhase, Phase

Stop = Callable[[], Signals | None]
"""A function that returns the signal that requests the end; None while there is none."""


class Watch(Protocol):
    """A watcher of pieces of work, such as trials or runs, one after the other."""

    def begin(self, what: str, loop: FitOptions) -> OnPhase:
        """Take note that a piece of work begins; return the function to call after each epoch."""
        ...

    def end(self, label: str, said: str) -> None:
        """Take note that a piece of work is over, now or earlier, and of its result."""
        ...


class Unwatched:
    """A watcher that shows nothing."""

    def begin(self, what: str, loop: FitOptions) -> OnPhase:
        """Return a function that does nothing."""
        return lambda phase, epoch: None

    def end(self, label: str, said: str) -> None:
        """Show nothing of the end."""


def at_once(epochs: int = 1) -> FitOptions:
    """Return the loop of a piece of work that runs all its epochs, or has none."""
    return FitOptions(epochs=epochs, early_stopping=False)


def never() -> Signals | None:
    """Return None, as no signal requests the end."""
    return None


def require_going(stop: Stop, kept: str) -> None:
    """Raise if a signal requests the end; ``kept`` is what is not lost, and how to resume."""
    signal = stop()
    if signal is not None:
        raise StoppedError(f"stopped by {signal.name}. {kept}", signal=signal)


def stoppable(hear: OnPhase, stop: Stop, kept: str) -> OnPhase:
    """Return a function that passes every epoch on, then ends the training if a signal came."""

    def on_epoch(phase: Phase, epoch: EpochRecord) -> None:
        hear(phase, epoch)
        require_going(stop, kept)

    return on_epoch


PROTOCOLS = ("validated", "paper")
_LOGGER = logging.getLogger("sdgar")


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
    train: Interactions,
    *,
    test: Interactions | None,
    valid: Interactions | None,
    protocol: str,
    out: Path,
    overwrite: bool = False,
    ks: Sequence[int] = KS,
    on_epoch: OnPhase | None = None,
    resume: bool = False,
    checkpoint_every: float = CHECKPOINT_SECONDS,
    stop: Callable[[], Signals | None] = lambda: None,
    command: Mapping[str, Any] | None = None,
    notify: Callable[[str], None] = _LOGGER.info,
    everything: Interactions | None = None,
    histories: Interactions | None = None,
    before: Recommender | None = None,
    replace_if: str = "always",
    counted: Mapping[str, Any] | None = None,
) -> RunResult:
    """Train by a protocol, read the test rows once, save.

    What is saved is the model that was measured; or, if ``everything`` is given, one that was then
    trained as long on these rows, test rows included: the one to put into use.

    While it trains, the run is kept in OUT.partial: every ``checkpoint_every`` seconds, at the end
    of a pass if a minute has gone by, and when ``stop`` names a signal, which ends the run after
    the current epoch with ``StoppedError``. ``resume`` continues from there, with the same data and
    settings, to the model of an uninterrupted run. ``command`` is what
    ``sdgar train --resume`` will read.

    With ``histories`` the test users are new to the model, and folded in from these rows.

    With ``before`` training continues from that model, and both are measured on the test rows. The
    new one is not saved if it does not meet ``replace_if``, and the old one stays.

    The manifest keeps ``counted``, the options of reading that say which rows count, for the next
    model that continues from this one.
    """
    if protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, PROTOCOLS)
    if everything is not None and protocol == "paper":
        raise UsageError(
            "the paper's protocol is for comparing with its tables, and chooses its epoch on the "
            "test rows. Keep the measured model, or train with the protocol validated.",
            code="keep_with_paper",
        )
    if histories is not None:
        require_folding([estimator], protocol)
    identity = identity_of(estimator, train, test, valid, protocol, ks, histories)
    identity["all data"] = None if everything is None else everything.fingerprint()
    if before is not None:
        require_succession(estimator, before, test, protocol, replace_if)
        identity["earlier model"] = before.version
    with Workspace(out, identity, command=command, overwrite=overwrite, resume=resume) as workspace:

        def watch(phase: Phase, epoch: EpochRecord) -> None:
            workspace.record(phase, epoch)
            if on_epoch is not None:
                on_epoch(phase, epoch)

        checkpoints = None
        if recipe_of(estimator).loop is not None:
            checkpoints = Checkpoints(
                workspace.folder,
                identity,
                device=choose_device(estimator.get_params()["device"]),
                every=checkpoint_every,
                stop=stop,
                resume_with=command_line("sdgar", "train", "--resume", out)
                if command
                else "run(..., resume=True)",
            )
            for note in checkpoints.resume() if resume else ():
                notify(note)
        if before is None:
            fit_by(protocol, estimator, train, test, valid, watch, checkpoints)
        else:
            recipe_of(estimator).fit(
                Fit(
                    rows=train,
                    before=before,
                    protocol="warm",
                    on_epoch=watch,
                    checkpoints=checkpoints,
                )
            )
        model = estimator.recommender_
        before_test = time.perf_counter()
        popular = report = cold = None
        if test is not None:
            report = model.evaluate(test, ks=tuple(ks), histories=histories)
            cold = among_cold(model, test, ks=tuple(ks), histories=histories)
        evaluate_seconds = time.perf_counter() - before_test
        if test is not None:
            popular = most_popular(model).evaluate(test, ks=tuple(ks), histories=histories)
        succession = refusal = None
        if before is not None and test is not None:
            metric = estimator.get_params().get("early_stopping__metric", METRIC)
            lists = tuple(sorted({*ks, check_metric(metric)[1]}))
            succession = compared(model, before, train, test, ks=lists, metric=metric)
            refusal = succession.refusal(replace_if)
        if everything is not None and refusal is None:
            if before is None:
                recipe_of(estimator).fit(
                    Fit(rows=everything, protocol="all", on_epoch=watch, checkpoints=checkpoints)
                )
            else:
                recipe_of(estimator).fit(
                    Fit(
                        rows=everything,
                        before=before,
                        protocol="warm",
                        phase="all",
                        on_epoch=watch,
                        checkpoints=checkpoints,
                    )
                )
            model = estimator.recommender_
        summary = summary_of(estimator, train, report, popular, protocol)
        if cold is not None:
            summary["among_cold"] = {**asdict(cold.counts), "test": cold.means()}
        summary["kept"] = {
            "rows": "measured" if everything is None and test is not None else "all",
            **_sizes(everything or train),
        }
        seconds = summary["seconds"]
        seconds["evaluate"] = round(seconds["evaluate"] + evaluate_seconds, 3)
        if everything is None:  # else the pass on all rows came after the test, and has counted it
            seconds["total"] = round(seconds["total"] + time.perf_counter() - before_test, 3)
        if succession is not None:
            summary["succession"] = succession.as_dict() | {"refusal": refusal}
        if refusal is None:
            workspace.commit(model, {"report": summary, "counted": dict(counted or {})})
    log = recipe_of(estimator).trained.log
    return RunResult(model, report, popular, summary, log, succession, refusal, cold)


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


def _folding_systems() -> list[str]:
    """Return the systems whose models can fold in new users, with the default settings."""
    return [name for name, system in SYSTEMS.items() if recipe_of(system()).folds_in]


def require_folding(estimators: Sequence[Estimator], protocol: str) -> None:
    """Raise, before anything is trained, if new test users could not be folded in."""
    cannot = [
        recipe_of(estimator).name for estimator in estimators if not recipe_of(estimator).folds_in
    ]
    if cannot:
        raise UsageError(
            "a split of users measures users who are new to a model, and new users cannot be "
            f"folded into models of {', '.join(cannot)}. Use {', '.join(_folding_systems())} (with "
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
    if protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, PROTOCOLS)
    loop_of(estimator, protocol)
    recipe_of(estimator).check()


def loop_of(estimator: Estimator | Recipe, protocol: str = "validated") -> FitOptions | None:
    """Return how long an estimator trains and when it evaluates; None if it has no epochs."""
    options = recipe_of(estimator).loop
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
    if protocol != "paper":
        recipe_of(estimator).fit(
            Fit(rows=train, valid=valid, refit=True, on_epoch=on_epoch, checkpoints=checkpoints)
        )
    elif test is None and recipe_of(estimator).loop is None:
        estimator.fit(train)
    elif test is None:
        raise UsageError(
            "the paper protocol chooses its epoch on the test rows, and there are none. "
            "Give --test, or use --split.",
            code="no_test",
        )
    else:
        recipe_of(estimator).fit(
            Fit(rows=train, test=test, protocol="paper", on_epoch=on_epoch, checkpoints=checkpoints)
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
    trained = recipe_of(estimator).trained
    summary: dict[str, Any] = {
        "system": recipe_of(estimator).name,
        "protocol": protocol,
        "data": {**_sizes(train), "rows": train.account.as_dict()},
        "decided": recipe_of(estimator).decided(train),
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
