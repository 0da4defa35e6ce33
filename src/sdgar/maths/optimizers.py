"""Optimisers as records: the eager engine builds torch's from them, kernels read their fields."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar, cast

import torch
from torch import Tensor

from sdgar.arguments import one_of
from sdgar.errors import UsageError


@dataclass(frozen=True, slots=True)
class Optimizer:
    """A rule for steps, with its learning rate."""

    learning_rate: float
    """The learning rate η."""
    horizon: int | None = field(default=None, kw_only=True)
    """The number of epochs E over which the rate falls to nothing; None if it stays as it is."""
    row_wise: ClassVar[bool] = False
    """Whether only the rows move that a batch touches."""

    def __post_init__(self) -> None:
        """Raise if the rate cannot train."""
        if not 0 < self.learning_rate < float("inf"):
            raise UsageError(
                f"learning_rate must be a positive number, got {self.learning_rate}.",
                code="bad_learning_rate",
            )

    def rate(self, epoch: int) -> float:
        """η_e = η (1 - (e - 1/2) / E) with a horizon E, and that of epoch E from there on."""
        if self.horizon is None:
            return self.learning_rate
        return self.learning_rate * (1 - (min(epoch, self.horizon) - 0.5) / self.horizon)


@dataclass(frozen=True, slots=True)
class Adam(Optimizer):
    """m ← β₁m + (1-β₁)g, v ← β₂v + (1-β₂)g², θ ← θ - η m̂/(√v̂ + ε)  (Kingma & Ba 2015).

    Dense: rows a batch does not touch still move by their momentum, as in the authors' code.
    """

    beta1: float = 0.9
    """The decay β₁ of the first moment."""
    beta2: float = 0.999
    """The decay β₂ of the second moment."""
    epsilon: float = 1e-8
    """The number ε that keeps a step finite."""


@dataclass(frozen=True, slots=True)
class SGD(Optimizer):
    """θ ← θ - η g."""


@dataclass(frozen=True, slots=True)
class LazyAdam(Adam):
    """Adam on the rows that a batch touches; all other rows, and their moments, rest.

    A row that was not touched for many steps continues with the moments it had: they decay by
    touch, not by step. The bias correction counts all steps, as in torch's SparseAdam. An
    epoch costs what it touches, where dense Adam costs steps × rows.
    """

    row_wise: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class RowAdagrad(Optimizer):
    """a ← a + mean_d g_d², θ ← θ - η g/(√a + ε): one number of state a row, touched rows only."""

    row_wise: ClassVar[bool] = True

    epsilon: float = 1e-8
    """The number ε that keeps a step finite."""


_Torch = TypeVar("_Torch", bound=torch.optim.Optimizer)
_HIDDEN = ("add_param_group", "zero_grad", "state_dict", "load_state_dict", "step")
"""The methods of an optimiser that torch hides from its compiler."""


def lean(kind: type[_Torch]) -> type[_Torch]:
    """Return a class of torch's optimisers that takes the same steps without torch's compiler.

    Torch hides some methods from its compiler, which it imports for that when one is first called.
    The import takes seconds, and nothing here is compiled by it.
    """
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in _HIDDEN}
    methods["step"] = torch.no_grad()(methods["step"])  # which torch does while it hides it
    return cast("type[_Torch]", type(kind.__name__, (kind,), methods))


def moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of a torch optimiser under flat names such as 0.exp_avg."""
    state = optimizer.state_dict()["state"]
    return {f"{i}.{name}": value for i, of_one in state.items() for name, value in of_one.items()}


def take_moments(optimizer: torch.optim.Optimizer, flat: Mapping[str, Tensor]) -> None:
    """Restore the state that ``moments`` returned."""
    state: dict[int, dict[str, Tensor]] = {}
    for flat_name, value in flat.items():
        index, _, name = flat_name.partition(".")
        # Steps are taken in place, and must not reach what was given.
        state.setdefault(int(index), {})[name] = value.clone()
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


OPTIMIZERS: dict[str, type[Optimizer]] = {
    "adagrad": RowAdagrad,
    "lazy-adam": LazyAdam,
    "adam": Adam,
    "sgd": SGD,
}


def make_optimizer(name: str, learning_rate: float, horizon: int | None = None) -> Optimizer:
    """Return the optimiser of that name."""
    one_of("optimizer", name, tuple(OPTIMIZERS))
    return OPTIMIZERS[name](learning_rate, horizon=horizon)
