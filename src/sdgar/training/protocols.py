"""Choose an epoch: on validation rows (``validated``), or as the paper does (``paper``)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch

from sdgar.contracts import Engine, System
from sdgar.data.held_out import HeldOut
from sdgar.data.history import History
from sdgar.data.interactions import Interactions
from sdgar.data.merge import with_ids_of
from sdgar.engines.choose import choose_engine
from sdgar.evaluation.report import evaluate
from sdgar.machine import cores
from sdgar.models.item_weights import LocalItemWeights
from sdgar.models.model import AnyScorer, Learned, Model
from sdgar.models.sum import weighted_sum
from sdgar.settings import KS, METRIC
from sdgar.training.checkpoints import Checkpoints
from sdgar.training.fit import EpochRecord, FitOptions, Fitted, fit
from sdgar.training.memory import Memory
from sdgar.training.trained import OnPhase, Phase, Seconds, Trained

PAPER_EPOCHS = 75
PAPER_EVERY = 5


class Composable(Protocol):
    """The settings that compose into a system once the data is known."""

    def compose(
        self,
        data: Interactions,
        *,
        seed: int,
        device: torch.device | None = None,
        start: bool = True,
    ) -> System:
        """Make the parts of the system, with ``device`` to compute on.

        Without ``start`` parts are not brought to where training starts, as a state follows.
        """
        ...


@dataclass(slots=True, kw_only=True)
class Training:
    """A training without its data: a recipe, its length, the device, and its log so far."""

    recipe: Composable
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
    memory: Memory | None = None
    """How the item memory is made that is added to the trained model, if there is one."""
    begin: Callable[[System, Interactions], None] | None = None
    """The function that sets a composed system to an earlier model, if training continues from
    one."""
    ks: tuple[int, ...] = KS
    """The lengths of the lists that are measured on validation rows."""
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
            seen=data.history if held_out is None else held_out.left_out(data),
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

        def evaluated(model: Learned) -> AnyScorer:
            if self.memory is None or memory is None:
                return model.scorer()
            return weighted_sum(model.model(), memory, self.memory.usual)

        kept = self.checkpoints
        fitted = None if kept is None else kept.finished(phase, system.learned)
        if fitted is None:
            engine = make_engine()
            fitted = fit(
                system,
                engine,
                options,
                held_out=held_out,
                seen=seen,
                on_epoch=report,
                keeper=None if kept is None else kept.keeper(phase, system.learned),
                evaluated=evaluated,
                after=after,
            )
            if kept is not None:
                kept.finish(phase, fitted)
            fitted.state = engine.state() if hand_on else None
        else:
            for epoch in fitted.log:
                report(epoch)
        self.log += [(phase, epoch) for epoch in fitted.log]
        self.positives += n_rows * len(fitted.log)
        return fitted

    def weighed(
        self,
        chosen: Fitted,
        memory: LocalItemWeights | None,
        held_out: HeldOut,
        data: Interactions,
    ) -> tuple[float, dict[str, float]]:
        """Choose the memory's weight on held-out rows; return it and the metrics on these rows."""
        return self.weight_of(chosen.model.model(), memory, held_out, held_out.left_out(data))

    def weight_of(
        self, model: Model, memory: LocalItemWeights | None, held_out: HeldOut, seen: History
    ) -> tuple[float, dict[str, float]]:
        """Return the chosen weight of the item memory, and the metrics with it."""
        weight = 0.0
        if self.memory is not None and memory is not None:
            before, metric = time.perf_counter(), self.options.metric
            weight = self.memory.chosen(model, memory, held_out, seen, metric)
            self.memory_seconds += time.perf_counter() - before
        means = evaluate(
            weighted_sum(model, memory, weight), held_out, seen=seen, ks=self.ks
        ).means()
        return weight, means

    def remember(self, data: Interactions) -> LocalItemWeights | None:
        """Return the item memory of these rows, if there is to be one."""
        if self.memory is None:
            return None
        before = time.perf_counter()
        found = self.memory.of(data, self.device)
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


def validated(
    training: Training, train: Interactions, valid: Interactions, *, refit_on: Interactions | None
) -> Trained:
    """Choose the number of epochs on ``valid``, then train as long on ``refit_on``.

    Without ``refit_on`` the best weights of the first pass are kept. Test rows play no part.
    """
    options = training.options
    if options.keep_last and options.epochs > 1 and refit_on is not None and train.fields is None:
        return _joined(training, train, valid, refit_on)
    held_out = HeldOut.of(valid, train).sample(options.valid_users, seed=training.seed)
    memory = training.remember(train)
    chosen = training.one_pass("choose", train, options, held_out, memory)
    weight, means = training.weighed(chosen, memory, held_out, train)
    if refit_on is None:
        return training.done(chosen, chosen, means, memory, weight)
    kept = training.one_pass("final", refit_on, replace(options, epochs=chosen.best_epoch), None)
    memory = training.remember(refit_on) if weight else None
    return training.done(kept, chosen, means, memory, weight)


def _joined(
    training: Training, train: Interactions, valid: Interactions, everything: Interactions
) -> Trained:
    """Train on ``train`` for the first half of the epochs, and on all rows for the second.

    The number of epochs is fixed where the learning rate falls, so ``valid`` only chooses the
    weight of the memory, half way. Continuing is as good as starting again (docs/systems.md).
    """
    options, seed = training.options, training.seed
    had_U = train.users.index_of(valid.users.values) >= 0
    if not had_U.all():  # the others have nothing to be ranked by yet
        HeldOut.of(valid, train)  # raises if nobody is left
        valid = valid.subset(had_U[valid.users_E], "users without training rows")
    first = with_ids_of(train, everything)
    held_out = HeldOut.of(valid, first).sample(options.valid_users, seed=seed)
    memory = training.remember(first)
    half = replace(options, epochs=options.half)
    chosen = training.one_pass("choose", first, half, held_out, memory, hand_on=True)
    weight, means = training.weighed(chosen, memory, held_out, first)
    kept = training.one_pass("final", everything, options, None, after=chosen)
    memory = training.remember(everything) if weight else None
    return training.done(kept, kept, means, memory, weight)


def fixed(training: Training, train: Interactions, phase: Phase = "final") -> Trained:
    """Train for exactly ``training.options.epochs``; nothing is held out."""
    fitted = training.one_pass(phase, train, training.options, None)
    weight = 0.0 if training.memory is None else training.memory.usual
    memory = training.remember(train) if weight else None
    return training.done(fitted, fitted, {}, memory, weight)


def paper_options(options: FitOptions) -> FitOptions:
    """Return the options with the paper's epochs, looks and metric."""
    return replace(
        options,
        epochs=PAPER_EPOCHS,
        evaluate_every=PAPER_EVERY,
        early_stopping=False,
        keep_last=False,
        metric=METRIC,
    )


def paper(training: Training, train: Interactions, test: HeldOut) -> Trained:
    """Keep the epoch with the best test NDCG@50 of 5, 10, …, 75, as the authors' logs do.

    It chooses on the test rows, so its number is optimistic: only for comparing with the
    paper's table. A memory has the weight that is given; none is chosen on test rows.
    """
    given = None if training.memory is None else training.memory.weight
    memory = training.remember(train) if given else None
    fitted = training.one_pass("choose", train, paper_options(training.options), test, memory)
    return training.done(fitted, fitted, {}, memory, given or 0.0)
