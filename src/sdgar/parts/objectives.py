"""The built-in objectives by name."""

from __future__ import annotations

from sdgar.arguments import not_negative
from sdgar.objectives import (
    CmlHinge,
    Logistic,
    PairwiseLogistic,
    SampledSoftmax,
    WarpHinge,
    WeightedLogistic,
)
from sdgar.parts.register import Ingredients, register_objective
from sdgar.samplers.sampled_sums import LEAST_TEMPERATURE, MOST_TEMPERATURE, within


@register_objective("bpr")
def bpr(given: Ingredients) -> PairwiseLogistic:
    """Return the loss by which a positive should score above a negative."""
    return PairwiseLogistic()


@register_objective("logistic")
def logistic(given: Ingredients) -> Logistic:
    """Return the logistic loss of positives against negatives."""
    return Logistic()


@register_objective("sdgar")
def sdgar(
    given: Ingredients, *, temperature: float = 0.5, hold_weights: bool = False
) -> WeightedLogistic:
    """Return the logistic loss, whose negatives have importance weights."""
    return WeightedLogistic(checked_temperature(temperature), hold_weights)


@register_objective("sdsoftmax")
def sdsoftmax(given: Ingredients, *, rho: float = 1.0) -> SampledSoftmax:
    """Return the softmax over all items, whose sum is estimated from the negatives."""
    return SampledSoftmax(rho)


@register_objective("warp")
def warp(given: Ingredients, *, margin: float = 1.0) -> WarpHinge:
    """Return the hinge that is weighed by the positive's rank, estimated from its tries."""
    return WarpHinge(not_negative("margin", margin), given.data.n_items)


@register_objective("cml")
def cml(given: Ingredients, *, margin: float = 1.0) -> CmlHinge:
    """Return the hinge that is weighed by the positive's rank, estimated from negatives."""
    return CmlHinge(not_negative("margin", margin), given.data.n_items)


def checked_temperature(value: float) -> float:
    """Return ``value`` if weights exp(f/T) can be computed with it; raise if not."""
    return within("temperature", value, LEAST_TEMPERATURE, MOST_TEMPERATURE)
