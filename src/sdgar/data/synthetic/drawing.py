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

Axis letters beyond those of ``contracts``: C interests, S sessions, P pairs to mend, N anything.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdgar.data.account import RowAccount
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic.degrees import activity, popularity
from sdgar.data.synthetic.distinct import mend
from sdgar.data.synthetic.shape import PRESETS, Shape
from sdgar.data.synthetic.taste import by_place, item_places, pick, user_places
from sdgar.errors import unknown_name
from sdgar.maths.rng import Stream, check_seed

Ints = NDArray[np.int64]

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
