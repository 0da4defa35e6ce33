"""The training loop: refit the sampler? → epoch → evaluate? → keep; until enough, or no better.

A training runs the loop over one or two passes, and keeps their log and their clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sdgar.contracts import System
from sdgar.data.held_out import HeldOut
from sdgar.data.history import History
from sdgar.data.interactions import Interactions
from sdgar.engines.choose import choose_engine
from sdgar.engines.protocol import Engine
from sdgar.errors import NumericalError
from sdgar.evaluation.report import evaluate
from sdgar.machine import cores
from sdgar.models.item_weights import LocalItemWeights
from sdgar.models.model import Model
from sdgar.models.scorers import AnyScorer
from sdgar.models.sum import weighted_sum
from sdgar.settings import KS
from sdgar.training.checkpoints import Checkpoints
from sdgar.training.item_memory import ItemMemorySolver, WeightSearch
from sdgar.training.records import (
    EpochRecord,
    FitOptions,
    Fitted,
    OnPhase,
    Phase,
    Progress,
    Seconds,
    Trainable,
    Trained,
)

if TYPE_CHECKING:
    from sdgar.contracts import Learned

OnEpoch = Callable[[EpochRecord], None]
_ROWS_AT_ONCE = 1 << 18
"""The rows of a table that are checked together."""


def fit(
    system: System,
    engine: Engine,
    options: FitOptions,
    *,
    measure: Callable[[Learned], float] | None = None,
    on_epoch: OnEpoch | None = None,
    checkpoints: Checkpoints | None = None,
    after: Fitted | None = None,
) -> Fitted:
    """Train and return the best weights by ``measure``, or the last weights without it.

    ``measure`` returns the metric of a model on held-out rows. ``on_epoch`` is called once for
    every epoch, also for epochs before an interruption. ``after`` is the pass that this one
    continues, on more rows.
    """
    report = on_epoch or (lambda record: None)
    at = Progress() if checkpoints is None else checkpoints.restore(engine)
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
        if measure is not None and evaluates:
            start = time.perf_counter()
            metric = measure(system.learned())
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
        if checkpoints is not None:
            checkpoints.offer(at, engine, last=at.over(options))
    best, best_epoch = at.best, at.best_epoch
    if best is None:
        best, best_epoch = system.learned(), at.epoch
    _require_finite(best)
    return Fitted(best, best_epoch, at.log)


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


@dataclass(slots=True, kw_only=True)
class Training:
    """A training without its data: a recipe, its length, the device, and its log so far."""

    recipe: Trainable
    """The hyper-parameters of the system."""
    options: FitOptions
    """The length of training and when the model is evaluated."""
    seed: int
    """The seed of all random numbers."""
    engine: str
    """The name of the requested engine, or auto."""
    device: torch.device
    """The device to compute on."""
    on_epoch: OnPhase | None = None
    """The function that is called after every epoch, if there is one."""
    checkpoints: Checkpoints | None = None
    """The checkpoints in which the run is kept, and from which it resumes."""
    memory: ItemMemorySolver | None = None
    """How the item memory is made that is added to the trained model, if there is one."""
    begin: Callable[[System, Interactions], None] | None = None
    """The function that sets a composed system to an earlier model, if training continues from
    one."""
    log: list[tuple[Phase, EpochRecord]] = field(default_factory=list)
    """The records of the epochs so far, with the pass of each."""
    positives: int = 0
    """The number of training positives that were visited so far."""
    chosen_engine: str = ""
    """The name of the engine that was chosen."""
    why: str = ""
    """The reason for the choice of the engine."""
    deterministic: bool = True
    """True if the same seed gives a bit-identical model."""
    started: float = field(default_factory=time.perf_counter)
    """The time at which the training began."""
    start_seconds: float = 0.0
    """The seconds in which the parts of the system were made so far."""
    memory_seconds: float = 0.0
    """The seconds that were spent on the memory so far."""

    def __post_init__(self) -> None:
        """Start the clock, with the time before an interruption counted."""
        if self.checkpoints is not None:
            self.started = self.checkpoints.started

    def one_pass(
        self,
        phase: Phase,
        data: Interactions,
        options: FitOptions,
        held_out: HeldOut | None,
        memory: LocalItemWeights | None = None,
        after: Fitted | None = None,
        *,
        hand_on: bool = False,
    ) -> Fitted:
        """Run one pass of the loop with a fresh system; see ``loop``."""
        without = {} if after is None and self.begin is None else {"start": False}
        before = time.perf_counter()
        with cores.torch_threads():
            system = self.recipe.compose(data, seed=self.seed, device=self.device, **without)
            if self.begin is not None:
                self.begin(system, data)
        self.start_seconds += time.perf_counter() - before
        kind, self.why = choose_engine(self.engine, system, self.device)
        self.chosen_engine = kind.name
        self.deterministic = kind.deterministic(self.device)
        return self.loop(
            phase,
            system,
            lambda: kind(system, data, seed=self.seed, device=self.device),
            options,
            n_rows=len(data),
            held_out=held_out,
            seen=data.history if held_out is None else held_out.excluded(data),
            memory=memory,
            after=after,
            hand_on=hand_on,
        )

    @cores.torch_threads()
    def loop(
        self,
        phase: Phase,
        system: System,
        make_engine: Callable[[], Engine],
        options: FitOptions,
        *,
        n_rows: int,
        held_out: HeldOut | None,
        seen: History,
        memory: LocalItemWeights | None = None,
        after: Fitted | None = None,
        hand_on: bool = False,
    ) -> Fitted:
        """Run the loop over ``n_rows`` positives, unless a checkpoint has its result.

        Evaluations on held-out rows rank by the model with the item ``memory``, if there is one.
        ``after`` is a pass over fewer rows with the same ids, which handed on its state; this one
        continues from there.
        """

        def report(epoch: EpochRecord) -> None:
            if self.on_epoch is not None:
                self.on_epoch(phase, epoch)

        def measured(model: Learned) -> float:
            assert held_out is not None
            scorer: AnyScorer = model.scorer()
            if self.memory is not None and memory is not None:
                scorer = weighted_sum(model.model(), memory, self.memory.weight_or_default)
            report = evaluate(scorer, held_out, seen=seen, ks=(options.k,))
            return report.means()[options.metric]

        kept = self.checkpoints
        fitted = None if kept is None else kept.begin(phase, system.learned)
        if fitted is None:
            engine = make_engine()
            fitted = fit(
                system,
                engine,
                options,
                measure=None if held_out is None else measured,
                on_epoch=report,
                checkpoints=kept,
                after=after,
            )
            if kept is not None:
                kept.finish(fitted)
            fitted.state = engine.state() if hand_on else None
        else:
            for epoch in fitted.log:
                report(epoch)
        self.log += [(phase, epoch) for epoch in fitted.log]
        self.positives += n_rows * len(fitted.log)
        return fitted

    def weight_of(
        self, model: Model, memory: LocalItemWeights | None, held_out: HeldOut, seen: History
    ) -> tuple[float, dict[str, float]]:
        """Return the weight of the item memory that held-out rows choose, and their metrics."""
        weight = 0.0
        if self.memory is not None and memory is not None:
            before, metric = time.perf_counter(), self.options.metric
            search = WeightSearch(model, memory, held_out, seen, metric)
            given = self.memory.weight
            tried, enough = self.memory.tried, self.memory.enough
            weight = search.chosen(tried, enough) if given is None else given
            self.memory_seconds += time.perf_counter() - before
        both = weighted_sum(model, memory, weight)
        return weight, evaluate(both, held_out, seen=seen, ks=KS).means()

    def remember(self, data: Interactions) -> LocalItemWeights | None:
        """Return the item memory of these rows, if there is to be one."""
        if self.memory is None:
            return None
        before = time.perf_counter()
        found = self.memory.solve(data, self.device)
        self.memory_seconds += time.perf_counter() - before
        return found

    def done(
        self,
        kept: Fitted,
        chosen: Fitted,
        valid: dict[str, float],
        memory: LocalItemWeights | None,
        weight: float,
    ) -> Trained:
        """Return the model, with an item memory of this weight, and a summary of all passes."""
        records = [record for _, record in self.log]
        train = sum(r.train_seconds for r in records)
        return Trained(
            model=weighted_sum(kept.model.model(), memory, weight),
            memory=weight,
            engine=self.chosen_engine,
            why=self.why,
            deterministic=self.deterministic,
            epochs=chosen.epochs,
            best_epoch=chosen.best_epoch,
            log=tuple(self.log),
            generator=records[-1].health
            | ({} if records[-1].effective is None else {"effective": records[-1].effective}),
            valid=valid,
            seconds=Seconds(
                train=train,
                refit=sum(r.refit_seconds for r in records),
                evaluate=sum(r.evaluate_seconds for r in records),
                total=time.perf_counter() - self.started,
                start=self.start_seconds,
                memory=self.memory_seconds,
            ),
            positives_per_second=self.positives / train if train else 0.0,
        )
