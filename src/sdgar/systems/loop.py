"""The base class of systems trained in epochs, whose number is chosen on validation rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from sdgar.contracts import System
from sdgar.data import splits
from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.engines.choose import choose_device
from sdgar.errors import UsageError
from sdgar.evaluation.counts import warn_of_known
from sdgar.machine.memory import require_memory
from sdgar.maths.rng import check_seed
from sdgar.recommend.measuring import require_rows
from sdgar.recommend.recommender import Recommender
from sdgar.show import progress
from sdgar.systems.base import Estimator, estimator
from sdgar.systems.checks import require_features_used, require_learnable, require_plain
from sdgar.training import further, protocols
from sdgar.training.checkpoints import Checkpoints
from sdgar.training.fit import EarlyStopping, FitOptions
from sdgar.training.judged import judged
from sdgar.training.memory import Memory
from sdgar.training.trained import OnPhase, Phase, Trained

if TYPE_CHECKING:
    from typing import Self

CPU = torch.device("cpu")


@estimator
class Looped(Estimator):
    """A model that is trained by the one loop, with early stopping on validation rows."""

    epochs: int = 200
    """The most passes over the training positives."""
    early_stopping: EarlyStopping = EarlyStopping()
    """How the number of epochs is chosen on validation rows."""
    seed: int = 0
    """The seed that fixes everything that is drawn."""
    engine: str = "auto"
    """The engine that runs the epochs: auto, fused-cpu, fused-gpu or eager."""
    device: str = "auto"
    """The device that computes: auto, cpu or cuda."""

    def compose(
        self, data: Interactions, *, seed: int, device: torch.device = CPU, start: bool = True
    ) -> System:
        """Make the parts of the system, with ``device`` to compute on.

        Without ``start`` parts are not brought to where training starts, as a state follows.
        """
        raise NotImplementedError

    def least_bytes(self, data: Interactions) -> int:
        """Count the bytes of memory that training takes in any case."""
        raise NotImplementedError

    def beside(self, data: Interactions) -> Memory | None:
        """Say which memory is added to the trained model; None, as here, without one."""
        return None

    def going_on(self) -> Self:
        """Return the system with the epochs and steps by which it goes on from an earlier model."""
        return self

    def further_options(self) -> FitOptions:
        """Return the settings of the loop when it goes on from an earlier model: all epochs run."""
        return replace(self.going_on().fit_options(), early_stopping=False)

    def require_composable(self, data: Interactions) -> None:
        """Raise if the settings ask for what the data does not have."""

    def fit(
        self,
        train: Interactions,
        valid: Interactions | None = None,
        *,
        refit: bool = False,
        on_epoch: OnPhase | None = None,
        checkpoints: Checkpoints | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Learn from interactions, and show progress unless ``verbose`` is False.

        With ``valid`` the epoch is chosen on it and the best weights are kept; ``refit=True``
        then trains once more, as long, on both parts. Without ``valid``, 10 % of the rows (of at
        most 5,000 users) are set aside to choose the number of epochs, and the model is then
        trained as long on all. Where the learning rate falls, the number of epochs is fixed: the
        first half leaves those rows out, and the second goes on with all.
        ``checkpoints`` keep the run while it trains; it goes on from what they have taken up.

        ``on_epoch`` is called after every epoch, with "choose" while the number of epochs is
        chosen or "final" while the model that is kept is trained, and with the epoch's record:
        its number ``epoch``, its ``loss``, and the NDCG@50 on validation rows, ``metric``, which
        is None unless this epoch had a look at them.

        >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
        >>> losses = []
        >>> model = sdgar.BPR(epochs=3, early_stopping=False)
        >>> model = model.fit(data, on_epoch=lambda phase, record: losses.append(record.loss))
        >>> len(losses)
        3
        """
        self._require_sound(train, valid)
        if not self.early_stopping.enabled and valid is not None:
            if not refit:
                raise UsageError(
                    "early_stopping is off, so nothing looks at validation rows. Leave them out, "
                    "or train on them too with refit=True.",
                    code="unused_rows",
                )
            train = train.merge(valid)
        run = self._run(train, checkpoints)
        everything = train
        if self.early_stopping.enabled and valid is not None:
            held_out = HeldOut.of(valid, train)
            warn_of_known(held_out, held_out.left_out(train))
            everything = train.merge(valid) if refit else train
        with self._told(run, train, on_epoch, verbose):
            if not self.early_stopping.enabled:
                trained = protocols.fixed(run, train)
            elif valid is None:
                most = run.options.valid_users
                part = splits.validation(train, seed=self.seed, most_users=most)
                trained = protocols.validated(run, part.train, part.held_out, refit_on=train)
            else:
                again = everything if refit else None
                trained = protocols.validated(run, train, valid, refit_on=again)
        return self._keep_trained(trained, everything, verbose)

    def fit_as_the_paper(
        self,
        train: Interactions,
        test: Interactions,
        *,
        on_epoch: OnPhase | None = None,
        checkpoints: Checkpoints | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Choose the epoch on the TEST rows, as the paper's published logs do.

        Only for comparing with its table: the number is optimistic.
        """
        self._require_sound(train, None)
        require_rows("test", test)
        run = self._run(train, checkpoints)
        run.recipe = self.settled(train).changed(epochs=protocols.PAPER_EPOCHS)
        with self._told(run, train, on_epoch, verbose):
            trained = protocols.paper(run, train, HeldOut.of(test, train))
        return self._keep_trained(trained, train, verbose)

    def fit_all(
        self,
        everything: Interactions,
        *,
        on_epoch: OnPhase | None = None,
        checkpoints: Checkpoints | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Train anew for the number of epochs that was chosen before, on all rows.

        This is for after a measurement, when the rows that it was made on can be learned from too.
        ``trained_`` then still says how the number of epochs was chosen.
        """
        before = self.trained_
        run = self._run(everything, checkpoints)
        run.recipe = self.settled(everything).changed(epochs=before.best_epoch)
        run.options = replace(run.options, epochs=before.best_epoch, early_stopping=False)
        if run.memory is not None:
            run.memory = replace(run.memory, weight=before.memory)
        with self._told(run, everything, on_epoch, verbose):
            after = protocols.fixed(run, everything, "all")
        again = before.once_more(after, one_clock=checkpoints is not None)
        return self._keep_trained(again, everything, verbose)

    def fit_further(
        self,
        rows: Interactions,
        before: Recommender,
        *,
        phase: Phase = "final",
        on_epoch: OnPhase | None = None,
        checkpoints: Checkpoints | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Go on from an earlier model, with all rows that are to be learned from.

        Known users and items keep their vectors, new ones are folded in, and a few epochs follow
        (``further_epochs``, ``further_rate``). A memory is solved for anew. Its weight stays as it
        was, unless the rows that are new speak for another one (``training/judged.py``). In the
        phase "all" this follows a measurement, of which ``trained_`` still tells.
        """
        self._require_sound(rows, None)
        run = self._run(rows, checkpoints)
        settled = self.settled(rows)
        run.recipe, run.options = settled.going_on(), settled.further_options()
        run.begin = partial(further.begin, before=before, seed=run.seed)
        measured = self.trained_ if phase == "all" else None
        told: dict[str, Any] = {}
        if run.memory is not None and run.memory.weight is None:
            found = judged(before, rows, run.memory, run.options.metric)
            weight = found.instead_of(further.memory_of(before))
            run.memory = replace(run.memory, weight=measured.memory if measured else weight)
            told = {"judged": found.as_dict()} if found.users else {}
        with self._told(run, rows, on_epoch, verbose):
            trained = protocols.fixed(run, rows, phase)
        if measured is not None:
            trained = measured.once_more(trained, one_clock=checkpoints is not None)
        self._keep_trained(trained, rows, verbose)
        times = further.times_of(before.about) + 1
        self.recommender_.about["further"] = {"from": before.version, "times": times, **told}
        return self

    @contextmanager
    def _told(
        self,
        run: protocols.Training,
        train: Interactions,
        on_epoch: OnPhase | None,
        verbose: bool | None,
    ) -> Iterator[None]:
        """Print the progress of a run while it trains."""
        with progress.training(
            self.system_name,
            train.sizes(),
            run.options.epochs,
            metric=run.options.metric,
            verbose=verbose,
            on_epoch=on_epoch,
        ) as run.on_epoch:
            yield

    def _run(self, train: Interactions, checkpoints: Checkpoints | None) -> protocols.Training:
        require_learnable(train)
        require_plain(self.plain_params())
        require_features_used(self, train)
        self.require_composable(train)
        settled = self.settled(train)
        settled.going_on()  # raises now if these settings are wrong, and not some night
        device = choose_device(self.device)
        require_memory(self.system_name, self.least_bytes(train), device)
        return protocols.Training(
            recipe=settled,
            options=settled.fit_options(),
            seed=check_seed(self.seed),
            engine=self.engine,
            device=device,
            checkpoints=checkpoints,
            memory=self.beside(train),
        )

    def fit_options(self) -> FitOptions:
        """Return the settings of the loop, checked."""
        stopping = self.early_stopping
        return FitOptions(
            epochs=self.epochs,
            evaluate_every=stopping.every,
            patience=stopping.patience,
            early_stopping=stopping.enabled,
            metric=stopping.metric,
        )

    def _keep_trained(self, trained: Trained, train: Interactions, verbose: bool | None) -> Self:
        self.__dict__["_trained"] = trained
        self._keep(
            trained.model,
            train,
            {
                "engine": {
                    "name": trained.engine,
                    "why": trained.why,
                    "deterministic": trained.deterministic,
                },
                "generator": trained.generator,
                "seed": self.seed,
                "best_epoch": trained.best_epoch,
                "valid": trained.valid,
                "memory": trained.memory,
            },
        )
        self._tell_done(trained.seconds.total, verbose)
        return self
