"""Named parts of systems: discriminators, samplers and objectives, with settings.

A part is a function of ``Ingredients`` and settings, or a class of networks. Decorators add custom
parts:

    @register_discriminator("mine")
    class Mine(torch.nn.Module): ...

This module imports no torch, so that ``sdgar train --help`` is quick.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from sdgar.errors import UsageError
from sdgar.registry import Registry

if TYPE_CHECKING:
    import torch

    from sdgar.contracts import Discriminator, Objective, Sampler
    from sdgar.data.interactions import Interactions

Part = TypeVar("Part", bound=Callable[..., Any])

DISCRIMINATORS: Registry[Callable[..., Any]] = Registry(
    "discriminator",
    {
        "factorization": "sdgar.discriminators.factorization:factorization",
        "cosine": "sdgar.discriminators.bounded:cosine",
        "metric": "sdgar.discriminators.bounded:metric",
        "lightgcn": "sdgar.discriminators.lightgcn:LightGCN",
        "two-tower": "sdgar.discriminators.two_tower:TwoTower",
        "sequence": "sdgar.discriminators.sequence:Sequence",
    },
)
"""The classes of networks, made by (n_users, n_items, **settings), and functions of
``Ingredients``, by name."""
SAMPLERS: Registry[Callable[..., Sampler]] = Registry(
    "sampler",
    {
        "uniform": "sdgar.samplers.static:uniform",
        "popularity": "sdgar.samplers.static:popularity",
        "popularity-mix": "sdgar.samplers.static:popularity_mix",
        "decomposable": "sdgar.samplers.decomposable:decomposable",
        "adaptive": "sdgar.samplers.rank_by_factor:adaptive",
        "hardest": "sdgar.samplers.score_aware:hardest",
        "first-violation": "sdgar.samplers.score_aware:first_violation",
        "search": "sdgar.samplers.nearest_items:search",
    },
)
"""The functions of ``Ingredients`` and settings that make a sampler, by name."""
OBJECTIVES: Registry[Callable[..., Objective]] = Registry(
    "objective",
    {
        name: f"sdgar.objectives:{name}"
        for name in ("bpr", "logistic", "sdgar", "sdsoftmax", "warp", "cml")
    },
)
"""The functions of ``Ingredients`` and settings that make an objective, by name."""
KINDS: dict[str, Registry[Any]] = {
    "discriminator": DISCRIMINATORS,
    "sampler": SAMPLERS,
    "objective": OBJECTIVES,
}
"""The registers, by what they register."""
_PLAIN = (bool, int, float, str)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Ingredients:
    """The ingredients that a part is made from: data, seed, device and the parts made before it."""

    data: Interactions
    """The training rows."""
    seed: int
    """The seed of everything that is drawn."""
    device: torch.device
    """The device that the part computes on."""
    dim: int
    """The size D of vectors."""
    row_wise: bool
    """Whether the optimiser moves only the rows that a batch touches."""
    start: bool = True
    """Whether parts are brought to where training starts; not if a trained state follows."""
    discriminator: Discriminator | None = None
    """The discriminator; None until it has been made. It is made first, the sampler last."""
    objective: Objective | None = None
    """The objective; None until it has been made. It is made before the sampler."""


def is_module(part: Callable[..., Any]) -> bool:
    """Return whether a part is a class of networks, and not a function."""
    from torch import nn

    return isinstance(part, type) and issubclass(part, nn.Module)


def register_discriminator(name: str) -> Callable[[Part], Part]:
    """Register a class of networks under a name; it is called with (n_users, n_items, *, settings).

    >>> import torch
    >>> @sdgar.register_discriminator("same-for-all")
    ... class SameForAll(torch.nn.Module):
    ...     def __init__(self, n_users, n_items):
    ...         super().__init__()
    ...         self.n_users, self.item = n_users, torch.nn.Parameter(torch.zeros(n_items, 1))
    ...
    ...     def score(self, users_B, items_BN):
    ...         return self.item[items_BN, 0]
    ...
    ...     def vectors(self):
    ...         return torch.ones(self.n_users, 1), self.item, torch.zeros(len(self.item))
    >>> parts = {"discriminator": "same-for-all", "sampler": "uniform", "objective": "bpr"}
    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.Composed(**parts, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    def register(part: Part) -> Part:
        from sdgar.models.network import MODULES

        DISCRIMINATORS.add(name, part)
        if is_module(part):
            MODULES[name] = part  # type: ignore[assignment]
        return part

    return register


def register_sampler(name: str) -> Callable[[Part], Part]:
    """Register a sampler under a name: a function of ``Ingredients`` and keyword settings.

    >>> from sdgar.samplers.static import Uniform
    >>> @sdgar.register_sampler("my-uniform")
    ... def my_uniform(given):
    ...     return Uniform()
    >>> model = sdgar.Composed(sampler="my-uniform")
    """

    def register(part: Part) -> Part:
        SAMPLERS.add(name, part)
        return part

    return register


def register_objective(name: str) -> Callable[[Part], Part]:
    """Register an objective under a name: a function of ``Ingredients`` and keyword settings.

    >>> from sdgar.objectives import SampledSoftmax
    >>> @sdgar.register_objective("my-softmax")
    ... def my_softmax(given, *, rho: float = 0.9):
    ...     return SampledSoftmax(rho)
    >>> model = sdgar.Composed(objective="my-softmax", objective__rho=0.8)
    """

    def register(part: Part) -> Part:
        OBJECTIVES.add(name, part)
        return part

    return register


def settings_of(kind: str, name: str) -> dict[str, type]:
    """Return the settings of a part and their types."""
    part = KINDS[kind][name]
    given = 2 if is_module(part) else 1  # (n_users, n_items), or the ingredients
    parameters = list(inspect.signature(part).parameters.values())[given:]
    return {p.name: _type(p) for p in parameters if p.kind not in _VARIADIC}


def _type(parameter: inspect.Parameter) -> type:
    """Return the type of a setting: as annotated, without None, or as that of its default."""
    annotated = re.findall(r"\w+", str(parameter.annotation))
    for kind in _PLAIN:
        if kind.__name__ in annotated:
            return kind
    return type(parameter.default) if type(parameter.default) in _PLAIN else str


def checked(setting: str, value: Any, kind: type) -> Any:
    """Return the value as plain Python; raise if it is of the wrong type."""
    from sdgar.data.ids import plain

    found = plain(value)
    fits = isinstance(found, (int, float) if kind is float else kind)
    if found is not None and (not fits or (isinstance(found, bool) and kind is not bool)):
        raise UsageError(
            f"{setting} must be of type {kind.__name__}, got {value!r}.", code="bad_setting"
        )
    return found
