"""Scores on the CPU, and how their gradients reach the rows that they are made of.

    s = u · v + b               products
    s = u · v / τ (+ b)         cosines, of rows whose length is 1
    s = 2 u · v - ‖v‖²          nearness, of rows whose length is at most 1

A slope dl/ds enters the gradient of u as slope · a v, and that of v as slope · a u; nearness adds
slope · (-2 v) to that of v.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import by_default, inner, often, variant
from sdgar.kernels.numba.math import dot
from sdgar.kernels.numba.rows import (
    Numbers,
    Row,
    muladd,
    row_at,
    scale_row,
    square_root,
    sum_of_places,
)
from sdgar.kernels.numba.steps import move, move_one, turn
from sdgar.kernels.numba.threads import prefetch, prefetch_vector


class MatrixFactorization(NamedTuple):
    """s = u · v + b.

    The biases have a separate table: it stays in the caches, and a row of 32 numbers then
    takes two cache lines, not three.
    """

    bias_IC: NDArray[np.float32]


class Cosine(NamedTuple):
    """s = u · v / τ."""

    over_tau: np.float32


class BiasedCosine(NamedTuple):
    """s = u · v / τ + b."""

    over_tau: np.float32
    bias_IC: NDArray[np.float32]


class Metric(NamedTuple):
    """s = 2 u · v - ‖v‖² of points in the unit ball."""


def score(scores, tables, user, item):
    """Return the score of one pair."""


@by_default
def prefetch_bias(scores, item):
    """Prefetch the bias of an item, if there are biases."""


@inner
def prefetch_item(scores, tables, item):
    """Prefetch what a score needs of an item."""
    prefetch_vector(tables.item_ICD, item)
    prefetch_bias(scores, item)


def factor(scores):
    """Return a, by which the one vector is multiplied in the gradient of the other."""


@by_default
def moved_by_slopes_alone(scores):
    """Return whether an item whose slopes are all 0 has a gradient of 0.

    Cosines without biases could say yes, but no loss leaves them without a slope.
    """
    return False


@often
def move_vector(scores, step, table_RCD, row, by):
    """Move the vector of a context or an item by its ``Gradient``; cosines ignore its ``reg``."""


@by_default
def decay_of_item(scores, reg, slope):
    """Return the factor of θ in an item's gradient, from L2's part and the sum of its slopes."""
    return reg


@by_default
def move_bias(scores, step, item, reg, slope):
    """Move the bias of an item, whose gradient is the sum of its slopes, if there are biases."""


@variant(moved_by_slopes_alone, Metric)
def _moved_by_slopes(scores):
    return True


@variant(prefetch_bias, MatrixFactorization, BiasedCosine)
def _prefetch_bias(scores, item):
    size = np.uint64(scores.bias_IC.shape[1] * 4)
    prefetch(scores.bias_IC.ctypes.data + np.uint64(item) * size)


@variant(score, MatrixFactorization)
def _product(scores, tables, user, item):
    return dot(tables.user_UCD, tables.item_ICD, user, item) + scores.bias_IC[item, 0]


@variant(factor, MatrixFactorization)
def _no_factor(scores):
    return np.float32(1)


@variant(move_vector, MatrixFactorization)
def _move_freely(scores, step, table_RCD, row, by):
    move(step, table_RCD, row, by)


@variant(move_bias, MatrixFactorization, BiasedCosine)
def _move_bias(scores, step, item, reg, slope):
    move_one(step, scores.bias_IC, item, slope + reg * scores.bias_IC[item, 0])


@variant(score, Cosine)
def _cosine(scores, tables, user, item):
    return dot(tables.user_UCD, tables.item_ICD, user, item) * scores.over_tau


@variant(score, BiasedCosine)
def _biased_cosine(scores, tables, user, item):
    product = dot(tables.user_UCD, tables.item_ICD, user, item)
    return product * scores.over_tau + scores.bias_IC[item, 0]


@variant(factor, Cosine, BiasedCosine)
def _over_tau(scores):
    return scores.over_tau


@variant(move_vector, Cosine, BiasedCosine)
def _move_on_sphere(scores, step, table_RCD, row, by):
    turn(step, table_RCD, row, by)


@sum_of_places
def _near(before: Numbers, u: Row, v: Row) -> Numbers:
    """Σ_d (2 u_d - v_d) v_d."""
    return muladd(u + u - v, v, before)


@variant(score, Metric)
def _nearness(scores, tables, user, item):
    user_UCD, item_ICD = tables.user_UCD, tables.item_ICD
    return _near(row_at(user_UCD, user), row_at(item_ICD, item), user_UCD.shape[2])


@variant(factor, Metric)
def _twice(scores):
    return np.float32(2)


@variant(decay_of_item, Metric)
def _decay_by_slopes(scores, reg, slope):
    return np.float32(-2) * slope


@variant(move_vector, Metric)
def _move_in_ball(scores, step, table_RCD, row, by):
    """Move a row, and divide it by its length if that is above 1."""
    move(step, table_RCD, row, by)
    square = dot(table_RCD, table_RCD, row, row)
    if square > 1:
        theta = row_at(table_RCD, row)
        scale_row(theta, theta, np.float32(1) / square_root(square), table_RCD.shape[2])
