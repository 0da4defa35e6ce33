"""Networks by name: what a saved one is made of again, without any code in the file.

MODULES["name"](n_users, n_items, **settings).load_state_dict(tensors)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from sdgar.errors import ArtifactError, UsageError

MODULES: dict[str, type[nn.Module]] = {}
"""Classes by the name under which they were registered."""
_SHIPPED = {"sequence": ("sdgar.discriminators.sequence", "Sequence")}
"""Those of the package that are saved whole; imported when a saved model needs one."""
_MAKERS = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn)
"""What makes tensors of a size that settings may have chosen."""
_SPARE_PARAMETERS, _SPARE_NUMBERS = 100, 64 << 20
"""What a network may make while it is made, beside four times what is saved."""


@dataclass(frozen=True, slots=True)
class Network:
    """A module, and what it takes to make it again."""

    module: nn.Module
    n_users: int
    """Contexts it was made for; others may have been folded in since."""
    n_items: int
    name: str = ""
    """Under which the class is registered; empty if it is not, and then it cannot be saved."""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        """Where the parameters live."""
        return next(self.module.parameters()).device

    def tensors(self) -> dict[str, Tensor]:
        """Parameters and buffers by name."""
        return {name: tensor.detach() for name, tensor in self.module.state_dict().items()}

    def with_tensors(self, named: Mapping[str, Tensor]) -> Self:
        """The same network with other parameters, which do not change with this one's."""
        module = deepcopy(self.module)
        module.load_state_dict(named)
        return replace(self, module=module)

    def copied(self) -> Self:
        """As it is now, whatever becomes of the module."""
        return self.with_tensors(self.tensors())


@dataclass(frozen=True, slots=True)
class ModuleScores(Network):
    """Scores of a network that has no vectors: s_u = module.score_all(u)."""

    only_T: Tensor | None = None
    """Contexts that are asked about, by their numbers; None: all of them."""

    @torch.no_grad()
    def score_all(self, users_B: Tensor) -> Tensor:
        """s_BI of the whole catalogue."""
        self.module.eval()
        if self.only_T is not None:
            users_B = self.only_T.to(users_B.device)[users_B]
        scores_BI: Tensor = self.module.score_all(users_B)  # type: ignore[operator]
        return scores_BI


@dataclass(frozen=True, slots=True)
class Encoder(Network):
    """A network that has vectors, and finds that of a new context from its history."""

    @torch.no_grad()
    def fold_in(self, start_T1: Tensor, item_E: Tensor) -> Tensor:
        """h_TD of contexts that had item_E[start_T1[t] … start_T1[t + 1]], the last one last."""
        self.module.eval()
        h_TD: Tensor = self.module.fold_in(start_T1, item_E)  # type: ignore[operator]
        return h_TD


Kind = TypeVar("Kind", bound=Network)


def require_comes_back(network: Network) -> None:
    """Refuse a network that would be another one once it is saved and made again.

    Asked before it trains: what ``prepare`` takes from the data is not there when it is loaded.
    """
    again = rebuilt(
        type(network), network.name, network.settings, (network.n_users, network.n_items),
        network.tensors(),
    )  # fmt: skip
    if not torch.allclose(_answer(network), _answer(again), equal_nan=True):
        raise UsageError(
            f"network {network.name!r} would rank differently once it is saved and made again: "
            "prepare() sets something that ranking needs and that is no part of its state. Make it "
            "a buffer in __init__, of its final shape, and fill it in prepare().",
            code="does_not_come_back",
        )


def _answer(network: Network) -> Tensor:
    if isinstance(network, Encoder):
        items_E = torch.arange(min(5, network.n_items))
        return network.fold_in(torch.tensor([0, 1, len(items_E)]), items_E)
    assert isinstance(network, ModuleScores)
    return network.score_all(torch.arange(min(5, network.n_users)))


def rebuilt(
    kind: type[Kind],
    name: str,
    settings: Mapping[str, Any],
    size: tuple[int, int],
    tensors: dict[str, Tensor],
) -> Kind:
    """A saved network, of a class that is registered under its name."""
    if name not in MODULES and name in _SHIPPED:
        home, class_name = _SHIPPED[name]
        MODULES[name] = getattr(import_module(home), class_name)
    if name not in MODULES:
        raise ArtifactError(
            f"the model is a network {name!r}, which is not registered. Import the module of yours "
            f"that has @sdgar.register_discriminator({name!r}), then load again; on the command "
            "line, `sdgar --import MODULE …` does that. Code is never loaded from a model.",
            code="unknown_module",
        )
    try:
        with torch.random.fork_rng([]), _no_larger_than(tensors):
            module = MODULES[name](*size, **settings)
        module.load_state_dict(tensors)
    except Exception as error:  # the class may be anybody's, and the settings anything
        raise ArtifactError(
            f"the network does not fit the class that is registered as {name!r}: "
            f"{str(error).rstrip('.') or type(error).__name__}. What is saved must have its shape "
            "when the class is made, before prepare().",
            code="module_mismatch",
        ) from error
    return kind(module, *size, name, dict(settings))


class _TooLargeError(Exception):
    """Settings ask for a network that cannot be the saved one."""


class _Bounded(TorchFunctionMode):
    """Adds up the numbers that are asked for, before there is memory for them."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most, self._asked = most, 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in _MAKERS:
            size = (kwargs or {}).get("size", args[:1] if func is torch.full else args)
            sides = np.array(size, object).ravel().tolist()  # given one by one, or as a list
            self._asked += math.prod(n for n in sides if isinstance(n, int))
            if self._asked > self._most:
                raise _TooLargeError(
                    f"its settings ask for more than {self._most:,} numbers, which are not saved"
                )
        return func(*args, **(kwargs or {}))


@contextmanager
def _no_larger_than(tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Refuse settings that ask for far more than is saved, while a network is made of them."""
    most, found = 4 * len(tensors) + _SPARE_PARAMETERS, 0

    def count(*_: object) -> None:
        nonlocal found
        found += 1
        if found > most:
            raise _TooLargeError(f"its settings ask for more than {most} parameters")

    hook = register_module_parameter_registration_hook(count)
    try:
        with _Bounded(4 * sum(tensor.numel() for tensor in tensors.values()) + _SPARE_NUMBERS):
            yield
    finally:
        hook.remove()
