"""The built-in samplers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from sdgar.arguments import at_least, not_negative, one_of
from sdgar.contracts import Sampler
from sdgar.errors import UsageError
from sdgar.objectives import WeightedLogistic
from sdgar.parts.register import Ingredients, register_sampler
from sdgar.samplers.closed_form import Calibration, ClosedForm, Integrand, Target
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.em import ExpectationMaximization
from sdgar.samplers.generator import Frozen, Scrambled, Update
from sdgar.samplers.nearest_items import NearestItems
from sdgar.samplers.rank_by_factor import RankByFactor
from sdgar.samplers.score_aware import FirstViolation, HardestOf
from sdgar.samplers.static import Popularity, PopularityMix, Uniform
from sdgar.settings import Group

Ablation = Literal["none", "frozen", "scrambled"]


@register_sampler("uniform")
def uniform(given: Ingredients) -> Uniform:
    """Return the sampler that draws all items that the user does not have alike."""
    return Uniform()


@register_sampler("popularity")
def popularity(given: Ingredients) -> Popularity:
    """Return the sampler that draws items in proportion to the number of their users."""
    count_I = np.bincount(given.data.items_E, minlength=given.data.n_items)
    return Popularity(torch.from_numpy(count_I))


@register_sampler("popularity-mix")
def popularity_mix(given: Ingredients, *, share: float = 0.5) -> PopularityMix:
    """Return the sampler that draws by popularity with probability ``share``, else uniformly."""
    count_I = np.bincount(given.data.items_E, minlength=given.data.n_items)
    return PopularityMix(torch.from_numpy(count_I), share)


@dataclass(frozen=True, kw_only=True)
class ClosedFormSettings(Group):
    """The settings of a generator that follows by the paper's closed form."""

    states: int = 64
    """The number K of states of the generator."""
    samples: int = 64
    """How many draws there are for each context and each item in an update of the generator: |S_c|
    and |S_i|."""
    lambda_x: float = 0.1
    """The weight of the entropy of x_c, the states of a context."""
    lambda_y: float = 1.0
    """The weight of the entropy of y_k, the items of a state."""
    target: str = "kl"
    """The quantity that the generator minimises: kl (the divergence from its target), or linear as
    in Eq. 7."""
    integrand: str = "loss"
    """The function of the loss that the generator follows: loss (h = f), or deviation (h = |f - μ|)
    as in Eq. 7."""
    calibration: str = "line"
    """The unit in which lambda_x and lambda_y are given: line (the largest b of each row of X or
    column of Y), relative (the mean of these), or literal (1, as printed in the paper)."""


@dataclass(frozen=True, kw_only=True)
class EMSettings(Group):
    """The settings of a generator that follows by expectation maximisation."""

    states: int = 64
    """The number K of states of the generator."""
    samples: int = 32
    """How many draws there are for each context and each item in a step of EM."""
    floor_x: float = 1e-3
    """The share of every x_c, the states of a context, that is spread over all states."""
    floor_y: float = 0.1
    """The share of every y_k, the items of a state, that is spread over all items."""
    pretrain: int = 15
    """How many steps of EM learn from the positives, before the generator follows the scores."""


@register_sampler("decomposable")
def decomposable(
    given: Ingredients,
    *,
    states: int | None = None,
    samples: int | None = None,
    lambda_x: float | None = None,
    lambda_y: float | None = None,
    floor_x: float | None = None,
    floor_y: float | None = None,
    pretrain: int | None = None,
) -> Decomposable:
    """Return a generator that follows by SD-GAR's closed form for its objective, else by EM.

    Settings that are not given are as in ``ClosedFormSettings`` or ``EMSettings``.
    """
    of_form = _present(lambda_x=lambda_x, lambda_y=lambda_y)
    of_em = _present(floor_x=floor_x, floor_y=floor_y, pretrain=pretrain)
    size = _present(states=states, samples=samples)
    if isinstance(given.objective, WeightedLogistic):
        _require_absent(of_em, "a generator that follows objective sdgar has a closed form")
        own = ClosedFormSettings(**size, **of_form)
        return closed_form_generator(given, own, temperature=given.objective.temperature)
    _require_absent(of_form, "only a generator that follows objective sdgar has a λ")
    return em_generator(given, EMSettings(**size, **of_em))


def closed_form_generator(
    given: Ingredients,
    settings: ClosedFormSettings,
    *,
    temperature: float,
    ablation: Ablation = "none",
) -> Decomposable:
    """Return a generator that follows the discriminator by the paper's closed form."""
    target: Target = one_of("sampler__target", settings.target, ("kl", "linear"))
    integrand: Integrand = one_of("sampler__integrand", settings.integrand, ("loss", "deviation"))
    calibration: Calibration = one_of(
        "sampler__calibration", settings.calibration, ("relative", "line", "literal")
    )
    update: Update = ClosedForm(
        temperature=temperature,
        samples=at_least("sampler__samples", settings.samples, 1),
        lambda_x=settings.lambda_x,
        lambda_y=settings.lambda_y,
        target=target,
        integrand=integrand,
        calibration=calibration,
    )
    if ablation == "frozen":
        update = Frozen()
    elif ablation == "scrambled":
        update = Scrambled(update)
    return _generator(given, settings.states, update)


def em_generator(given: Ingredients, settings: EMSettings) -> Decomposable:
    """Return a generator that follows the discriminator by expectation maximisation."""
    update = ExpectationMaximization(
        temperature=1.0,
        samples=at_least("sampler__samples", settings.samples, 1),
        floor_x=settings.floor_x,
        floor_y=settings.floor_y,
        positives=given.data.history,
        pretrain=at_least("sampler__pretrain", settings.pretrain, 0),
    )
    return _generator(given, settings.states, update)


def _generator(given: Ingredients, states: int, update: Update) -> Decomposable:
    size = (given.data.n_users, given.data.n_items, at_least("sampler__states", states, 1))
    return Decomposable(*size, seed=given.seed, update=update)


def _present(**settings: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _require_absent(settings: Mapping[str, Any], why: str) -> None:
    for name in settings:
        raise UsageError(f"sampler__{name} has no meaning here: {why}.", code="bad_setting")


@register_sampler("adaptive")
def adaptive(given: Ingredients, *, rank_scale: float = 0.05) -> RankByFactor:
    """Return the sampler of items that rank high in one of the factors of the user."""
    assert given.discriminator is not None
    return RankByFactor(given.discriminator, rank_scale)


@register_sampler("hardest")
def hardest(given: Ingredients, *, candidates: int = 10) -> HardestOf:
    """Return the sampler that takes the best scored of some uniform draws."""
    return HardestOf(at_least("candidates", candidates, 1))


@register_sampler("first-violation")
def first_violation(
    given: Ingredients, *, margin: float = 1.0, max_tries: int = 30
) -> FirstViolation:
    """Return the sampler of the first uniform draw that scores too close to the positive."""
    return FirstViolation(not_negative("margin", margin), at_least("max_tries", max_tries, 1))


@register_sampler("search")
def search(
    given: Ingredients, *, index: str = "hnsw", near: int = 50, explore: float = 0.2
) -> NearestItems:
    """Return the sampler of the items that score best, found by an index of nearest neighbours."""
    assert given.discriminator is not None
    history = given.data.history
    return NearestItems(given.discriminator, history, index=index, near=near, explore=explore)


STATIC: dict[str, Callable[[Ingredients], Sampler]] = {"uniform": uniform, "popularity": popularity}
"""The samplers that learn nothing, to compare a generator with."""
