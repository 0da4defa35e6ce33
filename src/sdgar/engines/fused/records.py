"""Records that the GPU kernels read, and tables that the CPU kernels read."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sdgar.machine.memory import aligned, is_aligned

THETA_LIMIT = 64.0
"""The size beyond which a parameter has diverged; integer sums of gradients are scaled by it."""


class Pick(NamedTuple):
    """A rule that chooses negatives among uniform candidates, by their scores."""

    kind: Any
    """The kind of the rule, a constant of ``kernels/triton/picks.py``."""
    candidates: int
    """How many candidates are drawn for each negative."""
    margin: float = 0.0
    """The least by which a positive should lead."""


class Draw(NamedTuple):
    """A sampler: its kind, and the tables that it draws from."""

    kind: Any
    """The kind of the sampler, a constant of ``kernels/triton/draws.py``."""
    n_states: int = 1
    """The number of states, or of factors, of a context."""
    state_bins: Tensor | None = None
    """The alias tables from which a context draws a state, or a factor."""
    item_bins: Tensor | None = None
    """The alias tables from which a state draws an item, or all contexts an item or a rank."""
    order_KI: Tensor | None = None
    """The items, sorted by each factor."""
    downward_UK: Tensor | None = None
    """Whether a context counts a factor's items from the first one."""
    x_UK: Tensor | None = None
    """The probabilities P(k | c) of the states."""
    y_IK: Tensor | None = None
    """The probabilities P(i | k) of the items of a state."""
    log_q_I: Tensor | None = None
    """The values log Q(i), if they are the same for all contexts."""
    same_q: bool = False
    """Whether all negatives of a context have the same Q, which weights cancel."""
    pick: Pick | None = None
    """The rule by which a step chooses among what was drawn; None if it takes all of it."""

    @property
    def candidates(self) -> int:
        """The number of draws for each negative."""
        return 1 if self.pick is None else self.pick.candidates


class Scores(NamedTuple):
    """A discriminator, as the kernels read it."""

    kind: Any
    """The kind of score, a constant of ``kernels/triton/scores.py``."""
    tau: float = 1.0
    """The temperature τ of cosines."""
    steepest: float = THETA_LIMIT
    """The most that a score's derivative by one parameter may be."""


class Loss(NamedTuple):
    """An objective, as the kernels read it."""

    kind: Any
    """The kind of loss, a constant of ``kernels/triton/losses.py``."""
    temperature: float = 1.0
    """The temperature T of weights."""
    margin: float = 0.0
    """The least by which a positive should lead."""
    rho: float = 1.0
    """The temperature ρ of positives."""
    n_items: int = 1
    """The number of items that ranks are estimated for."""
    hold: bool = False
    """Whether weights are constants for the gradient."""
    slope_limit: float = 1.0
    """The most that Σ_j |∂l/∂s_j| may be."""
    needs_q: bool = False
    """Whether the loss reads log Q(j | c)."""
    needs_same_q: bool = False
    """Whether the loss reads log Q even where it is the same for all negatives of a context."""


class Step(NamedTuple):
    """An optimiser, as the kernels read it."""

    kind: Any
    """The kind of step, a constant of ``kernels/triton/steps.py``."""
    beta1: float = 0.0
    """The decay of the first moment."""
    beta2: float = 0.0
    """The decay of the second moment."""
    epsilon: float = 0.0
    """The number ε in the denominator that keeps a step finite."""
    moments: tuple[str, ...] = ()
    """The moments that are kept of each parameter: first, second."""
    one_a_row: bool = False
    """Whether a row of parameters has one number of each moment, and not one for each."""


class DrawSettings(NamedTuple):
    """The first fields of every proposal on the CPU: negatives a visit, the seed, and the items."""

    n: int
    seed: np.uint64
    n_items: int


def lined_up(tensor: Tensor) -> NDArray[Any]:
    """Return the numbers of a constant tensor in memory that starts with a cache line.

    They are copied only if the tensor does not start there already.
    """
    array = tensor.numpy()
    if is_aligned(array):
        return array
    copy = aligned(array.shape, array.dtype)
    copy[...] = array
    return copy


def packed(parameter: Tensor, columns: int) -> NDArray[np.float32]:
    """Copy a parameter into column 0 of a table; the other columns are moments, and begin at 0."""
    rows = parameter.detach().numpy()
    table = aligned((len(rows), columns, *rows.shape[1:]))
    table[:, 0], table[:, 1:] = rows, 0
    return table


def all_minus_one(n: int) -> NDArray[np.int32]:
    """Allocate n integers of -1, which point to nothing."""
    table = aligned((n,), np.int32)
    table[:] = -1
    return table
