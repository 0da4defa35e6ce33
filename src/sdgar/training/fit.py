"""The training loop: refit the sampler? → epoch → evaluate? → keep; until enough, or no better."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol

import torch
from torch import Tensor

from sdgar.arguments import at_least
from sdgar.contracts import Engine, Health, System
from sdgar.data.held_out import HeldOut
from sdgar.data.history import History
from sdgar.errors import NumericalError
from sdgar.evaluation.measures import check_metric
from sdgar.evaluation.report import evaluate
from sdgar.models.model import AnyScorer, Learned
from sdgar.settings import METRIC


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """The length of training, and when the model is evaluated during it."""

    epochs: int = 200
    """The most passes over the training positives."""
    evaluate_every: int = 5
    """The number of epochs between two evaluations on the held-out rows."""
    patience: int = 3
    """The number of evaluations without a gain after which training stops."""
    early_stopping: bool = True
    """Whether training stops when patience runs out; otherwise all epochs run and the best
    evaluation counts."""
    metric: str = METRIC
    """The metric that evaluations on the held-out rows compare."""
    valid_users: int = 5_000
    """The most users of an evaluation on validation rows; of more, a fixed random sample."""
    keep_last: bool = False
    """Whether all epochs run and the last weights are kept, whatever evaluations show, as where
    the learning rate falls to nothing."""

    def __post_init__(self) -> None:
        """Raise if a value cannot train."""
        at_least("epochs", self.epochs, 1)
        at_least("early_stopping__every", self.evaluate_every, 1)
        at_least("early_stopping__patience", self.patience, 1)
        at_least("valid_users", self.valid_users, 1)
        check_metric(self.metric)

    @property
    def half(self) -> int:
        """The number of epochs after which all rows are trained on, where the last ones count."""
        return (self.epochs + 1) // 2

    @property
    def k(self) -> int:
        """The length of the ranked lists of an evaluation."""
        return check_metric(self.metric)[1]


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """The record of one epoch, a line of the log."""

    epoch: int
    """The number of the epoch, from 1."""
    loss: float
    """The mean loss of the epoch."""
    train_seconds: float
    """The seconds that the epoch took."""
    refit_seconds: float = 0.0
    """The seconds that the refit of the sampler before it took."""
    evaluate_seconds: float = 0.0
    """The seconds of the evaluation on held-out rows after it."""
    metric: float | None = None
    """The metric of the evaluation after it; None if there was none."""
    best: bool = False
    """True if this evaluation was the best so far, or the epoch is the one that is kept."""
    unanswered: int = 0
    """The number of training rows for which no negative was found."""
    effective: float | None = None
    """The mean effective sample size of the negatives' weights; None if they are not weighted."""
    health: dict[str, float] = field(default_factory=dict)
    """The numbers that describe the sampler's proposals since its last refit."""
    complaint: str | None = None
    """The problem of the generator, in the epoch after the refit that showed it; else None."""
    health_line: str = ""
    """The words that describe the sampler's proposals since its last refit."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for the JSONL log."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class Progress:
    """The state that the loop carries from one epoch to the next, without that of the engine.

    All of it but the weights of the best epoch follows from the log.
    """

    log: list[EpochRecord] = field(default_factory=list)
    """The records of the epochs that were run."""
    best: Learned | None = None
    """The model of the best epoch; None before the first evaluation."""
    before: int = 0
    """The number of epochs of the pass that this one continues."""

    @property
    def epoch(self) -> int:
        """The number of epochs that were run, including earlier passes that this one continues."""
        return self.before + len(self.log)

    @property
    def best_epoch(self) -> int:
        """The epoch with the best evaluation; 0 before the first one."""
        return max((record.epoch for record in self.log if record.best), default=0)

    @property
    def best_metric(self) -> float:
        """The metric of the best evaluation; -inf before the first one."""
        return max((r.metric for r in self.log if r.best and r.metric is not None), default=-inf)

    @property
    def stale(self) -> int:
        """The number of evaluations since the best one."""
        return sum(r.metric is not None for r in self.log if r.epoch > self.best_epoch)

    @property
    def health(self) -> Health:
        """The description of the sampler's proposals since its last refit."""
        return Health(self.log[-1].health, self.log[-1].health_line) if self.log else Health()

    def over(self, options: FitOptions) -> bool:
        """Return whether all epochs are run, or patience has run out."""
        stops = options.early_stopping and not options.keep_last
        tired = stops and self.stale >= options.patience
        return tired or self.epoch >= options.epochs


@dataclass(slots=True)
class Fitted:
    """The result of one pass of training."""

    model: Learned
    """The model that is kept."""
    best_epoch: int
    """The epoch whose weights the model has."""
    log: list[EpochRecord] = field(default_factory=list)
    """The records of all epochs of the pass."""
    state: dict[str, Tensor] | None = None
    """The state of the engine at the end, if the next pass is to continue from it."""

    @property
    def epochs(self) -> int:
        """The number of epochs that were run, including earlier passes that this one continues."""
        return self.log[-1].epoch if self.log else 0


OnEpoch = Callable[[EpochRecord], None]
_ROWS_AT_ONCE = 1 << 18
"""The rows of a table that are checked together."""


class Keeper(Protocol):
    """A keeper of the loop's progress, so that it can resume after an interruption."""

    def resume(self, engine: Engine) -> Progress:
        """Return where the loop was left, with the engine as it was then; or a fresh start."""
        ...

    def keep(self, progress: Progress, engine: Engine, *, last: bool) -> None:
        """Keep the progress after an epoch; raise to stop a run that is to stop."""
        ...


def fit(
    system: System,
    engine: Engine,
    options: FitOptions,
    *,
    held_out: HeldOut | None = None,
    seen: History,
    on_epoch: OnEpoch | None = None,
    keeper: Keeper | None = None,
    evaluated: Callable[[Learned], AnyScorer] | None = None,
    after: Fitted | None = None,
) -> Fitted:
    """Train and return the best weights by held-out rows, or the last weights without such rows.

    Evaluations on held-out rows rank by the model itself, or by what ``evaluated`` makes of it,
    such as the model with an item memory. ``on_epoch`` is called once for every epoch, also for
    epochs before an interruption. ``after`` is the pass that this one continues, on more rows.
    """
    report = on_epoch or ignore
    at = Progress() if keeper is None else keeper.resume(engine)
    if after is not None:
        at.before = after.epochs
        if not at.log and after.state is not None:
            engine.load_state(after.state)
    for record in at.log:
        report(record)
    while not at.over(options):
        epoch = at.epoch + 1
        refit_seconds, health = 0.0, at.health
        if system.refit_every is not None and (epoch - 1) % system.refit_every == 0:
            start = time.perf_counter()
            health = engine.refit(epoch)
            refit_seconds = time.perf_counter() - start
        stats = engine.run_epoch(epoch)
        metric, evaluate_seconds, better = None, 0.0, False
        evaluates = epoch % options.evaluate_every == 0 or epoch == options.epochs
        if held_out is not None and evaluates:
            start = time.perf_counter()
            learned = system.learned()
            model = learned.scorer() if evaluated is None else evaluated(learned)
            metric = _metric_of(model, held_out, seen, options)
            evaluate_seconds = time.perf_counter() - start
            better = metric > at.best_metric
            if options.keep_last:
                better = epoch == options.epochs
            if better:
                at.best = system.learned().copied()
        at.log.append(
            EpochRecord(
                epoch,
                stats.loss,
                stats.seconds,
                refit_seconds,
                evaluate_seconds,
                metric,
                better,
                stats.unanswered,
                stats.effective,
                dict(health.numbers),
                health.complaint,
                health.line,
            )
        )
        report(at.log[-1])
        if keeper is not None:
            keeper.keep(at, engine, last=at.over(options))
    best, best_epoch = at.best, at.best_epoch
    if best is None:
        best, best_epoch = system.learned(), at.epoch
    _require_finite(best)
    return Fitted(best, best_epoch, at.log)


def ignore(_: EpochRecord) -> None:
    """Do nothing with the record of an epoch."""


def _metric_of(model: AnyScorer, held_out: HeldOut, seen: History, options: FitOptions) -> float:
    return evaluate(model, held_out, seen=seen, ks=(options.k,)).means()[options.metric]


def _require_finite(model: Learned) -> None:
    names = {"user_UD": "user vectors", "item_ID": "item vectors", "bias_I": "item biases"}
    for name, tensor in model.tensors().items():
        if tensor.is_floating_point() and not _is_finite(tensor):
            raise NumericalError(
                f"the {names.get(name, name)} hold a number that is not finite: the model "
                "diverged. Lower the learning rate or raise l2.",
                code="diverged",
            )


def _is_finite(tensor: Tensor) -> bool:
    """Return whether all numbers are finite; vectors of all users may lie in a file."""
    parts = tensor.split(_ROWS_AT_ONCE) if tensor.ndim else (tensor,)  # type: ignore[no-untyped-call]
    return all(bool(torch.isfinite(part).all()) for part in parts)
