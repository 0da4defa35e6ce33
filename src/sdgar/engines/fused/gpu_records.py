"""What the GPU's kernels read of the parts of a system.

``kind`` is one of the constants of a module of ``kernels/triton``; the defaults are for kinds that
do not read a field.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

THETA_LIMIT = 64.0
"""A parameter beyond it has diverged; the room for gradient sums is reckoned with it."""


class Pick(NamedTuple):
    """How negatives are chosen among uniform candidates, by their scores."""

    kind: Any
    candidates: int
    """Draws for each negative."""
    margin: float = 0.0
    """By how much a positive should lead."""


class Draw(NamedTuple):
    """A sampler: its kind, and the tables that it draws from."""

    kind: Any
    n_states: int = 1
    """States, or factors, of a context."""
    state_bins: Tensor | None = None
    """Alias tables from which a context draws a state, or a factor."""
    item_bins: Tensor | None = None
    """Alias tables from which a state draws an item, or all contexts an item or a rank."""
    order_KI: Tensor | None = None
    """The items, sorted by each factor."""
    downward_UK: Tensor | None = None
    """Whether a context counts a factor's items from the first one."""
    x_UK: Tensor | None = None
    """P(k | c) of the states."""
    y_IK: Tensor | None = None
    """P(i | k) of the items of a state."""
    log_q_I: Tensor | None = None
    """log Q(i), where it is the same for all contexts."""
    same_q: bool = False
    """Whether all negatives of a context have the same Q, which weights cancel."""
    pick: Pick | None = None
    """How a step chooses among what was drawn; None if it takes all of it."""

    @property
    def candidates(self) -> int:
        """Draws for each negative."""
        return 1 if self.pick is None else self.pick.candidates


class Scores(NamedTuple):
    """A discriminator."""

    kind: Any
    tau: float = 1.0
    """Temperature of cosines."""
    steepest: float = THETA_LIMIT
    """Most that a score's derivative by one parameter may be."""


class Loss(NamedTuple):
    """An objective."""

    kind: Any
    temperature: float = 1.0
    """T of weights."""
    margin: float = 0.0
    """By how much a positive should lead."""
    rho: float = 1.0
    """Temperature of positives."""
    n_items: int = 1
    """Items that ranks are estimated for."""
    hold: bool = False
    """Whether weights are constants for the gradient."""
    slope_limit: float = 1.0
    """Most that Σ_j |∂l/∂s_j| may be."""
    needs_q: bool = False
    """Whether the loss reads log Q(j | c)."""
    needs_same_q: bool = False
    """Whether it reads log Q even where that is the same for all negatives of a context."""


class Step(NamedTuple):
    """An optimizer."""

    kind: Any
    beta1: float = 0.0
    """Decay of the first moment."""
    beta2: float = 0.0
    """Decay of the second moment."""
    epsilon: float = 0.0
    """What keeps a step finite."""
    moments: tuple[str, ...] = ()
    """Which moments are kept beside the parameters: first, second."""
    one_a_row: bool = False
    """Whether a row of parameters has one number of each moment, and not one for each."""
