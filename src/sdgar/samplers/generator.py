"""The protocols of a decomposable generator, of its updates and of processes that share it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import torch
from torch import Tensor

from sdgar.maths.rng import Stream, sort_keys

if TYPE_CHECKING:
    from sdgar.contracts import Score
    from sdgar.maths.rng import Draws
    from sdgar.samplers.alias import AliasTables


class Exchange(Protocol):
    """How several processes divide the work of an update of the generator."""

    @property
    def leads(self) -> bool:
        """True in the one process that changes what belongs to items."""
        ...

    def own_chunks(self, count: int) -> range:
        """Return the numbers of the chunks that this process computes, of so many."""
        ...

    def collect(
        self, chunks: list[Tensor | None], shapes: Sequence[tuple[int, ...]]
    ) -> list[Tensor]:
        """Return the chunks of all processes, which have these shapes."""
        ...


class OneProcess:
    """The exchange of a process that computes everything by itself."""

    leads = True

    def own_chunks(self, count: int) -> range:
        """Return the numbers of all chunks."""
        return range(count)

    def collect(
        self, chunks: list[Tensor | None], shapes: Sequence[tuple[int, ...]]
    ) -> list[Tensor]:
        """Return the chunks, all of which were computed here."""
        return [chunk for chunk in chunks if chunk is not None]


class Mixture(Protocol):
    """Q(i | c) = Σ_k x_ck y_ik, drawn from by alias tables."""

    items_follow: bool
    """Whether an update moves Y too, or X alone."""
    exchange: Exchange
    """How the processes that compute an update together divide it."""

    @property
    def x_UK(self) -> Tensor:
        """P(k | c): the states of each context."""
        ...

    @property
    def y_IK(self) -> Tensor:
        """P(i | k): the items of each state."""
        ...

    @property
    def state_of(self) -> AliasTables:
        """The tables that states are drawn from, one for each context."""
        ...

    @property
    def item_of(self) -> AliasTables:
        """The tables that items are drawn from, one for each state."""
        ...

    def draw(self, users: Tensor, draws: Draws, slots: Tensor) -> Tensor:
        """Draw items from Q(. | c), one for each (row, slot)."""
        ...

    def log_q(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """log Q(i | c) = log Σ_k x_ck y_ik."""
        ...

    def set_x(self, weight_UK: Tensor) -> None:
        """Set the states of the contexts, in proportion to these weights."""
        ...

    def set_y(self, weight_IK: Tensor) -> None:
        """Set the items of the states, in proportion to these weights."""
        ...

    def permute_x(self, other_U: Tensor) -> None:
        """Set the states of context u to the states of context ``other_U[u]``."""
        ...


class Update(Protocol):
    """A rule by which a generator follows the scores of the discriminator."""

    @property
    def log_target(self) -> Callable[[Tensor], Tensor] | None:
        """log P(i | c) of a score, up to a constant of the context; None without a target."""
        ...

    def __call__(self, generator: Mixture, score: Score, *, seed: int, epoch: int) -> None:
        """Move the generator towards the scores."""
        ...


@dataclass(frozen=True, slots=True)
class Frozen:
    """The update that leaves the generator as it began, at random."""

    log_target: ClassVar[None] = None

    def __call__(self, generator: Mixture, score: Score, *, seed: int, epoch: int) -> None:
        """Leave the generator as it is."""


@dataclass(frozen=True, slots=True)
class Scrambled:
    """The update that gives every context the states of another one.

    This leaves what the generator is worth when it is fitted, but not to the context at hand.
    """

    update: Update
    """The update whose states are scrambled."""

    def log_target(self, s: Tensor) -> Tensor:
        """log P(i | c) of the update whose states are then scrambled."""
        assert self.update.log_target is not None
        return self.update.log_target(s)

    def __call__(self, generator: Mixture, score: Score, *, seed: int, epoch: int) -> None:
        """Update the generator, then deal the states to other contexts."""
        self.update(generator, score, seed=seed, epoch=epoch)
        rows = torch.arange(len(generator.x_UK), device=generator.x_UK.device)
        generator.permute_x(
            torch.argsort(sort_keys(seed, Stream.SCRAMBLE, epoch, rows), stable=True)
        )
