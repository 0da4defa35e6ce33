"""Seeded implicit feedback with the margins of a real data set and a taste that can be learned.

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

Axis letters beyond those of ``contracts``: C interests, S sessions, P pairs to mend, N anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions, RowAccount
from sdgar.errors import UsageError, unknown_name
from sdgar.maths.rng import Stream, check_seed

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_SECOND = 1_000_000
_HOUR = 3600 * _SECOND
_START = 1_640_995_200 * _SECOND  # 2022-01-01, UTC
_SPAN = 2 * 365 * 24 * _HOUR
_PER_SESSION = 6

_SOLVER_STEPS = 40
_SWAP_ROUNDS = 64
_MOST_TRIES = 64
_LOG_TINY = -600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a synthetic data set looks like; checked at birth, so that ``generate`` cannot fail."""

    users: int
    """Users; every one occurs."""
    items: int
    """Items; every one occurs."""
    interactions: int
    """Distinct (user, item) pairs."""
    concentration: float
    """Share of the interactions on the ⌈5 %⌉ most popular items, as in the paper's Table 1."""
    min_per_user: int = 5
    """Fewest interactions of a user."""
    activity: float = 1.2
    """σ of the log-normal activity; 0 makes all users equally active."""
    head: float = 0.002
    """Zipf–Mandelbrot shift h as a share of the catalogue; larger flattens the bestsellers."""
    interests: float = 3.0
    """Interests of a user of mean activity; more with the square root of activity."""
    home: float = 0.03
    """Half of a user's interests lie within this share of the circle from home."""
    niche: float = 8.0
    """Half of a user's choices lie within this many items of an interest; larger blurs taste."""
    breadth: float = 4.0
    """How many items compete at one place; larger blurs taste."""
    mainstream: float = 0.1
    """Share of a user's choices that follow popularity alone."""
    ids: Literal["integer", "text"] = "integer"
    """Ids 1, 2, … or ``user-0001``, ``item-0001``, …."""

    def __post_init__(self) -> None:
        """Refuse what cannot be generated, and say what could."""
        self._check_counts()
        self._check_taste()
        self._check_concentration()

    @property
    def top(self) -> int:
        """Number of items that count as most popular: ⌈I / 20⌉."""
        return -(-self.items // 20)

    def _check_counts(self) -> None:
        for name in ("users", "items", "interactions", "min_per_user"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise _bad(f"{name} must be a whole number of at least 1, got {value!r}.")
        most = self.users * self.items // 2
        if self.interactions > most:
            raise _bad(
                f"{self.interactions:,} interactions are more than half of all pairs of "
                f"{self.users:,} users and {self.items:,} items, which leaves nothing to "
                f"recommend. Ask for at most {most:,}, or for more users or items."
            )
        least = max(self.users * self.min_per_user, self.items)
        if self.interactions < least:
            raise _bad(
                f"{self.interactions:,} interactions are too few for {self.users:,} users with at "
                f"least {self.min_per_user:,} each and {self.items:,} items with at least one. Ask "
                f"for at least {least:,}, or lower min_per_user, users or items."
            )

    def _check_taste(self) -> None:
        bounds = {
            "activity": (0.0, 4.0),
            "head": (0.0, 1.0),
            "interests": (1.0, 1000.0),
            "home": (0.0, 1.0),
            "niche": (0.0, float(self.items)),
            "breadth": (0.0, float(self.items)),
            "mainstream": (0.0, 1.0),
        }
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise _bad(f"{name} must lie from {low:g} to {high:g}, got {value!r}.")
        if self.ids not in ("integer", "text"):
            raise _bad(f"ids must be 'integer' or 'text', got {self.ids!r}.")

    def _check_concentration(self) -> None:
        each, over = divmod(self.interactions, self.items)
        flat = self.top * each + min(self.top, over)
        steep = min(self.top * self.users, self.interactions - (self.items - self.top))
        low, high = flat / self.interactions, steep / self.interactions
        if not low <= self.concentration <= high:
            raise _bad(
                f"concentration {self.concentration!r} cannot be reached: the {self.top:,} most "
                f"popular of {self.items:,} items can hold from {low:.4f} to {high:.4f} of "
                f"{self.interactions:,} interactions. Choose a share in that range."
            )


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
        users=7_947, items=25_975, interactions=134_860, concentration=0.3156, min_per_user=3
    ),
    "gowalla": Shape(
        users=29_858, items=40_988, interactions=1_027_464, concentration=0.2915, min_per_user=10
    ),
    "amazon": Shape(users=130_380, items=128_939, interactions=2_415_650, concentration=0.3298),
    "movielens": Shape(users=60_655, items=8_939, interactions=2_105_971, concentration=0.6198),
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
    """Draw a data set: users, items and interactions exact, concentration within a point."""
    key = np.array([check_seed(seed), Stream.SYNTHETIC], np.uint64)
    rng = np.random.Generator(np.random.Philox(key=key))
    degree_I = rng.permutation(_popularity(shape))
    degree_U = _activity(shape, degree_I, rng)
    users_E = _by_place(degree_U, _user_places(shape, degree_U, rng))
    items_E = _by_place(degree_I, _item_places(shape, degree_I, rng))
    _mend(users_E, items_E, shape, rng)
    pairs_E = np.sort(users_E * shape.items + items_E)
    return Interactions(
        users=_ids("user", shape.users, shape.ids),
        items=_ids("item", shape.items, shape.ids),
        indptr_U1=np.concatenate(([0], np.cumsum(degree_U))),
        items_E=(pairs_E % shape.items).astype(np.int32),
        account=RowAccount(read=shape.interactions, kept=shape.interactions),
        time_E=_times(degree_U, rng),
    )


# How often: exact degrees ------------------------------------------------------------------


def _popularity(shape: Shape) -> Ints:
    """d_I, most popular first, with the exponent s bisected for the concentration."""
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


def _activity(shape: Shape, degree_I: Ints, rng: np.random.Generator) -> Ints:
    """d_U; σ is halved until some set of distinct pairs has these degrees on both sides."""
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
    """Integers low + min(λ w, high - low) that sum to total, rounded by largest remainder."""
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
    """Whether distinct pairs with these degrees exist (Gale–Ryser).

    For all k:  Σ_{k largest} d_u  ≤  Σ_i min(d_i, k)
    """
    at_least_U = np.cumsum(np.bincount(degree_I, minlength=len(degree_U) + 1)[:0:-1])[::-1]
    return bool((np.cumsum(np.sort(degree_U)[::-1]) <= np.cumsum(at_least_U)).all())


# Who meets what: taste ---------------------------------------------------------------------


def _user_places(shape: Shape, degree_U: Ints, rng: np.random.Generator) -> Floats:
    """Places x = c_uk + (niche / I) ξ of the stubs of users, or anywhere."""
    grown_U = shape.interests * np.sqrt(degree_U * (shape.users / shape.interactions))
    interests_U = np.ceil(grown_U).astype(np.int64)
    home_C = np.repeat(rng.random(shape.users), interests_U)
    centre_C = home_C + shape.home * _cauchy(len(home_C), rng)
    # Squaring a uniform number gives the first interests the larger part.
    which_E = np.square(rng.random(shape.interactions))
    centre_E = centre_C[_pick(interests_U, degree_U, which_E)]
    place_E = centre_E + shape.niche / shape.items * _cauchy(shape.interactions, rng)
    anywhere_E = rng.random(shape.interactions) < shape.mainstream
    return np.where(anywhere_E, rng.random(shape.interactions), place_E)


def _item_places(shape: Shape, degree_I: Ints, rng: np.random.Generator) -> Floats:
    """Places x = p_i + (breadth · d_i / E) ξ of the stubs of items."""
    width_I = shape.breadth / shape.interactions * degree_I
    place_E = np.repeat(rng.random(shape.items), degree_I)
    return place_E + np.repeat(width_I, degree_I) * _cauchy(shape.interactions, rng)


def _cauchy(n: int, rng: np.random.Generator) -> Floats:
    return np.tan(np.pi * (rng.random(n) - 0.5))


def _pick(size_N: Ints, degree_N: Ints, part_E: Floats) -> Ints:
    """For each stub the one at ``part`` in 0 … 1 of its owner's block of a flat list."""
    first_N = np.cumsum(size_N) - size_N
    within_E = (part_E * np.repeat(size_N, degree_N)).astype(np.int64)
    return np.repeat(first_N, degree_N) + within_E


def _by_place(degree_N: Ints, place_E: Floats) -> Ints:
    """Owner of each stub, in order of place (mod 1)."""
    # Place and owner share a word: sorting words is four times as fast as sorting an index.
    turn_E = ((place_E % 1.0) * 2.0**31).astype(np.int64) & 0x7FFFFFFF
    word_E = (turn_E << 32) | np.repeat(np.arange(len(degree_N)), degree_N)
    word_E.sort()
    return word_E & 0xFFFFFFFF


# No pair twice -----------------------------------------------------------------------------


def _mend(users_E: Ints, items_E: Ints, shape: Shape, rng: np.random.Generator) -> None:
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
    """Random swaps within reach that make new pairs only; no stub and no new pair occurs twice."""
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
    """Rows of which neither value occurs earlier in left, right."""
    both = np.concatenate((left_P, right_P))
    first = np.zeros(len(both), bool)
    first[np.unique(both, return_index=True)[1]] = True
    return first[: len(left_P)] & first[len(left_P) :]


def _contains(sorted_N: Ints, wanted_P: Ints) -> Mask:
    at_P = np.searchsorted(sorted_N, wanted_P).clip(max=len(sorted_N) - 1)
    return np.asarray(sorted_N[at_P] == wanted_P)


def _reroute(users_E: Ints, items_E: Ints, pending_P: Ints, shape: Shape) -> None:
    """Give every pending stub an item by augmenting paths; degrees that are graphical have one.

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
    """Breadth first: (users, items first reached from them) until an item lacks a user."""
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


# When, and names ---------------------------------------------------------------------------


def _times(degree_U: Ints, rng: np.random.Generator) -> Ints:
    """Microseconds: a user joins some day of two years and comes back in sessions of an hour."""
    sessions_U = -(-degree_U // _PER_SESSION)
    join_S = np.repeat(rng.random(len(degree_U)), sessions_U)
    start_S = join_S + (1.0 - join_S) * rng.random(len(join_S))
    start_E = start_S[_pick(sessions_U, degree_U, rng.random(int(degree_U.sum())))]
    within_E = rng.integers(0, _HOUR, len(start_E))
    return _START + (start_E * (_SPAN - _HOUR)).astype(np.int64) + within_E


def _ids(what: str, n: int, kind: str) -> Ids:
    if kind == "integer":
        return Ids.of(np.arange(1, n + 1))
    # Leading zeros: ids must ascend, and text sorts by letter.
    digits = max(4, len(str(n)))
    return Ids.of(np.array([f"{what}-{i:0{digits}d}" for i in range(1, n + 1)], dtype=object))


def _bad(message: str) -> UsageError:
    return UsageError(message, code="bad_shape")
