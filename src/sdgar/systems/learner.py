"""The base class of systems that are composed of a discriminator, a sampler and an objective."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from sdgar.arguments import at_least, below_one, not_negative, one_of
from sdgar.contracts import Discriminator, Objective, Recommending, Sampler, System
from sdgar.discriminators.factorization import factorization
from sdgar.errors import UsageError
from sdgar.parts import Ingredients
from sdgar.samplers.static import STATIC
from sdgar.systems.base import Estimator
from sdgar.systems.checks import require_features_used, require_learnable, require_plain
from sdgar.systems.defaults import (
    ROWS,
    SCHEDULES,
    STEPS,
    EarlyStopping,
    ItemMemory,
    Optimization,
    Sampling,
    WarmStart,
    by_rows,
)
from sdgar.systems.parameters import estimator
from sdgar.systems.recipe import Recipe, SystemSpec

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.training.fitting import Fit
    from sdgar.training.item_memory import ItemMemorySolver
    from sdgar.training.records import FitOptions, Trained

CPU = torch.device("cpu")


@estimator
class Learner(Estimator):
    """A system of three parts: one scores, one proposes negatives, and one is minimised.

    It is trained in epochs. A subclass makes each part; ``_compose`` puts them together.
    """

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
    dim: int = 32
    """The number of coordinates D of the vector of each user and each item."""
    learning_rate: float = 0.1
    """The learning rate of the optimiser; both kinds of Adam want about 0.004."""
    optimizer: Optimization = Optimization()
    """The rule for steps."""
    n_negatives: int = 1
    """How many negatives are drawn for each positive; the loss is the mean over them."""
    batch_size: int = 2048
    """How many training positives one step of the optimiser learns from."""
    sampler: Sampling = Sampling()
    """How negatives are drawn."""
    item_memory: ItemMemory = ItemMemory()
    """The item-item weights that are added to the scores."""
    warm_start: WarmStart = WarmStart()
    """How training continues from an earlier model."""

    def _fit(self, how: Fit) -> None:
        from sdgar.samplers.dislikes import require_dislikes
        from sdgar.training import fitting

        how = fitting.require_validation_used(how, early_stopping=self.early_stopping.enabled)
        require_learnable(how.rows)
        require_plain(self._plain_params())
        require_features_used(self, how.rows)
        if self.sampler.dislikes:
            require_dislikes(how.rows)
        again = how.protocol == "all" or how.phase == "all"
        trained, rows = fitting.train(
            Recipe(self._settled(how.rows)),
            how,
            seed=self.seed,
            engine=self.engine,
            device=self.device,
            measured=self._trained_as if again else None,
        )
        self._keep_trained(trained, rows, how.verbose)

    def _keep_trained(self, trained: Trained, train: Interactions, verbose: bool | None) -> None:
        """Keep a trained model, with what is saved about its training."""
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
                **trained.about,
            },
        )
        self._show_ready(trained.seconds.total, verbose)

    def _make_discriminator(self, given: Ingredients) -> Discriminator:
        """Make the part that scores."""
        raise NotImplementedError

    def _make_objective(self, given: Ingredients) -> Objective:
        """Make the loss that is minimised."""
        raise NotImplementedError

    def _make_sampler(self, given: Ingredients) -> Sampler:
        """Make the part that proposes negatives; the other two parts have been made by then."""
        raise NotImplementedError

    def _recommends(self, sampler: Sampler) -> Recommending | None:
        """Return the part that recommends in the end; None if it is the discriminator."""
        return None

    def _compose(
        self,
        data: Interactions,
        *,
        seed: int,
        device: torch.device | None = None,
        start: bool = True,
    ) -> System:
        """Return the parts of the system, with ``device`` to compute on; by default it is the CPU.

        Without ``start`` parts are not brought to where training starts, as a state follows.
        """
        from sdgar.maths.optimizers import make_optimizer
        from sdgar.samplers.dislikes import with_dislikes

        own = self._settled(data)
        falls = one_of("optimizer__schedule", own.optimizer.schedule, SCHEDULES) == "linear"
        horizon = at_least("epochs", own.epochs, 1) if falls else None
        optimizer = make_optimizer(*own._step(), horizon)
        dim = at_least("dim", own.dim, 1)
        given = Ingredients(data, seed, device or CPU, dim, optimizer.row_wise, start)
        given = replace(given, discriminator=own._make_discriminator(given))
        given = replace(given, objective=own._make_objective(given))
        assert given.discriminator is not None
        assert given.objective is not None
        proposes = own._make_sampler(given)
        recommends = own._recommends(proposes)
        share = below_one("sampler__dislikes", own.sampler.dislikes)
        if share and recommends is not None:
            raise UsageError(
                f"{own._spec.name} lets its generator recommend, which learns from its own draws "
                "and not from dislikes. Set sampler__dislikes to 0.",
                code="unused_dislikes",
            )
        holder: Any = own.sampler if hasattr(own.sampler, "refit_every") else own
        refits = hasattr(holder, "refit_every")  # a custom system may have it itself
        return System(
            name=own._spec.name,
            discriminator=given.discriminator,
            sampler=with_dislikes(own._spec.name, proposes, given.objective, data, share),
            objective=given.objective,
            optimizer=optimizer,
            n_negatives=own._n_drawn(),
            batch_size=at_least("batch_size", own.batch_size, 1),
            positives_per_visit=at_least(
                "sampler__positives_per_visit", own.sampler.positives_per_visit, 1
            ),
            l2=own._penalty(data),
            refit_every=at_least("refit_every", holder.refit_every, 1) if refits else None,
            seen_elsewhere=data.fields is not None and data.seen_by == "user",
            recommends=recommends,
        )

    def _item_memory(self, data: Interactions) -> ItemMemorySolver | None:
        """Return how the item memory is made that is added to the trained model, if there is one.

        Contexts of several fields have histories that are too short for an item memory; it is only
        added to them if its weight is given.
        """
        from sdgar.training.item_memory import ItemMemorySolver

        given, neighbours = self.item_memory, self._settled(data).item_memory.neighbours
        weight = None if given.weight is None else not_negative("item_memory", given.weight)
        memory = ItemMemorySolver.for_vectors(data, weight, neighbours=neighbours, l2=given.l2)
        left_out = weight == 0 or (weight is None and data.fields is not None)
        return None if left_out else memory

    def _loop(self) -> FitOptions:
        """Return the settings of the loop, checked; with a falling rate it keeps the last epoch."""
        from sdgar.training.records import FitOptions

        stopping = self.early_stopping
        return FitOptions(
            epochs=self.epochs,
            evaluate_every=stopping.every,
            patience=stopping.patience,
            early_stopping=stopping.enabled,
            metric=stopping.metric,
            keep_last=self.optimizer.schedule == "linear",
        )

    def _n_drawn(self) -> int:
        """Return how many negatives are drawn for each visit."""
        return at_least("n_negatives", self.n_negatives, 1)

    def _n_states(self) -> int:
        """Return the number K of states of the generator; 0 without one."""
        how: Any = self.sampler
        if not hasattr(how, "states") or how.kind in STATIC:
            return 0
        return at_least("sampler__states", how.states, 1)

    def _step(self) -> tuple[str, float]:
        """Return the optimiser that takes the steps, with its learning rate."""
        return self.optimizer.name, self.learning_rate

    def _penalty(self, data: Interactions) -> float:
        """Return λ, which weighs the discriminator's penalty."""
        return not_negative("l2", self._decided(data).get("l2", getattr(self, "l2", 0.0)))


@estimator
class Factorized(Learner):
    """A system that scores by g(c, i) = u_c · v_i + b_i."""

    _spec: ClassVar[SystemSpec] = SystemSpec(searched=STEPS, l2_scale=0.04, rules={"l2": ROWS})

    l2: float | None = None
    """The weight λ of the squared norm of the rows that a batch touches. Without a value it follows
    from the size of the data: a constant of the system over the square root of the training rows
    there are for each user and item."""

    def _decided(self, data: Interactions) -> dict[str, Any]:
        """Return λ by its rule, unless it is given."""
        return {"l2": by_rows(self._spec.l2_scale, data)} if self.l2 is None else {}

    def _make_discriminator(self, given: Ingredients) -> Discriminator:
        """Return inner products of vectors, and a bias for each item."""
        return factorization(given)
