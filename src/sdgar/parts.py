"""Named parts of systems: discriminators, samplers and objectives, with settings.

A part is a function with settings, known by a name. Own parts are added by a decorator:

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

from sdgar.arguments import at_least
from sdgar.contracts import Discriminator, Objective, Sampler
from sdgar.data.ids import plain
from sdgar.data.interactions import Interactions
from sdgar.discriminators.cosine import Cosine
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.discriminators.lightgcn import LightGCN
from sdgar.discriminators.metric import Metric
from sdgar.discriminators.sequence import Sequence
from sdgar.discriminators.start import start
from sdgar.discriminators.two_tower import TwoTower
from sdgar.errors import UsageError
from sdgar.modules import MODULES
from sdgar.objectives import (
    Logistic,
    PairwiseLogistic,
    RankHingeByImpostors,
    RankHingeByTries,
    SampledSoftmax,
    WeightedLogistic,
)
from sdgar.samplers.adaptive import AdaptiveOrder
from sdgar.samplers.closed_form import ClosedForm
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.em import ExpectationMaximization
from sdgar.samplers.score_aware import FirstViolation, Hardest
from sdgar.samplers.search import NearTop
from sdgar.systems import STATIC, checked_temperature, temperature_of

Part = TypeVar("Part", bound=Callable[..., Any])

DISCRIMINATORS: dict[str, Callable[..., Any]] = {}
"""Modules, made by (n_users, n_items, **settings); or functions of a ``Making``."""
SAMPLERS: dict[str, Callable[..., Sampler]] = {}
"""Functions of a ``Making``, with settings."""
OBJECTIVES: dict[str, Callable[..., Objective]] = {}
"""Functions of a ``Making``, with settings."""
_PLAIN = (bool, int, float, str)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
KINDS = {"discriminator": DISCRIMINATORS, "sampler": SAMPLERS, "objective": OBJECTIVES}


@dataclass(frozen=True, slots=True)
class Making:
    """What a part is made from."""

    data: Interactions
    seed: int
    device: torch.device
    dim: int
    row_wise: bool
    """Whether the optimiser moves only the rows that a batch touches."""
    discriminator: Discriminator | None = None
    """There once it is made: before the sampler."""
    objective: Objective | None = None
    """There once it is made: before the sampler."""


def is_module(part: Callable[..., Any]) -> bool:
    """Whether a part is a class of networks, and not a function."""
    return isinstance(part, type) and issubclass(part, nn.Module)


def register_discriminator(name: str) -> Callable[[Part], Part]:
    """Make a module known by a name: a class that is made by (n_users, n_items, *, settings).

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
    """Make a sampler known by a name: a function of a ``Making`` and keyword settings.

    >>> from sdgar.samplers.static import Uniform
    >>> @sdgar.register_sampler("my-uniform")
    ... def my_uniform(making):
    ...     return Uniform()
    >>> model = sdgar.Composed(sampler="my-uniform")
    """
    return _registrar(SAMPLERS, "sampler", name)


def register_objective(name: str) -> Callable[[Part], Part]:
    """Make an objective known by a name: a function of a ``Making`` and keyword settings.

    >>> from sdgar.objectives import SampledSoftmax
    >>> @sdgar.register_objective("my-softmax")
    ... def my_softmax(making, *, rho: float = 0.9):
    ...     return SampledSoftmax(rho)
    >>> model = sdgar.Composed(objective="my-softmax", settings={"objective.rho": 0.8})
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


@register_discriminator("factorization")
def _factorization(making: Making) -> Discriminator:
    data = making.data
    return MatrixFactorization(
        data.n_users, data.n_items, making.dim, seed=making.seed, sparse=making.row_wise,
        fields=data.fields,
    )  # fmt: skip


@register_discriminator("cosine")
def _cosine(
    making: Making, *, tau: float | None = None, bias: bool = True, sweeps: int = 3
) -> Cosine:
    data, size = making.data, (making.data.n_users, making.data.n_items, making.dim)
    tau = temperature_of(data) if tau is None else tau
    cosine = Cosine(
        *size, seed=making.seed, tau=tau, sparse=making.row_wise, bias=bias, fields=data.fields
    )
    start(cosine.to(making.device), data, sweeps=at_least("sweeps", sweeps, 0))
    return cosine


@register_discriminator("metric")
def _metric(making: Making) -> Discriminator:
    data = making.data
    return Metric(data.n_users, data.n_items, making.dim, seed=making.seed, sparse=making.row_wise)


register_discriminator("lightgcn")(LightGCN)
register_discriminator("two-tower")(TwoTower)
register_discriminator("sequence")(Sequence)


@register_objective("bpr")
def _bpr(making: Making) -> Objective:
    return PairwiseLogistic()


@register_objective("logistic")
def _logistic(making: Making) -> Objective:
    return Logistic()


@register_objective("sdgar")
def _sdgar(making: Making, *, temperature: float = 0.5, hold_weights: bool = False) -> Objective:
    return WeightedLogistic(checked_temperature(temperature), hold_weights)


@register_objective("sdsoftmax")
def _sdsoftmax(making: Making, *, rho: float = 1.0) -> Objective:
    return SampledSoftmax(rho)


@register_objective("warp")
def _warp(making: Making, *, margin: float = 1.0) -> Objective:
    return RankHingeByTries(margin, making.data.n_items)


@register_objective("cml")
def _cml(making: Making, *, margin: float = 1.0) -> Objective:
    return RankHingeByImpostors(margin, making.data.n_items)


@register_sampler("uniform")
def _uniform(making: Making) -> Sampler:
    return STATIC["uniform"](making.data)


@register_sampler("popularity")
def _popularity(making: Making) -> Sampler:
    return STATIC["popularity"](making.data)


@register_sampler("decomposable")
def _decomposable(
    making: Making,
    *,
    states: int = 64,
    samples: int = 64,
    lambda_x: float | None = None,
    lambda_y: float | None = None,
    floor_x: float | None = None,
    floor_y: float | None = None,
    pretrain: int | None = None,
) -> Sampler:
    """SD-GAR's closed form for its own objective, which has f as loss; EM for all others.

    λ (0.1 and 1 if not given) are the closed form's; floors (0.001 and 0.1) and the steps on the
    positives that EM starts with (15) are EM's.
    """
    samples = at_least("sampler.samples", samples, 1)
    of_form = {"lambda_x": lambda_x, "lambda_y": lambda_y}
    of_em = {"floor_x": floor_x, "floor_y": floor_y, "pretrain": pretrain}
    update: ClosedForm | ExpectationMaximization
    if isinstance(making.objective, WeightedLogistic):
        _require_absent(of_em, "a generator that follows objective sdgar has a closed form")
        update = ClosedForm(
            temperature=making.objective.temperature, samples=samples, target="kl",
            integrand="loss", calibration="line",
            **{"lambda_x": 0.1, "lambda_y": 1.0} | _present(of_form),
        )  # fmt: skip
    else:
        _require_absent(of_form, "only a generator that follows objective sdgar has a λ")
        at_least("sampler.pretrain", 15 if pretrain is None else pretrain, 0)
        update = ExpectationMaximization(
            temperature=1.0, samples=samples, positives=making.data.history, **_present(of_em)
        )
    data, states = making.data, at_least("sampler.states", states, 1)
    return Decomposable(data.n_users, data.n_items, states, seed=making.seed, update=update)


def _present(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _require_absent(settings: Mapping[str, Any], why: str) -> None:
    for name in _present(settings):
        raise UsageError(f"sampler.{name} has no meaning here: {why}.", code="bad_setting")


@register_sampler("adaptive")
def _adaptive(making: Making, *, rank_scale: float = 0.05) -> Sampler:
    assert making.discriminator is not None
    return AdaptiveOrder(making.discriminator, rank_scale)


@register_sampler("hardest")
def _hardest(making: Making, *, candidates: int = 10) -> Sampler:
    return Hardest(at_least("sampler.candidates", candidates, 1))


@register_sampler("first-violation")
def _first_violation(making: Making, *, margin: float = 1.0, max_tries: int = 30) -> Sampler:
    return FirstViolation(margin, at_least("sampler.max_tries", max_tries, 1))


@register_sampler("search")
def _search(
    making: Making, *, index: str = "hnsw", near: int = 50, explore: float = 0.2
) -> Sampler:
    assert making.discriminator is not None
    history = making.data.history
    return NearTop(making.discriminator, history, index=index, near=near, explore=explore)


def settings_of(kind: str, name: str) -> dict[str, type]:
    """The settings of a part and their types."""
    part = KINDS[kind][name]
    types = get_type_hints(cast("Any", part).__init__ if is_module(part) else part)
    given = 2 if is_module(part) else 1  # (n_users, n_items), or the making
    parameters = list(inspect.signature(part).parameters.values())[given:]
    return {p.name: _type(p, types) for p in parameters if p.kind not in _VARIADIC}


def _type(parameter: inspect.Parameter, types: Mapping[str, Any]) -> type:
    """What a setting is: as annotated, without None, or as its default is."""
    hint = types.get(parameter.name)
    for kind in _PLAIN:
        if kind in (get_args(hint) or (hint,)):
            return kind
    return type(parameter.default) if type(parameter.default) in _PLAIN else str


def checked(setting: str, value: Any, kind: type) -> Any:
    """The value as plain Python, if it is of the right type."""
    found = plain(value)
    fits = isinstance(found, (int, float) if kind is float else kind)
    if found is not None and (not fits or (isinstance(found, bool) and kind is not bool)):
        raise UsageError(
            f"{setting} must be of type {kind.__name__}, got {value!r}.", code="bad_setting"
        )
    return found
