"""The built-in samplers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import torch

from sdgar.arguments import at_least, not_negative
from sdgar.contracts import Sampler
from sdgar.errors import UsageError
from sdgar.objectives import WeightedLogistic
from sdgar.parts.register import Ingredients, register_sampler
from sdgar.samplers.ablations import Frozen, Scrambled
from sdgar.samplers.closed_form import Calibration, ClosedForm, Integrand, Target
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.em import ExpectationMaximization
from sdgar.samplers.generator import Update
from sdgar.samplers.nearest_items import NearestItems
from sdgar.samplers.rank_by_factor import RankByFactor
from sdgar.samplers.score_aware import FirstViolation, HardestOf
from sdgar.samplers.static import Popularity, PopularityMix, Uniform

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


@register_sampler("decomposable")
def decomposable(
    given: Ingredients,
    *,
    states: int = 64,
    samples: int | None = None,
    lambda_x: float | None = None,
    lambda_y: float | None = None,
    floor_x: float | None = None,
    floor_y: float | None = None,
    pretrain: int | None = None,
) -> Decomposable:
    """Return a generator that follows by SD-GAR's closed form for its objective, else by EM.

    The closed form has λ (0.1 and 1 if not given). EM has floors (0.001 and 0.1) and a number of
    first steps on the positives (15). A step has ``samples`` draws for each context and each item:
    64 in the closed form and 32 in EM, if not given.
    """
    of_form = {"lambda_x": lambda_x, "lambda_y": lambda_y}
    of_em = {"floor_x": floor_x, "floor_y": floor_y, "pretrain": pretrain}
    if isinstance(given.objective, WeightedLogistic):
        _require_absent(of_em, "a generator that follows objective sdgar has a closed form")
        temperature = given.objective.temperature
        samples = 64 if samples is None else samples
        return closed_form_generator(
            given, states=states, samples=samples, temperature=temperature, **_present(of_form)
        )
    _require_absent(of_form, "only a generator that follows objective sdgar has a λ")
    samples = 32 if samples is None else samples
    return em_generator(given, states=states, samples=samples, **_present(of_em))


def closed_form_generator(
    given: Ingredients,
    *,
    states: int,
    samples: int,
    temperature: float,
    lambda_x: float = 0.1,
    lambda_y: float = 1.0,
    target: Target = "kl",
    integrand: Integrand = "loss",
    calibration: Calibration = "line",
    ablation: Ablation = "none",
) -> Decomposable:
    """Return a generator that follows the discriminator by the paper's closed form."""
    update: Update = ClosedForm(
        temperature=temperature,
        samples=at_least("samples", samples, 1),
        lambda_x=lambda_x,
        lambda_y=lambda_y,
        target=target,
        integrand=integrand,
        calibration=calibration,
    )
    if ablation == "frozen":
        update = Frozen()
    elif ablation == "scrambled":
        update = Scrambled(update)
    return _generator(given, states, update)


def em_generator(
    given: Ingredients,
    *,
    states: int,
    samples: int,
    floor_x: float = 1e-3,
    floor_y: float = 0.1,
    pretrain: int = 15,
) -> Decomposable:
    """Return a generator that follows the discriminator by expectation maximisation."""
    update = ExpectationMaximization(
        temperature=1.0,
        samples=at_least("samples", samples, 1),
        floor_x=floor_x,
        floor_y=floor_y,
        positives=given.data.history,
        pretrain=at_least("pretrain", pretrain, 0),
    )
    return _generator(given, states, update)


def _generator(given: Ingredients, states: int, update: Update) -> Decomposable:
    size = (given.data.n_users, given.data.n_items, at_least("states", states, 1))
    return Decomposable(*size, seed=given.seed, update=update)


def _present(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _require_absent(settings: Mapping[str, Any], why: str) -> None:
    for name in _present(settings):
        raise UsageError(f"sampler.{name} has no meaning here: {why}.", code="bad_setting")


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
