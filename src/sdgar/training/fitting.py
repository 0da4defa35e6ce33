"""Train an estimator on rows: what to train on, and by which protocol."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.data.merge import merge, with_ids_of
from sdgar.engines.choose import choose_device
from sdgar.errors import UsageError
from sdgar.evaluation.ranked import warn_of_known
from sdgar.machine.memory import require_memory
from sdgar.maths.rng import check_seed
from sdgar.recommend.recommender import Recommender
from sdgar.settings import METRIC
from sdgar.show import progress
from sdgar.training import warm_start
from sdgar.training.checkpoints import Checkpoints
from sdgar.training.item_memory import evidence_with_new_rows
from sdgar.training.loop import Training
from sdgar.training.records import VALID_USERS, FitOptions, OnPhase, Phase, Trainable, Trained

PAPER_EPOCHS = 75
"""The epochs that the protocol of the paper runs."""
PAPER_EVERY = 5
"""The epochs between two evaluations of that protocol."""
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


def train(
    recipe: Trainable,
    how: Fit,
    *,
    seed: int,
    engine: str,
    device: str,
    measured: Trained | None = None,
) -> tuple[Trained, Interactions]:
    """Train by the protocol of a record of fitting; return the model and the rows that it has.

    ``recipe`` has nothing left to a rule. ``measured`` is the training that was measured before all
    rows were trained on, for the protocols ``all`` and ``warm``.
    """
    options = recipe.loop
    assert options is not None
    recipe.warm_started()  # raises now if these settings are wrong, and not when they are used
    computes_on = choose_device(device)
    require_memory(recipe.name, recipe.least_bytes(how.rows), computes_on)
    run = Training(
        recipe=recipe,
        options=options,
        seed=check_seed(seed),
        engine=engine,
        device=computes_on,
        checkpoints=how.checkpoints,
        memory=recipe.item_memory(how.rows),
    )
    match how.protocol:
        case "validated":
            return _validated(run, how)
        case "paper":
            return _paper(run, how), how.rows
        case "all":
            assert measured is not None
            return _all_rows(run, how, measured), how.rows
        case "warm":
            return _warm(run, how, measured), how.rows


@contextmanager
def _shown(run: Training, how: Fit) -> Iterator[None]:
    """Show the progress of a run while it trains."""
    with progress.training(
        run.recipe.name,
        how.rows.size_text(),
        run.options.epochs,
        metric=run.options.metric,
        verbose=how.verbose,
        on_epoch=how.on_epoch,
    ) as run.on_epoch:
        yield


def _validated(run: Training, how: Fit) -> tuple[Trained, Interactions]:
    """Choose the number of epochs on validation rows, if there is early stopping."""
    train, valid, options = how.rows, how.valid, run.options
    if not options.early_stopping:
        with _shown(run, how):
            return fixed(run, train), train
    if valid is None:
        with _shown(run, how):
            part = run.recipe.validation(train, run.seed)
            return _chosen(run, part.train, part.held_out, refit_on=train), train
    held_out = HeldOut.of(valid, train)
    warn_of_known(held_out, held_out.excluded(train))
    again = merge(train, valid) if how.refit else None
    with _shown(run, how):
        return _chosen(run, train, valid, refit_on=again), again or train


def _chosen(
    run: Training, train: Interactions, valid: Interactions, *, refit_on: Interactions | None
) -> Trained:
    """Choose the number of epochs on ``valid``, then train as long on ``refit_on``.

    Without ``refit_on`` the best weights of the first pass are kept. Test rows play no part.
    """
    options = run.options
    if options.keep_last and options.epochs > 1 and refit_on is not None and train.fields is None:
        return _joined(run, train, valid, refit_on)
    held_out = HeldOut.of(valid, train).sample(VALID_USERS, seed=run.seed)
    memory = run.remember(train)
    chosen = run.one_pass("choose", train, options, held_out, memory)
    seen = held_out.excluded(train)
    weight, means = run.weight_of(chosen.model.model(), memory, held_out, seen)
    if refit_on is None:
        return run.done(chosen, chosen, means, memory, weight)
    kept = run.one_pass("final", refit_on, replace(options, epochs=chosen.best_epoch), None)
    memory = run.remember(refit_on) if weight else None
    return run.done(kept, chosen, means, memory, weight)


def _joined(
    run: Training, train: Interactions, valid: Interactions, everything: Interactions
) -> Trained:
    """Train on ``train`` for the first half of the epochs, and on all rows for the second.

    The number of epochs is fixed where the learning rate falls, so ``valid`` only chooses the
    weight of the memory, half way. Continuing is as good as starting again (docs/systems.md).
    """
    options = run.options
    had_U = train.users.index_of(valid.users.values) >= 0
    if not had_U.all():  # the others have nothing to be ranked by yet
        HeldOut.of(valid, train)  # raises if nobody is left
        valid = valid.subset(had_U[valid.users_E], "users without training rows")
    first = with_ids_of(train, everything)
    held_out = HeldOut.of(valid, first).sample(VALID_USERS, seed=run.seed)
    memory = run.remember(first)
    half = replace(options, epochs=options.half)
    chosen = run.one_pass("choose", first, half, held_out, memory, hand_on=True)
    seen = held_out.excluded(first)
    weight, means = run.weight_of(chosen.model.model(), memory, held_out, seen)
    kept = run.one_pass("final", everything, options, None, after=chosen)
    memory = run.remember(everything) if weight else None
    return run.done(kept, kept, means, memory, weight)


def fixed(run: Training, train: Interactions, phase: Phase = "final") -> Trained:
    """Train for exactly ``run.options.epochs``; nothing is held out."""
    fitted = run.one_pass(phase, train, run.options, None)
    weight = 0.0 if run.memory is None else run.memory.weight_or_default
    memory = run.remember(train) if weight else None
    return run.done(fitted, fitted, {}, memory, weight)


def paper_options(options: FitOptions) -> FitOptions:
    """Return the options with the paper's epochs, evaluations and metric."""
    return replace(
        options,
        epochs=PAPER_EPOCHS,
        evaluate_every=PAPER_EVERY,
        early_stopping=False,
        keep_last=False,
        metric=METRIC,
    )


def _paper(run: Training, how: Fit) -> Trained:
    """Keep the epoch with the best test NDCG@50 of 5, 10, …, 75, as the authors' logs do.

    It chooses on the TEST rows, so its number is optimistic: only for comparing with the
    paper's table. A memory has the weight that is given; none is chosen on test rows.
    """
    assert how.test is not None
    run.recipe = run.recipe.changed(epochs=PAPER_EPOCHS)
    given = None if run.memory is None else run.memory.weight
    test = HeldOut.of(how.test, how.rows)
    with _shown(run, how):
        memory = run.remember(how.rows) if given else None
        fitted = run.one_pass("choose", how.rows, paper_options(run.options), test, memory)
        return run.done(fitted, fitted, {}, memory, given or 0.0)


def _all_rows(run: Training, how: Fit, measured: Trained) -> Trained:
    """Train again on all rows, for the number of epochs that was chosen before."""
    run.recipe = run.recipe.changed(epochs=measured.best_epoch)
    run.options = replace(run.options, epochs=measured.best_epoch, early_stopping=False)
    if run.memory is not None:
        run.memory = replace(run.memory, weight=measured.memory)
    with _shown(run, how):
        after = fixed(run, how.rows, "all")
    return measured.once_more(after, one_clock=how.checkpoints is not None)


def _warm(run: Training, how: Fit, measured: Trained | None) -> Trained:
    """Continue from an earlier model, with all rows that are to be trained on.

    Known users and items keep their vectors, new ones are folded in, and a few epochs follow. The
    item memory is solved for again. Its weight stays as it was, unless the new rows prefer another
    one (``training/item_memory.py``).
    """
    run.recipe = run.recipe.warm_started()
    before, options = how.before, run.recipe.loop
    assert before is not None
    assert options is not None
    run.options = replace(options, early_stopping=False)
    run.begin = partial(warm_start.begin, before=before, seed=run.seed)
    times = warm_start.times_of(before.about) + 1
    about: dict[str, Any] = {"from": before.version, "times": times}
    if run.memory is not None and run.memory.weight is None:
        found = evidence_with_new_rows(before, how.rows, run.memory, run.options.metric)
        weight = found.better_weight(warm_start.memory_of(before))
        run.memory = replace(run.memory, weight=measured.memory if measured else weight)
        about |= {"evidence": found.as_dict()} if found.users else {}
    with _shown(run, how):
        trained = replace(fixed(run, how.rows, how.phase), about={"further": about})
    if measured is None:
        return trained
    return measured.once_more(trained, one_clock=how.checkpoints is not None)


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
