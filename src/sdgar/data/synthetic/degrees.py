"""Decide how often every user and item occurs: the exact degrees of both sides."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdgar.data.synthetic.shape import Shape

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_SOLVER_STEPS = 40
_LOG_TINY = -600.0


def popularity(shape: Shape) -> Ints:
    """d_i = 1 + min(λ (r_i + h I)^-s, U - 1), with s bisected for the concentration.

    The most popular item comes first.
    """
    log_rank_I = np.log(np.arange(1, shape.items + 1) + shape.head * shape.items)

    def degrees(s: float) -> Ints:
        weight_I = np.exp(np.maximum(s * (log_rank_I[0] - log_rank_I), _LOG_TINY))
        return _apportion(weight_I, shape.interactions, 1, shape.users)

    def short(s: float) -> bool:
        top = np.partition(degrees(s), -shape.top)[-shape.top :]
        return bool(top.sum() < shape.concentration * shape.interactions)

    low, high = 0.0, 1.0
    while short(high) and high < 2.0**_SOLVER_STEPS:
        low, high = high, 2 * high
    for _ in range(_SOLVER_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if short(middle) else (low, middle)
    return degrees(high)


def activity(shape: Shape, degree_I: Ints, rng: np.random.Generator) -> Ints:
    """d_u = b + min(μ exp(σ z_u), cap - b), with σ halved until distinct pairs have these degrees.

    ``degree_I`` are the degrees of the items, which those pairs have too.
    """
    mean = shape.interactions / shape.users
    # A quarter of the catalogue, or the mean where the data are denser than that.
    cap = int(np.ceil(mean + (shape.items - mean) / 4))
    normal_U = rng.standard_normal(shape.users)
    sigma = shape.activity
    while True:
        weight_U = np.exp(sigma * normal_U)
        degree_U = _apportion(weight_U, shape.interactions, shape.min_per_user, cap)
        if _graphical(degree_U, degree_I):
            return degree_U
        # σ = 0 ends the loop: equal degrees go with any item degrees of at most U.
        sigma = sigma / 2 if sigma > 0.05 else 0.0


def _apportion(weight_N: Floats, total: int, low: int, high: int) -> Ints:
    """Return integers low + min(λ w, high - low) of sum total, rounded by largest remainder."""
    order_N = np.argsort(-weight_N, kind="stable")
    weight_N = weight_N[order_N]
    n, room = len(weight_N), high - low
    rank_N = np.arange(n)
    tail_N = np.cumsum(weight_N[::-1])[::-1]
    left_N = total - low * n - rank_N * room
    # The first `full` weights meet the cap: the fewest for which λ keeps the next below it.
    full = int(np.argmax(left_N * weight_N <= room * tail_N))
    share_N = np.minimum(left_N[full] / tail_N[full] * weight_N, room)
    share_N[:full] = room
    whole_N = np.floor(share_N).astype(np.int64)
    missing = total - low * n - int(whole_N.sum())
    whole_N[np.argsort(whole_N - share_N, kind="stable")[:missing]] += 1
    degree_N = np.empty(n, np.int64)
    degree_N[order_N] = low + whole_N
    return degree_N


def _graphical(degree_U: Ints, degree_I: Ints) -> bool:
    """Tell whether distinct pairs with these degrees exist (Gale–Ryser).

    For all k:  Σ_{k largest} d_u  ≤  Σ_i min(d_i, k)
    """
    at_least_U = np.cumsum(np.bincount(degree_I, minlength=len(degree_U) + 1)[:0:-1])[::-1]
    return bool((np.cumsum(np.sort(degree_U)[::-1]) <= np.cumsum(at_least_U)).all())
