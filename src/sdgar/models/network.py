"""Models that are networks of torch, saved by the name of their class, without any code.

MODULES["name"](n_users, n_items, **settings).load_state_dict(tensors)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from sdgar.errors import ArtifactError, DataError, UsageError
from sdgar.models.factor_tensors import ENCODER
from sdgar.models.factors import Factors
from sdgar.models.fold_in import ByNetwork, FoldInRule, NewContexts
from sdgar.models.model import Floats, Indices, Model
from sdgar.models.saved import Saved, require_finite, under
from sdgar.models.sequence import SequenceEncoder
from sdgar.storage.sealed import DamagedError, Tensors

MODULES: dict[str, type[nn.Module]] = {"sequence": SequenceEncoder}
"""The classes of networks by their names in saved models."""
_MAKERS = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn)
"""The functions that make tensors of a size that settings may have chosen."""
_SPARE_PARAMETERS, _SPARE_NUMBERS = 100, 64 << 20
"""How much a network may make in addition to four times what is saved."""


@dataclass(frozen=True, slots=True)
class Network:
    """A module, and its class and settings."""

    module: nn.Module
    """The torch module."""
    n_users: int
    """The number of contexts it was made for; others may have been folded in since."""
    n_items: int
    """The number of items that the network was made for."""
    name: str = ""
    """The name of its class in ``MODULES``; a network without a name cannot be saved."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings that its class is made with."""

    @property
    def module_device(self) -> torch.device:
        """The device of the parameters."""
        return next(self.module.parameters()).device

    def tensors(self) -> dict[str, Tensor]:
        """Return parameters and buffers by name."""
        return {name: tensor.detach() for name, tensor in self.module.state_dict().items()}

    def with_tensors(self, named: Mapping[str, Tensor]) -> Self:
        """Return the same network with other parameters, which do not change with this one's."""
        module = deepcopy(self.module)
        module.load_state_dict(named)
        return replace(self, module=module)

    def copied(self) -> Self:
        """Return the network as it is now, whatever becomes of the module."""
        return self.with_tensors(self.tensors())

    def answer(self) -> Tensor:
        """Return some numbers that depend on everything that the network computes."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """Return which network it is."""
        said = {"name": self.name, "settings": dict(self.settings), "users": self.n_users}
        return {"module": said}

    def to_saved(self) -> Tensors:
        """Return the arrays that a saved network holds."""
        if not self.name:
            raise UsageError(
                "a network is saved by the name of its class, and this one has none. Register it "
                "with @sdgar.register_discriminator(NAME).",
                code="not_registered",
            )
        return {name: t.cpu().contiguous().numpy() for name, t in self.tensors().items()}

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Make the network again, of a class that is registered under its name."""
        match saved.about.get("module"):
            case {"name": str(name), "settings": dict(settings), "users": int(users)} if users >= 0:
                pass
            case _:
                raise DamagedError(saved.path, "nothing says which network it is")
        for label, tensor in saved.tensors.items():
            if tensor.dtype.kind == "f" and tensor.ndim:
                require_finite(saved.path, label, tensor)
        named = {label: torch.from_numpy(tensor) for label, tensor in saved.tensors.items()}
        return rebuilt(cls, name, settings, (users, saved.sizes["items"]), named)


@dataclass(frozen=True, slots=True)
class ModuleScores(Network, Model):
    """s_u = module.score_all(u), of a network that has no vectors."""

    kind: ClassVar[str] = "module"
    holds: ClassVar[str] = "a network"

    only_T: Indices | None = None
    """The indices of the contexts of this model in the network; None for all."""

    @torch.no_grad()
    def score_all(self, users_B: Indices) -> Floats:
        """s_BI of the whole catalogue."""
        self.module.eval()
        own_B = users_B if self.only_T is None else self.only_T[users_B]
        scores_BI: Tensor = self.module.score_all(torch.from_numpy(own_B).to(self.module_device))  # type: ignore[operator]
        return scores_BI.cpu().numpy()

    def updated(self, at_U: Indices, own: NewContexts) -> Self:
        """Return the same model: scores do not depend on histories, and contexts cannot be new."""
        return self

    def only(self, at_T: Indices, place_TF: Indices | None = None) -> Self:
        """Return the model with these contexts alone, by their numbers."""
        return replace(self, only_T=at_T if self.only_T is None else self.only_T[at_T])

    def model(self) -> Self:
        """Return the model itself, which stays a network."""
        return self

    def scorer(self) -> Self:
        """Return the model itself, which stays a network."""
        return self

    def answer(self) -> Tensor:
        """Return the scores of the first contexts."""
        return torch.from_numpy(self.score_all(np.arange(min(5, self.n_users))))


@dataclass(frozen=True, slots=True)
class Encoder(Network):
    """A network that finds the vector of a new context from its history."""

    @torch.no_grad()
    def fold_in(self, start_T1: Tensor, item_E: Tensor) -> Tensor:
        """h_TD of contexts that had item_E[start_T1[t] … start_T1[t + 1]], the last one last."""
        self.module.eval()
        h_TD: Tensor = self.module.fold_in(start_T1, item_E)  # type: ignore[operator]
        return h_TD

    def answer(self) -> Tensor:
        """Return the vectors of two contexts that have the first items."""
        items_E = torch.arange(min(5, self.n_items))
        return self.fold_in(torch.tensor([0, 1, len(items_E)]), items_E)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedFactors(Factors):
    """s_ui = h_u · v_i + b_i, where a network finds h_u from the history of u."""

    kind: ClassVar[str] = "factors, encoder"
    missing: ClassVar[tuple[str, ...]] = (
        "The network that finds the vector of a user from the order of a history is left out: the "
        "vectors are of the histories in training.",
    )

    encoder: Encoder
    """The network, which finds the vectors of new contexts too."""
    rule: FoldInRule | None = field(default_factory=ByNetwork)
    """The rule that the network finds the vector of a new context."""

    def ruled_by(self, rule: FoldInRule | None) -> Self:
        """Return the same model: its network is its rule."""
        return self

    def fold_in(self, new: NewContexts) -> EncodedFactors:
        """Return a model of the same items for new contexts, whose vectors the network finds."""
        if new.in_order_E is None:
            raise DataError(
                "this model uses the order of a history, and the rows of new users have no "
                "times. Name the column with --time-column, or give lists of items in their order.",
                code="no_time",
            )
        start_T1, item_E = (
            torch.from_numpy(one).to(self.encoder.module_device)
            for one in (new.history.indptr_U1, new.in_order_E)
        )
        return replace(self, user_UD=self.encoder.fold_in(start_T1, item_E).cpu().numpy())

    def facts(self) -> dict[str, Any]:
        """Return the name and the settings of the network."""
        return self.encoder.facts()

    def to_saved(self) -> Tensors:
        """Return the arrays that a saved model holds."""
        network = self.encoder.to_saved().items()
        return Factors.to_saved(self) | {ENCODER + name: a for name, a in network}

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Return the model of a saved folder, if the network's class is registered."""
        bare = under(ENCODER, saved.tensors)
        own = {n: a for n, a in saved.tensors.items() if not n.startswith(ENCODER)}
        vectors = Factors.from_saved(replace(saved, tensors=own))
        encoder = Encoder.from_saved(replace(saved, tensors=bare))
        return cls(vectors.user_UD, vectors.item_ID, vectors.bias_I, encoder=encoder)


Kind = TypeVar("Kind", bound=Network)


def require_comes_back(network: Network) -> None:
    """Raise if a network would rank differently once it is saved and made again.

    This is checked before it trains: what ``prepare`` takes from the data is gone by then.
    """
    again = rebuilt(
        type(network), network.name, network.settings, (network.n_users, network.n_items),
        network.tensors(),
    )  # fmt: skip
    if not torch.allclose(network.answer(), again.answer(), equal_nan=True):
        raise UsageError(
            f"network {network.name!r} would rank differently once it is saved and made again: "
            "prepare() sets something that ranking needs and that is no part of its state. Make it "
            "a buffer in __init__, of its final shape, and fill it in prepare().",
            code="does_not_come_back",
        )


def rebuilt(
    kind: type[Kind],
    name: str,
    settings: Mapping[str, Any],
    size: tuple[int, int],
    tensors: dict[str, Tensor],
) -> Kind:
    """Make a saved network again, of a class that is registered under its name."""
    if name not in MODULES:
        raise ArtifactError(
            f"the model is a network {name!r}, which is not registered. Import the module of yours "
            f"that has @sdgar.register_discriminator({name!r}), then load again; on the command "
            "line, `sdgar --import MODULE …` does that. Code is never loaded from a model.",
            code="unknown_module",
        )
    try:
        with torch.random.fork_rng([]), no_larger_than(tensors):
            module = MODULES[name](*size, **settings)
        module.load_state_dict(tensors)
    except Exception as error:  # the class may be anybody's, and the settings anything
        raise ArtifactError(
            f"the network does not fit the class that is registered as {name!r}: "
            f"{str(error).rstrip('. ') or type(error).__name__}. If the class has changed "
            "since the model was saved, train the model again. In a custom class, what is "
            "saved must have its shape when the class is made, before prepare().",
            code="module_mismatch",
        ) from error
    return kind(module, *size, name, dict(settings))


class _TooLargeError(Exception):
    """The settings make a network that cannot be the saved one."""


class _Bounded(TorchFunctionMode):
    """Add up the numbers that are requested, before there is RAM for them."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most, self._requested = most, 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in _MAKERS:
            size = (kwargs or {}).get("size", args[:1] if func is torch.full else args)
            sides = np.array(size, object).ravel().tolist()  # given one by one, or as a list
            self._requested += math.prod(n for n in sides if isinstance(n, int))
            if self._requested > self._most:
                raise _TooLargeError(
                    f"its settings need more than {self._most:,} numbers, which are not saved"
                )
        return func(*args, **(kwargs or {}))


@contextmanager
def no_larger_than(tensors: Mapping[str, Tensor]) -> Iterator[None]:
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
