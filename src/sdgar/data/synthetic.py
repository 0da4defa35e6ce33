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

from sdgar.data.account import RowAccount
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic_degrees import activity, mend, popularity
from sdgar.errors import UsageError, unknown_name
from sdgar.lab.datasets import DATASETS
from sdgar.maths.rng import Stream, check_seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The shape of a synthetic data set, checked when it is made, so that drawing cannot fail."""

    users: int
    """The number of users; each of them occurs."""
    items: int
    """The number of items, all of which occur."""
    interactions: int
    """The number of distinct (user, item) pairs."""
    concentration: float
    """The share of the interactions on the ⌈5 %⌉ most popular items, as in the paper's Table 1."""
    min_per_user: int = 5
    """The fewest interactions that a user has."""
    activity: float = 1.2
    """The σ of the log-normal activity; 0 makes all users equally active."""
    head: float = 0.002
    """The Zipf–Mandelbrot shift h, a share of all items; a larger one flattens the bestsellers."""
    interests: float = 3.0
    """The interests of a user of mean activity; they grow with the square root of activity."""
    home: float = 0.03
    """Half of a user's interests lie within this share of the circle from home."""
    niche: float = 8.0
    """Half of a user's choices lie within this many items of an interest; more blurs taste."""
    breadth: float = 4.0
    """The number of items that compete at one place; a larger one blurs taste."""
    mainstream: float = 0.1
    """The share of a user's choices that follow popularity alone."""
    ids: Literal["integer", "text"] = "integer"
    """The kind of ids: 1, 2, … or ``user-0001``, ``item-0001``, …."""

    def __post_init__(self) -> None:
        """Raise if no such data set exists; the message lists the known ones."""
        self._check_counts()
        self._check_taste()
        self._check_concentration()

    @property
    def top(self) -> int:
        """top = ⌈I / 20⌉, the number of items that count as most popular."""
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
} | {
    dataset.short_name: Shape(
        users=dataset.paper_users,
        items=dataset.paper_items,
        interactions=dataset.paper_ratings,
        concentration=dataset.paper_concentration,
        min_per_user=dataset.least_per_user,
    )
    for dataset in DATASETS.values()
}
"""A small data set to play with, and the shapes of the paper's Table 1."""


def _bad(message: str) -> UsageError:
    return UsageError(message, code="bad_shape")


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def user_places(shape: Shape, degree_U: Ints, rng: np.random.Generator) -> Floats:
    """x = c_uk + (niche / I) ξ: the places of the stubs of users; some are anywhere."""
    grown_U = shape.interests * np.sqrt(degree_U * (shape.users / shape.interactions))
    interests_U = np.ceil(grown_U).astype(np.int64)
    home_C = np.repeat(rng.random(shape.users), interests_U)
    centre_C = home_C + shape.home * _cauchy(len(home_C), rng)
    # Squaring a uniform number gives the first interests the larger part.
    which_E = np.square(rng.random(shape.interactions))
    centre_E = centre_C[pick(interests_U, degree_U, which_E)]
    place_E = centre_E + shape.niche / shape.items * _cauchy(shape.interactions, rng)
    anywhere_E = rng.random(shape.interactions) < shape.mainstream
    return np.where(anywhere_E, rng.random(shape.interactions), place_E)


def item_places(shape: Shape, degree_I: Ints, rng: np.random.Generator) -> Floats:
    """x = p_i + (breadth · d_i / E) ξ: the places of the stubs of items."""
    width_I = shape.breadth / shape.interactions * degree_I
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


_SECOND = 1_000_000
_HOUR = 3600 * _SECOND
_START = 1_640_995_200 * _SECOND  # 2022-01-01, UTC
_SPAN = 2 * 365 * 24 * _HOUR
_PER_SESSION = 6


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
    degree_U = activity(shape, degree_I, rng)
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
