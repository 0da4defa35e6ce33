"""Decide how often every user and item occurs, and make all pairs distinct at these degrees.

Repeated pairs trade items with others, which changes no degree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sdgar.data.synthetic import Shape

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
    n, capacity = len(weight_N), high - low
    rank_N = np.arange(n)
    tail_N = np.cumsum(weight_N[::-1])[::-1]
    left_N = total - low * n - rank_N * capacity
    # The first `full` weights meet the cap: the fewest for which λ keeps the next below it.
    full = int(np.argmax(left_N * weight_N <= capacity * tail_N))
    share_N = np.minimum(left_N[full] / tail_N[full] * weight_N, capacity)
    share_N[:full] = capacity
    whole_N = np.floor(share_N).astype(np.int64)
    missing = total - low * n - int(whole_N.sum())
    whole_N[np.argsort(whole_N - share_N, kind="stable")[:missing]] += 1
    degree_N = np.empty(n, np.int64)
    degree_N[order_N] = low + whole_N
    return degree_N


def _graphical(degree_U: Ints, degree_I: Ints) -> bool:
    """Return whether distinct pairs with these degrees exist (Gale–Ryser).

    For all k:  Σ_{k largest} d_u  ≤  Σ_i min(d_i, k)
    """
    at_least_U = np.cumsum(np.bincount(degree_I, minlength=len(degree_U) + 1)[:0:-1])[::-1]
    return bool((np.cumsum(np.sort(degree_U)[::-1]) <= np.cumsum(at_least_U)).all())


Mask = NDArray[np.bool_]

_SWAP_ROUNDS = 64
_MOST_TRIES = 64


def mend(users_E: Ints, items_E: Ints, shape: Shape, rng: np.random.Generator) -> None:
    """Make all pairs distinct in place, keeping every degree.

    A repeated pair (u, i) and a pair (v, j) nearby become (u, j) and (v, i) if both are new; the
    neighbourhood, at first a niche, doubles every round. What is left in the end is rerouted.
    """
    pair_E = users_E * shape.items + items_E
    order_E = np.argsort(pair_E, kind="stable")
    known_E = pair_E[order_E]
    pending_P = order_E[1:][known_E[1:] == known_E[:-1]]
    reach = 1 + int(shape.niche * shape.interactions / shape.items)
    for _ in range(_SWAP_ROUNDS):
        if len(pending_P) == 0:
            return
        here, there = _swaps(users_E, items_E, pending_P, known_E, reach, shape, rng)
        changed = np.concatenate((here, there))
        old = np.sort(users_E[changed] * shape.items + items_E[changed])
        items_E[here], items_E[there] = items_E[there], items_E[here]
        new = np.sort(users_E[changed] * shape.items + items_E[changed])
        # Sorted needles share cache lines; a stable sort merges two sorted runs in one pass.
        kept = np.delete(known_E, np.searchsorted(known_E, old))
        known_E = np.sort(np.concatenate((kept, new)), kind="stable")
        pending_P = pending_P[np.isin(pending_P, changed, invert=True)]
        reach = min(2 * reach, shape.interactions)
    _reroute(users_E, items_E, pending_P, shape)


def _swaps(
    users_E: Ints,
    items_E: Ints,
    pending_P: Ints,
    known_E: Ints,
    reach: int,
    shape: Shape,
    rng: np.random.Generator,
) -> tuple[Ints, Ints]:
    """Return random swaps within reach that make new pairs only; no stub or pair is in two."""
    # The few that are left are the hard ones, and many proposals for them cost little.
    tries = min(1 + shape.interactions // (16 * len(pending_P)), _MOST_TRIES)
    here_P = np.tile(pending_P, tries)
    there_P = (here_P + rng.integers(-reach, reach + 1, len(here_P))) % shape.interactions
    mine_P = users_E[here_P] * shape.items + items_E[there_P]
    theirs_P = users_E[there_P] * shape.items + items_E[here_P]
    good_P = np.flatnonzero(~_contains(known_E, mine_P))
    good_P = good_P[~_contains(known_E, theirs_P[good_P])]
    good_P = good_P[_both_first(here_P[good_P], there_P[good_P])]
    good_P = good_P[_both_first(mine_P[good_P], theirs_P[good_P])]
    return here_P[good_P], there_P[good_P]


def _both_first(left_P: Ints, right_P: Ints) -> Mask:
    """Mark the rows of which neither value occurs earlier in left or right."""
    both = np.concatenate((left_P, right_P))
    first = np.zeros(len(both), bool)
    first[np.unique(both, return_index=True)[1]] = True
    return first[: len(left_P)] & first[len(left_P) :]


def _contains(sorted_N: Ints, wanted_P: Ints) -> Mask:
    at_P = np.searchsorted(sorted_N, wanted_P).clip(max=len(sorted_N) - 1)
    return np.asarray(sorted_N[at_P] == wanted_P)


def _reroute(users_E: Ints, items_E: Ints, pending_P: Ints, shape: Shape) -> None:
    """Return every pending stub an item by augmenting paths; degrees that are graphical have one.

    A path  u ⇢ i₁ → v ⇢ i₂ → … ⇢ i  alternates pairs that are missing (⇢) and present (→), from
    a user to an item that each lack one; flipping it adds one pair and repeats none.
    """
    live_E = np.ones(len(users_E), bool)
    live_E[pending_P] = False
    lack_I = np.bincount(items_E[pending_P], minlength=shape.items)
    while not live_E.all():
        levels = _search(users_E, items_E, live_E, lack_I, shape)
        item = int(np.flatnonzero(levels[-1][1] & (lack_I > 0))[0])
        lack_I[item] -= 1
        for depth in range(len(levels) - 1, -1, -1):
            holds_U = np.zeros(shape.users, bool)
            holds_U[users_E[live_E & (items_E == item)]] = True
            user = int(np.flatnonzero(levels[depth][0] & ~holds_U)[0])
            via_E = live_E & levels[depth - 1][1][items_E] if depth else ~live_E
            stub = int(np.flatnonzero(via_E & (users_E == user))[0])
            item, items_E[stub] = int(items_E[stub]), item
        live_E[stub] = True


def _search(
    users_E: Ints, items_E: Ints, live_E: Mask, lack_I: Ints, shape: Shape
) -> list[tuple[Mask, Mask]]:
    """Search breadth first; return (users, items first reached from them) of every level.

    The last level is the first one with an item that lacks a user.
    """
    users_U = np.zeros(shape.users, bool)
    users_U[users_E[~live_E]] = True
    seen_U, seen_I = users_U.copy(), np.zeros(shape.items, bool)
    levels: list[tuple[Mask, Mask]] = []
    while True:
        held_I = np.bincount(items_E[live_E & users_U[users_E]], minlength=shape.items)
        items_I = (held_I < users_U.sum()) & ~seen_I
        levels.append((users_U, items_I))
        if (items_I & (lack_I > 0)).any():
            return levels
        if not items_I.any():
            raise AssertionError("no augmenting path, so the degrees are not graphical")
        seen_I |= items_I
        users_U = np.zeros(shape.users, bool)
        users_U[users_E[live_E & items_I[items_E]]] = True
        users_U &= ~seen_U
        seen_U |= users_U
