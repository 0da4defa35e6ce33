"""THE loop: refit the sampler? → epoch → evaluate? → keep; until enough, or no better."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from sdgar.arguments import at_least
from sdgar.contracts import Engine, Health, Learned, System
from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import History
from sdgar.errors import NumericalError
from sdgar.evaluation.metrics import check_metric
from sdgar.evaluation.report import evaluate
from sdgar.settings import METRIC


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """How long to train and when to look."""

    epochs: int = 200
    """Most passes over the training positives."""
    evaluate_every: int = 5
    """Epochs between looks at the held-out rows."""
    patience: int = 3
    """Looks without a gain before training stops."""
    early_stopping: bool = True
    """Stop when patience runs out; otherwise run all epochs and take the best look."""
    metric: str = METRIC
    """What a look compares."""
    valid_users: int = 10_000
    """Most users a look at validation rows ranks for: a fixed random choice, above that."""

    def __post_init__(self) -> None:
        """Refuse what cannot train."""
        at_least("epochs", self.epochs, 1)
        at_least("evaluate_every", self.evaluate_every, 1)
        at_least("patience", self.patience, 1)
        at_least("valid_users", self.valid_users, 1)
        check_metric(self.metric)

    @property
    def k(self) -> int:
        """Length of the lists that a look ranks."""
        return check_metric(self.metric)[1]


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """One line of the log."""

    epoch: int
    loss: float
    train_seconds: float
    refit_seconds: float = 0.0
    evaluate_seconds: float = 0.0
    metric: float | None = None
    best: bool = False
    unanswered: int = 0
    effective: float | None = None
    """Mean effective sample size of the negatives' weights."""
    health: dict[str, float] = field(default_factory=dict)
    """How the proposals of the sampler are since its last refit, as numbers."""
    complaint: str | None = None
    """What is wrong with the generator, said once after the refit that showed it."""
    health_line: str = ""
    """How the proposals of the sampler are since its last refit, in a few words."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for the JSONL log."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class Progress:
    """What the loop carries from one epoch to the next, beside what the engine holds.

    The log says it all but for the weights of the best epoch, so nothing can contradict it.
    """

    log: list[EpochRecord] = field(default_factory=list)
    best: Learned | None = None
    """Weights of the best epoch; None before a first look."""

    @property
    def epoch(self) -> int:
        """Epochs that were run."""
        return len(self.log)

    @property
    def best_epoch(self) -> int:
        """The epoch with the best look; 0 before a first one."""
        return max((record.epoch for record in self.log if record.best), default=0)

    @property
    def best_metric(self) -> float:
        """What that look saw."""
        metric = self.log[self.best_epoch - 1].metric if self.best_epoch else None
        return float("-inf") if metric is None else metric

    @property
    def stale(self) -> int:
        """Looks since the best one."""
        return sum(record.metric is not None for record in self.log[self.best_epoch :])

    @property
    def health(self) -> Health:
        """How the proposals of the sampler are since its last refit."""
        return Health(self.log[-1].health, self.log[-1].health_line) if self.log else Health()

    def over(self, options: FitOptions) -> bool:
        """Whether all epochs are run, or patience has run out."""
        tired = options.early_stopping and self.stale >= options.patience
        return tired or self.epoch >= options.epochs


@dataclass(slots=True)
class Fitted:
    """What training gave."""

    model: Learned
    best_epoch: int
    log: list[EpochRecord] = field(default_factory=list)

    @property
    def epochs(self) -> int:
        """Epochs that were run."""
        return len(self.log)


OnEpoch = Callable[[EpochRecord], None]


class Keeper(Protocol):
    """Who keeps the progress of the loop, so that it can go on after an interruption."""

    def resume(self, engine: Engine) -> Progress:
        """Where the loop was left, with the engine as it was then; or a fresh start."""
        ...

    def keep(self, progress: Progress, engine: Engine, *, last: bool) -> None:
        """Called after every epoch; it may raise, to stop a run that was asked to."""
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
) -> Fitted:
    """Train; with held-out rows keep the best weights, without them the last.

    ``on_epoch`` hears of every epoch once, of those before an interruption too.
    """
    tell = on_epoch or _nobody
    at = Progress() if keeper is None else keeper.resume(engine)
    for record in at.log:
        tell(record)
    while not at.over(options):
        epoch = at.epoch + 1
        refit_seconds, health = 0.0, at.health
        if system.refit_every is not None and (epoch - 1) % system.refit_every == 0:
            start = time.perf_counter()
            health = engine.refit(epoch)
            refit_seconds = time.perf_counter() - start
        stats = engine.run_epoch(epoch)
        metric, evaluate_seconds, better = None, 0.0, False
        look = epoch % options.evaluate_every == 0 or epoch == options.epochs
        if held_out is not None and look:
            start = time.perf_counter()
            metric = _look(system.learned(), held_out, seen, options)
            evaluate_seconds = time.perf_counter() - start
            better = metric > at.best_metric
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
        tell(at.log[-1])
        if keeper is not None:
            keeper.keep(at, engine, last=at.over(options))
    best, best_epoch = at.best, at.best_epoch
    if best is None:
        best, best_epoch = system.learned(), at.epoch
    _require_finite(best)
    return Fitted(best, best_epoch, at.log)


def _nobody(_: EpochRecord) -> None:
    """Nobody watches."""


def _look(model: Learned, held_out: HeldOut, seen: History, options: FitOptions) -> float:
    return evaluate(model, held_out, seen=seen, ks=(options.k,)).means()[options.metric]


def _require_finite(model: Learned) -> None:
    names = {"user_UD": "user vectors", "item_ID": "item vectors", "bias_I": "item biases"}
    for name, tensor in model.tensors().items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise NumericalError(
                f"the {names.get(name, name)} hold a number that is not finite: the model "
                "diverged. Lower the learning rate or raise l2.",
                code="diverged",
            )
