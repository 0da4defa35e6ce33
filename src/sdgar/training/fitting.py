"""Train an estimator on rows: what to train on, by which protocol, and what is recorded of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol

import torch

from sdgar.contracts import System
from sdgar.data import splits
from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.data.merge import merge
from sdgar.engines.choose import choose_device
from sdgar.errors import UsageError
from sdgar.evaluation.ranked import warn_of_known
from sdgar.machine.memory import require_memory
from sdgar.maths.rng import check_seed
from sdgar.recommend.recommender import Recommender
from sdgar.show import progress
from sdgar.training import protocols
from sdgar.training import warm_start as further
from sdgar.training.checkpoints import Checkpoints
from sdgar.training.fit import FitOptions
from sdgar.training.memory import Memory
from sdgar.training.memory_weight import evidence_of
from sdgar.training.trained import OnPhase, Phase, Trained

FitProtocol = Literal["validated", "paper", "all", "warm"]
"""How the number of epochs is chosen: on validation rows; on the test rows, as the paper does; as
many as an earlier ``fit`` chose, on all rows; or that of a training that continues from a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The rows that an estimator is trained on, and how."""

    rows: Interactions
    """The training rows."""
    valid: Interactions | None = None
    """The validation rows; without them some of the training rows are set aside."""
    refit: bool = False
    """Whether the validation rows are trained on too, once the number of epochs is chosen."""
    protocol: FitProtocol = "validated"
    """How the number of epochs is chosen."""
    test: Interactions | None = None
    """The test rows, for the protocol of the paper alone."""
    before: Recommender | None = None
    """The model that training continues from, for the protocol ``warm`` alone."""
    phase: Phase = "final"
    """What the pass over the rows is for, where there is only one."""
    on_epoch: OnPhase | None = None
    """The function that is called after every epoch, with the pass and the epoch's record."""
    checkpoints: Checkpoints | None = None
    """The checkpoints in which the run is kept, and from which it resumes."""
    verbose: bool | None = None
    """Whether progress is shown; None leaves it to ``sdgar.set_verbose``."""


class Trainable(Protocol):
    """What training needs of a recipe that has epochs."""

    @property
    def name(self) -> str:
        """The name of the system."""
        ...

    @property
    def loop(self) -> FitOptions | None:
        """How long the model trains and when it is evaluated."""
        ...

    @property
    def warm_loop(self) -> FitOptions | None:
        """How long training continues from an earlier model."""
        ...

    def changed(self, **settings: Any) -> Trainable:
        """Return a recipe with some settings changed."""
        ...

    def warm_started(self) -> Trainable:
        """Return the recipe by which training continues from an earlier model."""
        ...

    def item_memory(self, data: Interactions) -> Memory | None:
        """Return how the item memory is made; None if there is to be none."""
        ...

    def least_bytes(self, data: Interactions) -> int:
        """Return the bytes of memory that training takes in any case."""
        ...

    def compose(
        self,
        data: Interactions,
        *,
        seed: int,
        device: torch.device | None = None,
        start: bool = True,
    ) -> System:
        """Return the parts of the system."""
        ...


@dataclass(frozen=True, slots=True)
class FitResult:
    """A trained model, the rows that it was trained on, and what is saved about its training."""

    trained: Trained
    """The model and how it was trained."""
    rows: Interactions
    """The rows that the model was trained on."""
    about: dict[str, Any]
    """Entries of the saved model beyond the usual ones."""


def train(
    recipe: Trainable,
    how: Fit,
    *,
    seed: int,
    engine: str,
    device: str,
    measured: Trained | None = None,
) -> FitResult:
    """Train by the protocol of a record of fitting.

    ``recipe`` has nothing left to a rule. ``measured`` is the training that was measured before all
    rows were trained on, for the protocols ``all`` and ``warm``.
    """
    run = _run_of(recipe, how, seed, engine, device)
    match how.protocol:
        case "validated":
            return _validated(recipe, how, run)
        case "paper":
            return _paper(recipe, how, run)
        case "all":
            assert measured is not None
            return _all_rows(recipe, how, run, measured)
        case "warm":
            return _warm(recipe, how, run, measured)


def _run_of(recipe: Trainable, how: Fit, seed: int, engine: str, device: str) -> protocols.Training:
    options = recipe.loop
    assert options is not None
    recipe.warm_started()  # raises now if these settings are wrong, and not when they are used
    computes_on = choose_device(device)
    require_memory(recipe.name, recipe.least_bytes(how.rows), computes_on)
    return protocols.Training(
        recipe=recipe,
        options=options,
        seed=check_seed(seed),
        engine=engine,
        device=computes_on,
        checkpoints=how.checkpoints,
        memory=recipe.item_memory(how.rows),
    )


@contextmanager
def _shown(
    run: protocols.Training, recipe: Trainable, rows: Interactions, how: Fit
) -> Iterator[None]:
    """Show the progress of a run while it trains."""
    with progress.training(
        recipe.name,
        rows.sizes(),
        run.options.epochs,
        metric=run.options.metric,
        verbose=how.verbose,
        on_epoch=how.on_epoch,
    ) as run.on_epoch:
        yield


def _validated(recipe: Trainable, how: Fit, run: protocols.Training) -> FitResult:
    """Choose the number of epochs on validation rows, if there is early stopping."""
    train, valid, options = how.rows, how.valid, run.options
    everything = train
    if not options.early_stopping:
        with _shown(run, recipe, train, how):
            return FitResult(protocols.fixed(run, train), train, {})
    if valid is not None:
        held_out = HeldOut.of(valid, train)
        warn_of_known(held_out, held_out.left_out(train))
        everything = merge(train, valid) if how.refit else train
    with _shown(run, recipe, train, how):
        if valid is None:
            part = splits.validation(train, seed=run.seed, most_users=options.valid_users)
            trained = protocols.validated(run, part.train, part.held_out, refit_on=train)
        else:
            again = everything if how.refit else None
            trained = protocols.validated(run, train, valid, refit_on=again)
    return FitResult(trained, everything, {})


def _paper(recipe: Trainable, how: Fit, run: protocols.Training) -> FitResult:
    """Choose the epoch on the TEST rows, as the paper's published logs do."""
    assert how.test is not None
    run.recipe = recipe.changed(epochs=protocols.PAPER_EPOCHS)
    with _shown(run, recipe, how.rows, how):
        trained = protocols.paper(run, how.rows, HeldOut.of(how.test, how.rows))
    return FitResult(trained, how.rows, {})


def _all_rows(recipe: Trainable, how: Fit, run: protocols.Training, measured: Trained) -> FitResult:
    """Train again on all rows, for the number of epochs that was chosen before."""
    run.recipe = recipe.changed(epochs=measured.best_epoch)
    run.options = replace(run.options, epochs=measured.best_epoch, early_stopping=False)
    if run.memory is not None:
        run.memory = replace(run.memory, weight=measured.memory)
    with _shown(run, recipe, how.rows, how):
        after = protocols.fixed(run, how.rows, "all")
    again = measured.once_more(after, one_clock=how.checkpoints is not None)
    return FitResult(again, how.rows, {})


def _warm(
    recipe: Trainable, how: Fit, run: protocols.Training, measured: Trained | None
) -> FitResult:
    """Continue from an earlier model, with all rows that are to be trained on.

    Known users and items keep their vectors, new ones are folded in, and a few epochs follow. The
    item memory is solved for again. Its weight stays as it was, unless the new rows prefer another
    one (``training/memory_weight.py``).
    """
    before, rows, options = how.before, how.rows, recipe.warm_loop
    assert before is not None
    assert options is not None
    run.recipe, run.options = recipe.warm_started(), options
    run.begin = partial(further.begin, before=before, seed=run.seed)
    about: dict[str, Any] = {"from": before.version, "times": further.times_of(before.about) + 1}
    if run.memory is not None and run.memory.weight is None:
        found = evidence_of(before, rows, run.memory, run.options.metric)
        weight = found.instead_of(further.memory_of(before))
        run.memory = replace(run.memory, weight=measured.memory if measured else weight)
        about |= {"evidence": found.as_dict()} if found.users else {}
    with _shown(run, recipe, rows, how):
        trained = protocols.fixed(run, rows, how.phase)
    if measured is not None:
        trained = measured.once_more(trained, one_clock=how.checkpoints is not None)
    return FitResult(trained, rows, {"further": about})


def require_validation_used(how: Fit, *, early_stopping: bool) -> Fit:
    """Return the record with validation rows among the training rows if nothing is chosen on them.

    Raise if they would not be used at all.
    """
    if early_stopping or how.valid is None or how.protocol != "validated":
        return how
    if not how.refit:
        raise UsageError(
            "early_stopping is off, so the validation rows would not be used. Leave them out, or "
            "train on them too with refit=True.",
            code="unused_rows",
        )
    return replace(how, rows=merge(how.rows, how.valid), valid=None)
