"""The base class of systems that are composed of a discriminator, a sampler and an objective."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import torch

from sdgar.arguments import at_least, not_negative, one_of
from sdgar.contracts import Discriminator, Objective, Recommending, Sampler, System
from sdgar.data.interactions import Interactions
from sdgar.errors import DataError, UsageError
from sdgar.machine.memory import require_memory
from sdgar.maths.optimizers import make_optimizer
from sdgar.parts.register import Ingredients
from sdgar.samplers.dislikes import require_dislikes, share_of, with_dislikes
from sdgar.settings import Group
from sdgar.systems.base import estimator
from sdgar.systems.loop import CPU, Looped
from sdgar.training import further
from sdgar.training.fit import FitOptions
from sdgar.training.further import WarmStart
from sdgar.training.memory import ItemMemory, Memory

if TYPE_CHECKING:
    from typing import Self

SCHEDULES = ("constant", "linear")
"""The ways in which the learning rate can change."""


@dataclass(frozen=True, kw_only=True)
class Optimization(Group):
    """The rule for steps, and how the learning rate changes."""

    leading: ClassVar[str] = "name"

    name: str = "adagrad"
    """How steps are taken: adagrad (one sum of squares a row), lazy-adam (which moves the rows
    that a batch touches), adam (which moves all rows) or sgd."""
    schedule: str = "constant"
    """How the learning rate changes: constant, or linear, which lets it fall evenly to nothing over
    ``epochs``."""


@dataclass(frozen=True, kw_only=True)
class Sampling(Group):
    """How negatives are drawn, for every sampler."""

    positives_per_visit: int = 1
    """How many positives of a user share one pool of n_negatives; 1 gives each its own."""
    dislikes: float = 0.0
    """The share of negatives that is drawn from what the user dislikes, such as films that were
    rated low, instead of by the sampler; 0 draws none of them."""


@estimator
class Learner(Looped):
    """A system of three parts: one scores, one proposes negatives, and one is minimised.

    A subclass says how each part is made; ``compose`` puts them together.
    """

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

    def make_discriminator(self, given: Ingredients) -> Discriminator:
        """Make the part that scores."""
        raise NotImplementedError

    def make_objective(self, given: Ingredients) -> Objective:
        """Make the loss that is minimised."""
        raise NotImplementedError

    def make_sampler(self, given: Ingredients) -> Sampler:
        """Make the part that proposes negatives; the other two parts have been made by then."""
        raise NotImplementedError

    def recommends(self, sampler: Sampler) -> Recommending | None:
        """Return the part that recommends in the end; None if it is the discriminator."""
        return None

    def compose(
        self, data: Interactions, *, seed: int, device: torch.device = CPU, start: bool = True
    ) -> System:
        """Make the parts of the system, with ``device`` to compute on.

        Without ``start`` parts are not brought to where training starts, as a state follows.
        """
        return self.settled(data)._compose(data, seed, device, start=start)

    def _compose(
        self, data: Interactions, seed: int, device: torch.device, *, start: bool
    ) -> System:
        """Make the parts of a system that has nothing left to a rule."""
        falls = one_of("optimizer__schedule", self.optimizer.schedule, SCHEDULES) == "linear"
        horizon = at_least("epochs", self.epochs, 1) if falls else None
        optimizer = make_optimizer(*self.step(), horizon)
        dim = at_least("dim", self.dim, 1)
        given = Ingredients(data, seed, device, dim, optimizer.row_wise, start)
        given = replace(given, discriminator=self.make_discriminator(given))
        given = replace(given, objective=self.make_objective(given))
        assert given.discriminator is not None
        assert given.objective is not None
        proposes = self.make_sampler(given)
        recommends = self.recommends(proposes)
        share = share_of(self.sampler.dislikes)
        if share and recommends is not None:
            raise UsageError(
                f"{self.system_name} lets its generator recommend, which learns from its own draws "
                "and not from dislikes. Set sampler__dislikes to 0.",
                code="unused_dislikes",
            )
        own = getattr(self, "refit_every", None)  # a system of somebody else may have it as its own
        refit_every = getattr(self.sampler, "refit_every", own)
        return System(
            name=self.system_name,
            discriminator=given.discriminator,
            sampler=with_dislikes(self.system_name, proposes, given.objective, data, share),
            objective=given.objective,
            optimizer=optimizer,
            n_negatives=at_least("n_negatives", self.n_negatives, 1),
            batch_size=at_least("batch_size", self.batch_size, 1),
            positives_per_visit=at_least(
                "sampler__positives_per_visit", self.sampler.positives_per_visit, 1
            ),
            l2=self.penalty(data),
            refit_every=None if refit_every is None else at_least("refit_every", refit_every, 1),
            seen_elsewhere=data.fields is not None and data.seen_by == "user",
            recommends=recommends,
        )

    def beside(self, data: Interactions) -> Memory | None:
        """Say which memory is added to the trained model, if there is to be one.

        Contexts of several fields have histories that are too short for a memory that is not asked
        for.
        """
        given, neighbours = self.item_memory, self.settled(data).item_memory.neighbours
        weight = None if given.weight is None else not_negative("item_memory", given.weight)
        memory = Memory.beside_vectors(data, weight, neighbours=neighbours, l2=given.l2)
        left_out = weight == 0 or (weight is None and data.fields is not None)
        return None if left_out else memory

    def fit_options(self) -> FitOptions:
        """Return the settings of the loop; with a falling rate it keeps the last epoch."""
        return replace(Looped.fit_options(self), keep_last=self.optimizer.schedule == "linear")

    def going_on(self) -> Self:
        """Return the system with the epochs and steps by which it goes on from an earlier model."""
        share = not_negative("warm_start__rate", self.warm_start.rate)
        return self.changed(
            epochs=at_least("warm_start__epochs", self.warm_start.epochs, 1),
            learning_rate=share * self.step()[1],
            optimizer__schedule="linear",
        )

    def require_goes_on(self) -> None:
        """Raise if training cannot go on from an earlier model."""
        some = Interactions.from_arrays(["a", "a", "b", "c"], ["i", "j", "j", "k"])
        try:
            further.tables_of(self.compose(some, seed=0, start=False))
        except DataError:  # what it needs of the data is not known yet
            return

    def check_settings(self) -> None:
        """Raise if the parts do not go together or a setting is out of range, before data is read.

        The system is composed for a few made-up rows. What it needs of the data is not known yet,
        so a lack of features or of times is no fault here.
        """
        some = Interactions.from_arrays(["a", "a", "b", "c"], ["i", "j", "j", "k"])
        require_memory(self.system_name, self.least_bytes(some), CPU)
        try:
            self.compose(some, seed=0)
            self.beside(some)
        except DataError:
            return

    def step(self) -> tuple[str, float]:
        """Return the optimiser that takes the steps, with its learning rate."""
        return self.optimizer.name, self.learning_rate

    def penalty(self, data: Interactions) -> float:
        """Return λ, which weighs the discriminator's penalty."""
        return not_negative("l2", self.decided(data).get("l2", getattr(self, "l2", 0.0)))

    def least_bytes(self, data: Interactions) -> int:
        """Count the bytes of tables, of their gradients' sums and of one batch.

        Tables have D numbers a context and item, and where there is a generator K more; a batch
        has an index, a score and a probability for each negative.
        """
        settled = self.settled(data)
        width = at_least("dim", settled.dim, 1) + settled.n_states()
        rows = min(at_least("batch_size", settled.batch_size, 1), len(data))
        shared = at_least("sampler__positives_per_visit", settled.sampler.positives_per_visit, 1)
        drawn = -(-rows // shared) * at_least("n_negatives", settled.n_negatives, 1)
        return 2 * 4 * (data.n_users + data.n_items) * width + 16 * drawn

    def n_states(self) -> int:
        """Return the number K of states of the generator; 0 without one."""
        return 0

    def require_composable(self, data: Interactions) -> None:
        """Raise if negatives should come from dislikes and there are none."""
        if self.sampler.dislikes:
            require_dislikes(data)
