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
    """A positive should score above a negative."""
    return PairwiseLogistic()


@register_objective("logistic")
def logistic(given: Ingredients) -> Logistic:
    """Positives and negatives are told apart."""
    return Logistic()


@register_objective("sdgar")
def sdgar(
    given: Ingredients, *, temperature: float = 0.5, hold_weights: bool = False
) -> WeightedLogistic:
    """Positives and negatives are told apart, with importance weights for the negatives."""
    return WeightedLogistic(checked_temperature(temperature), hold_weights)


@register_objective("sdsoftmax")
def sdsoftmax(given: Ingredients, *, rho: float = 1.0) -> SampledSoftmax:
    """A softmax over all items, whose sum is estimated from the negatives."""
    return SampledSoftmax(rho)


@register_objective("warp")
def warp(given: Ingredients, *, margin: float = 1.0) -> WarpHinge:
    """A hinge that counts by the rank of the positive, estimated from the number of tries."""
    return WarpHinge(not_negative("margin", margin), given.data.n_items)


@register_objective("cml")
def cml(given: Ingredients, *, margin: float = 1.0) -> CmlHinge:
    """A hinge that counts by the rank of the positive, estimated from several negatives."""
    return CmlHinge(not_negative("margin", margin), given.data.n_items)


def checked_temperature(value: float) -> float:
    """Return ``value`` if weights exp(f/T) can be computed with it."""
    return within("temperature", value, LEAST_TEMPERATURE, MOST_TEMPERATURE)
