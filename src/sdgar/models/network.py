"""Networks by name, so that a saved one can be made again without any code in its file.

MODULES["name"](n_users, n_items, **settings).load_state_dict(tensors)
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from sdgar.errors import ArtifactError, UsageError
from sdgar.models.bounded import no_larger_than
from sdgar.models.fold_in import NewContexts, Rule
from sdgar.models.model import Side
from sdgar.models.networks.sequence import SequenceEncoder
from sdgar.models.pairs import picked
from sdgar.models.reasons import Shares
from sdgar.models.saved import Saved, require_finite
from sdgar.storage.folders import DamagedError, Tensors

if TYPE_CHECKING:
    from typing import Self

MODULES: dict[str, type[nn.Module]] = {"sequence": SequenceEncoder}
"""The classes of networks by the names that saved models have for them."""


@dataclass(frozen=True, slots=True)
class Network:
    """A module, and what it takes to make it again."""

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
    def device(self) -> torch.device:
        """Where the parameters live."""
        return next(self.module.parameters()).device

    def tensors(self) -> dict[str, Tensor]:
        """Give parameters and buffers by name."""
        return {name: tensor.detach() for name, tensor in self.module.state_dict().items()}

    def with_tensors(self, named: Mapping[str, Tensor]) -> Self:
        """Give the same network with other parameters, which do not change with this one's."""
        module = deepcopy(self.module)
        module.load_state_dict(named)
        return replace(self, module=module)

    def copied(self) -> Self:
        """Give the network as it is now, whatever becomes of the module."""
        return self.with_tensors(self.tensors())

    def answer(self) -> Tensor:
        """Give some numbers that depend on everything that is asked of the network."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """Say which network it is."""
        said = {"name": self.name, "settings": dict(self.settings), "users": self.n_users}
        return {"module": said}

    def to_saved(self) -> Tensors:
        """Give the arrays that a saved network holds."""
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
class ModuleScores(Network):
    """s_u = module.score_all(u), of a network that has no vectors."""

    kind: ClassVar[str] = "module"
    holds: ClassVar[str] = "a network"
    size_names: ClassVar[tuple[str, ...]] = ()

    only_T: Tensor | None = None
    """The numbers of the contexts that are asked about; None if they are all contexts."""

    @property
    def rule(self) -> Rule | None:
        """How new contexts are folded in; None, as the network has no vectors to find."""
        return None

    @property
    def n_values(self) -> int | None:
        """Number of values of all fields of contexts; None, as contexts are no sums of fields."""
        return None

    @torch.no_grad()
    def score_all(self, users_B: Tensor) -> Tensor:
        """s_BI of the whole catalogue."""
        self.module.eval()
        if self.only_T is not None:
            users_B = self.only_T.to(users_B.device)[users_B]
        scores_BI: Tensor = self.module.score_all(users_B)  # type: ignore[operator]
        return scores_BI

    def score_pairs(self, users_P: Tensor, items_P: Tensor) -> Tensor:
        """s_P of each pair."""
        return picked(self, users_P, items_P)

    def shares(self, context: int, items_B: Tensor, history_H: Tensor) -> Shares | None:
        """Give nothing: what a network has looked at is not known."""
        return None

    def ruled_by(self, rule: Rule | None) -> Self:
        """Give the same model: no rule is of use to it."""
        return self

    def fold_in(self, new: NewContexts) -> Self:
        """Fail: the model has no rule."""
        raise NotImplementedError

    def updated(self, at_U: Tensor, own: NewContexts) -> Self:
        """Give the same model: histories play no part in its scores, and nobody can be new."""
        return self

    def only(self, at_T: Tensor, place_TF: Tensor | None = None) -> Self:
        """Give the model with these contexts alone, by their numbers."""
        return replace(self, only_T=at_T if self.only_T is None else self.only_T[at_T])

    def alike(self, side: Side) -> None:
        """Give nothing: there are no vectors to compare."""
        return

    def sizes(self) -> dict[str, int]:
        """Give the sizes of ``size_names``."""
        return {}

    def answer(self) -> Tensor:
        """Give the scores of the first contexts."""
        return self.score_all(torch.arange(min(5, self.n_users)))


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
        """Give the vectors of two contexts that have the first items."""
        items_E = torch.arange(min(5, self.n_items))
        return self.fold_in(torch.tensor([0, 1, len(items_E)]), items_E)


Kind = TypeVar("Kind", bound=Network)


def require_comes_back(network: Network) -> None:
    """Raise if a network would rank differently once it is saved and made again.

    This is asked before it trains: what ``prepare`` takes from the data is gone by then.
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
            "since the model was saved, train the model again. In a class of your own, what is "
            "saved must have its shape when the class is made, before prepare().",
            code="module_mismatch",
        ) from error
    return kind(module, *size, name, dict(settings))
