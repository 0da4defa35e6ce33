"""The protocols of a decomposable generator and of the update that moves it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Protocol

from torch import Tensor

from sdgar.contracts import Score
from sdgar.maths.rng import Draws
from sdgar.samplers.alias import AliasTables
from sdgar.scale.workers import Workers


class Mixture(Protocol):
    """Q(i | c) = Σ_k x_ck y_ik, drawn from by alias tables."""

    items_follow: bool
    """Whether an update moves Y too, or X alone."""
    workers: Workers
    """The processes that compute an update together; the first one moves Y."""
    apart: ClassVar[bool]
    """Whether each process has the items of its own alone; if not, it has all of them."""

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

    def own_items(self) -> Tensor:
        """Return the numbers of the items whose rows Y has, from where draws may have left it."""
        ...

    def move_y(self, rule: Callable[[Tensor, Tensor], Tensor], log_d_IK: Tensor) -> None:
        """Set Y to what a rule makes of Y and d, column by column."""
        ...

    def deal_x(self, other_U: Tensor) -> None:
        """Give context u the states of context ``other_U[u]``."""
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
