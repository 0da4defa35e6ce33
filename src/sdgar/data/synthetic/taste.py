"""Decide who meets what: every stub, one end of a pair, gets a place on a circle."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdgar.data.synthetic.shape import Shape

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
