"""Draw implicit feedback with the margins of a real data set and a taste that can be learned.

How often anything occurs is exact. With r_i the popularity rank of item i and z_u ~ N(0, 1),

    d_i = 1 + min(λ (r_i + h I)^-s, U - 1)          Zipf–Mandelbrot; s solved for concentration
    d_u = b + min(μ exp(σ z_u), cap - b)            log-normal activity, heavy-tailed

where λ and μ make both sums the number of interactions E. Who meets what is taste, on a circle of
circumference 1. Item i has a place p_i, user u a home c_u and interests k = 1 … K_u about it, and
each of the E stubs on either side gets a place x (mod 1), with ξ standard Cauchy:

    c_uk = c_u  + home · ξ                          P(k ≤ j) = √(j / K_u),  K_u ~ √d_u
    x    = c_uk + (niche / I) · ξ                   stub of a user; anywhere with P = mainstream
    x    = p_i  + (breadth · d_i / E) · ξ           stub of an item

Heavy tails put niches within niches: coarse taste for a few factors, fine taste for many. The
reach of an item grows with its popularity, so that at its own place it still takes no more than
1 / (π breadth) of the choices. Both lists of stubs are sorted by place and joined row by row: every
degree is exact, and those meet who are close. Pairs met twice then trade items with a pair nearby,
which changes no degree either.

Random numbers come from NumPy's ``Philox`` bit generator with the key (seed, stream SYNTHETIC). The
same seed gives the same arrays on the same NumPy and machine type; another NumPy may derive normal
numbers or bounded integers from the same bits in another way.

Axis letters besides the ones in ``contracts``: C interests, S sessions, P pairs to mend, N
anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sdgar.data.building import RowAccount
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.errors import unknown_name
from sdgar.maths.rng import Stream, check_seed

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_ACTIVITY = 1.2
"""The σ of the log-normal activity."""
_INTERESTS = 3.0
"""The interests of a user of mean activity; they grow with the square root of activity."""
_HOME = 0.03
"""Half of a user's interests lie within this share of the circle from home."""
_NICHE = 8.0
"""Half of a user's choices lie within this many items of an interest; more blurs taste."""
_BREADTH = 4.0
"""The number of items that compete at one place; a larger one blurs taste."""
_MAINSTREAM = 0.1
"""The share of a user's choices that follow popularity alone."""
_SOLVER_STEPS = 40
_LOG_TINY = -600.0
_SWAP_ROUNDS = 64
_MOST_TRIES = 64
_SECOND = 1_000_000
_HOUR = 3600 * _SECOND
_START = 1_640_995_200 * _SECOND  # 2022-01-01, UTC
_SPAN = 2 * 365 * 24 * _HOUR
_PER_SESSION = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The shape of a synthetic data set."""

    users: int
    """The number of users; each of them occurs."""
    items: int
    """The number of items, all of which occur."""
    interactions: int
    """The number of distinct (user, item) pairs, at most half of all pairs."""
    concentration: float
    """The share of the interactions on the ⌈5 %⌉ most popular items, as in the paper's Table 1."""
    min_per_user: int = 5
    """The fewest interactions that a user has."""
    head: float = 0.002
    """The Zipf–Mandelbrot shift h, a share of all items; a larger one flattens the bestsellers."""
    ids: Literal["integer", "text"] = "integer"
    """The kind of ids: 1, 2, … or ``user-0001``, ``item-0001``, …."""

    @property
    def top(self) -> int:
        """top = ⌈I / 20⌉, the number of items that count as most popular."""
        return -(-self.items // 20)


PRESETS: dict[str, Shape] = {
    "demo": Shape(
        users=1_000,
        items=1_200,
        interactions=40_000,
        concentration=0.25,
        head=0.05,
        ids="text",
    ),
    "citeulike": Shape(
        users=7_947,
        items=25_975,
        interactions=134_860,
        concentration=0.3156,
        # The paper says 5, but its authors' own split has users with 3.
        min_per_user=3,
    ),
    "gowalla": Shape(
        users=29_858,
        items=40_988,
        interactions=1_027_464,
        concentration=0.2915,
        min_per_user=10,
    ),
    "movielens": Shape(users=60_655, items=8_939, interactions=2_105_971, concentration=0.6198),
    "amazon": Shape(users=130_380, items=128_939, interactions=2_415_650, concentration=0.3298),
    "echonest": Shape(users=217_966, items=60_654, interactions=4_422_471, concentration=0.4563),
}
"""A small data set to play with, and the shapes of the paper's Table 1."""


def synthetic(preset: str = "demo", *, seed: int = 0) -> Interactions:
    """Draw a data set of a known shape, by name.

    >>> len(sdgar.synthetic("demo", seed=0))
    40000
    """
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    return generate(PRESETS[preset], seed=seed)


def generate(shape: Shape, *, seed: int) -> Interactions:
    """Draw a data set of a shape; its sizes are exact, its concentration is within a point."""
    key = np.array([check_seed(seed), Stream.SYNTHETIC], np.uint64)
    rng = np.random.Generator(np.random.Philox(key=key))
    degree_I = rng.permutation(popularity(shape))
    degree_U = activity(shape, rng)
    users_E = by_place(degree_U, user_places(shape, degree_U, rng))
    items_E = by_place(degree_I, item_places(shape, degree_I, rng))
    mend(users_E, items_E, shape, rng)
    pairs_E = np.sort(users_E * shape.items + items_E)
    return Interactions(
        users=_ids("user", shape.users, shape.ids),
        items=_ids("item", shape.items, shape.ids),
        indptr_U1=np.concatenate(([0], np.cumsum(degree_U))),
        items_E=(pairs_E % shape.items).astype(np.int32),
        account=RowAccount(read=shape.interactions, kept=shape.interactions),
        time_E=_times(degree_U, rng),
    )


def _times(degree_U: Ints, rng: np.random.Generator) -> Ints:
    """Return times in µs: a user joins within two years and comes back in sessions of an hour."""
    sessions_U = -(-degree_U // _PER_SESSION)
    join_S = np.repeat(rng.random(len(degree_U)), sessions_U)
    start_S = join_S + (1.0 - join_S) * rng.random(len(join_S))
    start_E = start_S[pick(sessions_U, degree_U, rng.random(int(degree_U.sum())))]
    within_E = rng.integers(0, _HOUR, len(start_E))
    return _START + (start_E * (_SPAN - _HOUR)).astype(np.int64) + within_E


def _ids(what: str, n: int, kind: str) -> Ids:
    if kind == "integer":
        return Ids.of(np.arange(1, n + 1))
    # Leading zeros: ids must ascend, and text sorts by letter.
    digits = max(4, len(str(n)))
    return Ids.of(np.array([f"{what}-{i:0{digits}d}" for i in range(1, n + 1)], dtype=object))


def user_places(shape: Shape, degree_U: Ints, rng: np.random.Generator) -> Floats:
    """x = c_uk + (niche / I) ξ: the places of the stubs of users; some are anywhere."""
    grown_U = _INTERESTS * np.sqrt(degree_U * (shape.users / shape.interactions))
    interests_U = np.ceil(grown_U).astype(np.int64)
    home_C = np.repeat(rng.random(shape.users), interests_U)
    centre_C = home_C + _HOME * _cauchy(len(home_C), rng)
    # Squaring a uniform number gives the first interests the larger part.
    which_E = np.square(rng.random(shape.interactions))
    centre_E = centre_C[pick(interests_U, degree_U, which_E)]
    place_E = centre_E + _NICHE / shape.items * _cauchy(shape.interactions, rng)
    anywhere_E = rng.random(shape.interactions) < _MAINSTREAM
    return np.where(anywhere_E, rng.random(shape.interactions), place_E)


def item_places(shape: Shape, degree_I: Ints, rng: np.random.Generator) -> Floats:
    """x = p_i + (breadth · d_i / E) ξ: the places of the stubs of items."""
    width_I = _BREADTH / shape.interactions * degree_I
    place_E = np.repeat(rng.random(shape.items), degree_I)
    return place_E + np.repeat(width_I, degree_I) * _cauchy(shape.interactions, rng)


def _cauchy(n: int, rng: np.random.Generator) -> Floats:
    return np.tan(np.pi * (rng.random(n) - 0.5))


def pick(size_N: Ints, degree_N: Ints, part_E: Floats) -> Ints:
    """Return for each stub the entry at ``part`` (0 … 1) of its owner's block of a flat list."""
    first_N = np.cumsum(size_N) - size_N
    within_E = (part_E * np.repeat(size_N, degree_N)).astype(np.int64)
    return np.repeat(first_N, degree_N) + within_E


def by_place(degree_N: Ints, place_E: Floats) -> Ints:
    """Return the owner of each stub, in order of place (mod 1)."""
    # Place and owner share a word: sorting words is four times as fast as sorting an index.
    turn_E = ((place_E % 1.0) * 2.0**31).astype(np.int64) & 0x7FFFFFFF
    word_E = (turn_E << 32) | np.repeat(np.arange(len(degree_N)), degree_N)
    word_E.sort()
    return word_E & 0xFFFFFFFF


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


def activity(shape: Shape, rng: np.random.Generator) -> Ints:
    """d_u = b + min(μ exp(σ z_u), cap - b)."""
    mean = shape.interactions / shape.users
    # A quarter of the catalogue, or the mean where the data are denser than that.
    cap = int(np.ceil(mean + (shape.items - mean) / 4))
    weight_U = np.exp(_ACTIVITY * rng.standard_normal(shape.users))
    return _apportion(weight_U, shape.interactions, shape.min_per_user, cap)


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


def mend(users_E: Ints, items_E: Ints, shape: Shape, rng: np.random.Generator) -> None:
    """Make all pairs distinct in place, keeping every degree.

    A repeated pair (u, i) and a pair (v, j) nearby become (u, j) and (v, i) if both are new; the
    neighbourhood, at first a niche, doubles every round. If pairs are left in the end, which only
    tiny shapes have, all are paired again without taste.
    """
    pair_E = users_E * shape.items + items_E
    order_E = np.argsort(pair_E, kind="stable")
    known_E = pair_E[order_E]
    pending_P = order_E[1:][known_E[1:] == known_E[:-1]]
    reach = 1 + int(_NICHE * shape.interactions / shape.items)
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
    if len(pending_P):
        _pair_greedily(users_E, items_E, shape)


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


def _pair_greedily(users_E: Ints, items_E: Ints, shape: Shape) -> None:
    """Pair every user with the items that lack most users; graphical degrees always allow it."""
    lack_I = np.bincount(items_E, minlength=shape.items)
    for user, degree in enumerate(np.bincount(users_E, minlength=shape.users).tolist()):
        chosen = np.argsort(-lack_I, kind="stable")[:degree]
        items_E[users_E == user] = chosen
        lack_I[chosen] -= 1
