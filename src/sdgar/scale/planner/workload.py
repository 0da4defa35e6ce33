"""What is trained: the sizes of the data, and the settings that decide how much work there is."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from sdgar.scale.sharded import FEW, START_ROWS, VALID_SHARE
from sdgar.settings import TEST_USERS, TOGETHER

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.scale.shards import Shards
    from sdgar.systems.learner import Learner

ROWS_OF_A_SHARD = 1_000_000
"""The rows of a shard, if nobody asks for another number of shards."""
_LONGEST = 40
"""The longest history that is counted, in units of the mean: others are one in 10¹⁷."""


def held_out(length_L: NDArray[Any], users_L: NDArray[Any] | None = None) -> float:
    """Return the mean number of validation rows of users with histories of these lengths.

    ``users_L`` says how many users have each length; without it, each stands for one. Rows are held
    out of users with two rows or more, one of them at least.
    """
    held_L = np.minimum(length_L - 1, np.maximum(1, np.rint(VALID_SHARE * length_L)))
    users_L = np.ones(len(length_L)) if users_L is None else users_L
    users_L = users_L * (length_L > 1)
    return float((users_L @ held_L) / users_L.sum()) if users_L.any() else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of the data, of a block of users, and of the rows that training starts on."""

    users: int
    """The number of users."""
    items: int
    """The number of items."""
    events: int
    """The number of rows."""
    shards: int
    """The number of shards."""
    together: int
    """The number of shards in a block."""
    block_users: int
    """The most users of a block of shards."""
    block_rows: int
    """The most rows of a block of shards."""
    visit_share: float
    """The number of visits in an epoch over the number of rows."""
    pairs: float
    """The number of pairs of rows of the same user, Σ_c |I_c|²."""
    row_bytes: int
    """The bytes of a row on disk: 4, and more with weights and times."""

    @classmethod
    def made_up(
        cls, users: int, items: int, events: int, *, positives: int, together: int = TOGETHER
    ) -> Sizes:
        """Return the sizes of data of which only numbers are known, with a time for each row.

        The number n of rows of a user is taken to be geometric with mean m: few users have many
        rows. Then E ⌈n / P⌉ = 1 / (1 - (1 - 1/m)^P) and E n² = 2 m² - m.
        """
        mean = max(1.0, events / users)
        shards = max(1, round(events / ROWS_OF_A_SHARD))
        share = min(1.0, together / shards)
        return cls(
            users=users,
            items=items,
            events=events,
            shards=shards,
            together=together,
            block_users=ceil(share * users),
            block_rows=ceil(share * events),
            visit_share=1 / (1 - (1 - 1 / mean) ** positives) / mean,
            pairs=users * (2 * mean**2 - mean),
            row_bytes=12,
        )

    @classmethod
    def of(cls, shards: Shards, together: int, *, positives: int) -> Sizes:
        """Return the sizes of shards; how long histories are is looked up in the first of them."""
        starts = np.arange(0, shards.n_shards, together)
        length_U = np.diff(shards[0].indptr_U1).astype(np.float64)
        scale = shards.n_rows / max(1.0, float(length_U.sum()))
        return cls(
            users=shards.n_users,
            items=shards.n_items,
            events=shards.n_rows,
            shards=shards.n_shards,
            together=together,
            block_users=int(np.add.reduceat(np.diff(shards.start_S1), starts).max()),
            block_rows=int(np.add.reduceat(shards.rows_S, starts).max()),
            visit_share=float(np.ceil(length_U / positives).sum() / max(1.0, length_U.sum())),
            pairs=scale * float((length_U**2).sum()),
            row_bytes=4 + 4 * shards.has_weights + 8 * shards.has_times,
        )

    @property
    def start_rows(self) -> int:
        """The number of rows that vectors and states are started on, which is at least a shard."""
        return min(self.events, max(START_ROWS, ceil(self.events / self.shards)))

    @property
    def start_users(self) -> int:
        """The number of users of these rows."""
        return ceil(self.users * self.start_rows / self.events)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The settings of a system that decide how much work there is."""

    dim: int
    """The number D of coordinates of a vector."""
    states: int
    """The number K of states of the generator; 0 without one."""
    positives: int
    """The most positives P of a visit."""
    negatives: int
    """The negatives N of a visit."""
    batch: int
    """The positives of a step."""
    epochs: int
    """The most epochs of a pass."""
    passes: int
    """The passes that are made: one that goes on with all rows, or two."""
    sweeps: int
    """The sweeps of least squares that vectors start from."""
    pretrain: int
    """The steps of EM by which the generator learns latent classes."""
    samples: int
    """The draws for each context and item when the generator follows the scores."""
    refit_every: int
    """The epochs between two refits; 0 without a generator."""
    neighbours: int
    """The neighbours k of an item in the memory; 0 without a memory."""
    looks: int
    """The looks at validation rows."""
    valid_users: int
    """The users whose validation rows are looked at."""
    test_users: int = TEST_USERS
    """The users whose test rows are measured."""

    @classmethod
    def of(
        cls, estimator: Learner, sizes: Any, held: float, test_users: int = TEST_USERS
    ) -> Recipe:
        """Return the settings of a system for data of these sizes, whatever a rule decides.

        So many rows of a validation user are held out, on average.
        """
        data = cast("Interactions", sizes)
        settled = estimator.settled(data)
        options = settled.fit_options()
        few = options.valid_users * held <= FEW * len(data)
        joined = options.keep_last and (options.epochs > 1 or few)
        memory = settled.beside(data)
        return cls(
            dim=int(settled.dim),
            states=settled.n_states(),
            positives=settled.positives_per_visit,
            negatives=settled.n_negatives,
            batch=settled.batch_size,
            epochs=options.epochs,
            passes=1 if joined else 2,
            sweeps=int(getattr(settled, "sweeps", 0)),
            pretrain=int(getattr(settled, "pretrain", 0)),
            samples=int(getattr(settled, "generator_samples", 0)),
            refit_every=int(getattr(settled, "refit_every", 0)),
            neighbours=0 if memory is None else memory.neighbourhoods.k,
            looks=-(-(options.half if joined else options.epochs) // options.evaluate_every),
            valid_users=options.valid_users,
            test_users=test_users,
        )

    @property
    def all_epochs(self) -> int:
        """The epochs of all passes."""
        return self.epochs * self.passes

    @property
    def refits(self) -> int:
        """The refits of all passes that follow the scores; the first of each learns positives."""
        if not self.refit_every:
            return 0
        each = -(-self.epochs // self.refit_every)
        return self.passes * (each - (1 if self.pretrain else 0))


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of users, items and rows, which is all that the rules for settings look at."""

    n_users: int
    """The number of users."""
    n_items: int
    """The number of items."""
    n_rows: int
    """The number of rows."""
    fields: None = None
    """The fields of contexts; None, as a context is a user here."""

    def __len__(self) -> int:
        """Return the number of rows, or the largest length that there can be."""
        return min(self.n_rows, sys.maxsize)


@dataclass(frozen=True, slots=True)
class Workload:
    """What is trained: data of some sizes, by a system with some settings."""

    sizes: Sizes
    """The sizes of the data."""
    recipe: Recipe
    """The settings of the system."""

    @classmethod
    def made_up(
        cls, estimator: Learner, users: int, items: int, events: int, *, together: int = TOGETHER
    ) -> Workload:
        """Return the training of a system on data of which only numbers are known."""
        mean = max(1.0, events / users)
        length_L = np.arange(1.0, _LONGEST * mean + 2)
        held = held_out(length_L, (1 - 1 / mean) ** (length_L - 1))
        recipe = Recipe.of(estimator, Counts(users, items, events), held)
        sizes = Sizes.made_up(users, items, events, positives=recipe.positives, together=together)
        return cls(sizes, recipe)

    @classmethod
    def of(
        cls, estimator: Learner, shards: Shards, together: int, test_users: int = TEST_USERS
    ) -> Workload:
        """Return the training of a system on shards."""
        held = held_out(np.diff(shards[0].indptr_U1))
        recipe = Recipe.of(estimator, shards, held, test_users)
        return cls(Sizes.of(shards, together, positives=recipe.positives), recipe)

    def for_workers(self, count: int) -> Workload:
        """Return the same training with blocks that have a shard for each of so many workers."""
        sizes = self.sizes
        if count <= sizes.together:
            return self
        share = min(1.0, count / sizes.shards)
        blocks = {
            "block_users": ceil(share * sizes.users),
            "block_rows": ceil(share * sizes.events),
        }
        return replace(self, sizes=replace(sizes, together=count, **blocks))

    @property
    def visits(self) -> float:
        """The number of visits in an epoch."""
        return self.sizes.visit_share * self.sizes.events

    @property
    def entries(self) -> float:
        """The pairs of a visit and an item in an epoch: all positives, and N for each visit."""
        return self.sizes.events + self.recipe.negatives * self.visits

    @property
    def visits_per_step(self) -> float:
        """The number of visits of a step."""
        return min(self.visits, max(1, self.recipe.batch // self.recipe.positives))

    @property
    def steps(self) -> float:
        """The number of steps in an epoch."""
        return self.visits / self.visits_per_step
