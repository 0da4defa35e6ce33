"""The registers of parts: each part is a function or a class with settings, known by a name.

A decorator adds custom parts:

    @register_discriminator("mine")
    class Mine(torch.nn.Module): ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast, get_args, get_type_hints

import torch
from torch import nn

from sdgar.contracts import Discriminator, Objective, Sampler
from sdgar.data.ids import plain
from sdgar.data.interactions import Interactions
from sdgar.errors import UsageError
from sdgar.models.network import MODULES

Part = TypeVar("Part", bound=Callable[..., Any])

DISCRIMINATORS: dict[str, Callable[..., Any]] = {}
"""The classes of networks, made by (n_users, n_items, **settings), and functions of
``Ingredients``, by name."""
SAMPLERS: dict[str, Callable[..., Sampler]] = {}
"""The functions of ``Ingredients`` and settings that make a sampler, by name."""
OBJECTIVES: dict[str, Callable[..., Objective]] = {}
"""The functions of ``Ingredients`` and settings that make an objective, by name."""
KINDS = {"discriminator": DISCRIMINATORS, "sampler": SAMPLERS, "objective": OBJECTIVES}
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
    register = _registrar(DISCRIMINATORS, "discriminator", name)

    def both(part: Part) -> Part:
        register(part)
        if is_module(part):
            MODULES[name] = part  # type: ignore[assignment]
        return part

    return both


def register_sampler(name: str) -> Callable[[Part], Part]:
    """Register a sampler under a name: a function of ``Ingredients`` and keyword settings.

    >>> from sdgar.samplers.static import Uniform
    >>> @sdgar.register_sampler("my-uniform")
    ... def my_uniform(given):
    ...     return Uniform()
    >>> model = sdgar.Composed(sampler="my-uniform")
    """
    return _registrar(SAMPLERS, "sampler", name)


def register_objective(name: str) -> Callable[[Part], Part]:
    """Register an objective under a name: a function of ``Ingredients`` and keyword settings.

    >>> from sdgar.objectives import SampledSoftmax
    >>> @sdgar.register_objective("my-softmax")
    ... def my_softmax(given, *, rho: float = 0.9):
    ...     return SampledSoftmax(rho)
    >>> model = sdgar.Composed(objective="my-softmax", objective__rho=0.8)
    """
    return _registrar(OBJECTIVES, "objective", name)


def _registrar(known: dict[str, Any], what: str, name: str) -> Callable[[Part], Part]:
    def register(part: Part) -> Part:
        # The same definition may come again: a cell of a notebook is run twice.
        if name in known and _origin(known[name]) != _origin(part):
            raise UsageError(f"there is a {what} {name!r} already. Choose another name.")
        known[name] = part
        return part

    return register


def _origin(part: Any) -> tuple[str, str]:
    return part.__module__, part.__qualname__


def settings_of(kind: str, name: str) -> dict[str, type]:
    """Return the settings of a part and their types."""
    part = KINDS[kind][name]
    types = get_type_hints(cast("Any", part).__init__ if is_module(part) else part)
    given = 2 if is_module(part) else 1  # (n_users, n_items), or the ingredients
    parameters = list(inspect.signature(part).parameters.values())[given:]
    return {p.name: _type(p, types) for p in parameters if p.kind not in _VARIADIC}


def _type(parameter: inspect.Parameter, types: Mapping[str, Any]) -> type:
    """Return the type of a setting: as annotated, without None, or as that of its default."""
    hint = types.get(parameter.name)
    for kind in _PLAIN:
        if kind in (get_args(hint) or (hint,)):
            return kind
    return type(parameter.default) if type(parameter.default) in _PLAIN else str


def checked(setting: str, value: Any, kind: type) -> Any:
    """Return the value as plain Python; raise if it is of the wrong type."""
    found = plain(value)
    fits = isinstance(found, (int, float) if kind is float else kind)
    if found is not None and (not fits or (isinstance(found, bool) and kind is not bool)):
        raise UsageError(
            f"{setting} must be of type {kind.__name__}, got {value!r}.", code="bad_setting"
        )
    return found
