"""Scores on the CPU, and how their gradients reach the rows that they are made of.

    s = u · v + b               products
    s = u · v / τ (+ b)         cosines, of rows whose length is 1
    s = 2 u · v - ‖v‖²          nearness, of rows whose length is at most 1

A slope dl/ds enters the gradient of u as slope · a v, and that of v as slope · a u; nearness adds
slope · (-2 v) to that of v.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import inner, often, variant
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
from sdgar.kernels.numba.threads import prefetch, prefetch_row


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


Scores = MatrixFactorization | Cosine | BiasedCosine | Metric


def score(scores: Any, tables: Any, user: Any, item: Any) -> Any:
    """Return the score of one pair."""


def prefetch_bias(scores: Any, item: Any) -> Any:
    """Prefetch the bias of an item, if there are biases."""


@inner
def prefetch_item(scores: Any, tables: Any, item: Any) -> Any:
    """Prefetch what a score needs of an item."""
    item_ICD = tables.item_ICD
    # A score reads the vector alone, the first part of a row; the state of the step comes later.
    size = np.uint64(item_ICD.shape[1] * item_ICD.shape[2] * 4)
    prefetch_row(item_ICD.ctypes.data, item, size, np.uint64(item_ICD.shape[2] * 4))
    prefetch_bias(scores, item)
    return None


def factor(scores: Any) -> Any:
    """Return a, by which the one vector is multiplied in the gradient of the other."""


def moved_by_slopes_alone(scores: Any) -> Any:
    """Return whether an item whose slopes are all 0 has a gradient of 0."""


@often
def move_user(
    scores: Any, steps: Any, tables: Any, user: Any, g_D: Any, c: Any, grad_VD: Any, v: Any,
    reg: Any,
) -> Any:  # fmt: skip
    """Update one row of contexts; its gradient is g_D + c · grad_VD[v] + reg · θ.

    Cosines ignore ``reg``.
    """


@often
def move_item(
    scores: Any, steps: Any, tables: Any, item: Any, g_D: Any, c: Any, u_VD: Any, v: Any,
    slope: Any, reg: Any,
) -> Any:  # fmt: skip
    """Update one item; its gradient is g_D + c · u_VD[v] + reg · θ, and cosines ignore ``reg``.

    ``slope`` is the sum of the item's slopes, the gradient of its bias.
    """


@variant(moved_by_slopes_alone, MatrixFactorization, Cosine, BiasedCosine)
def _moved_by_more(scores: Any) -> Any:
    """Return no; cosines without biases could say yes, but no loss leaves them without a slope."""
    return False


@variant(moved_by_slopes_alone, Metric)
def _moved_by_slopes(scores: Any) -> Any:
    return True


@variant(prefetch_bias, MatrixFactorization, BiasedCosine)
def _prefetch_bias(scores: Any, item: Any) -> Any:
    size = np.uint64(scores.bias_IC.shape[1] * 4)
    prefetch(scores.bias_IC.ctypes.data + np.uint64(item) * size)
    return None


@variant(prefetch_bias, Cosine, Metric)
def _no_bias(scores: Any, item: Any) -> Any:
    return None


@variant(score, MatrixFactorization)
def _product(scores: Any, tables: Any, user: Any, item: Any) -> Any:
    return dot(tables.user_UCD, tables.item_ICD, user, item) + scores.bias_IC[item, 0]


@variant(factor, MatrixFactorization)
def _no_factor(scores: Any) -> Any:
    return np.float32(1)


@variant(move_user, MatrixFactorization)
def _move_user(
    scores: Any, steps: Any, tables: Any, user: Any, g_D: Any, c: Any, grad_VD: Any, v: Any,
    reg: Any,
) -> Any:  # fmt: skip
    move(steps.user, tables.user_UCD, user, g_D, c, grad_VD, v, reg)
    return None


@variant(move_item, MatrixFactorization)
def _move_item_and_bias(
    scores: Any, steps: Any, tables: Any, item: Any, g_D: Any, c: Any, u_VD: Any, v: Any,
    slope: Any, reg: Any,
) -> Any:  # fmt: skip
    move(steps.item, tables.item_ICD, item, g_D, c, u_VD, v, reg)
    move_one(steps.bias, scores.bias_IC, item, slope + reg * scores.bias_IC[item, 0])
    return None


@variant(score, Cosine)
def _cosine(scores: Any, tables: Any, user: Any, item: Any) -> Any:
    return dot(tables.user_UCD, tables.item_ICD, user, item) * scores.over_tau


@variant(score, BiasedCosine)
def _biased_cosine(scores: Any, tables: Any, user: Any, item: Any) -> Any:
    product = dot(tables.user_UCD, tables.item_ICD, user, item)
    return product * scores.over_tau + scores.bias_IC[item, 0]


@variant(factor, Cosine, BiasedCosine)
def _over_tau(scores: Any) -> Any:
    return scores.over_tau


@variant(move_user, Cosine, BiasedCosine)
def _turn_user(
    scores: Any, steps: Any, tables: Any, user: Any, g_D: Any, c: Any, grad_VD: Any, v: Any,
    reg: Any,
) -> Any:  # fmt: skip
    turn(steps.user, tables.user_UCD, user, g_D, c, grad_VD, v)
    return None


@variant(move_item, Cosine)
def _turn_item(
    scores: Any, steps: Any, tables: Any, item: Any, g_D: Any, c: Any, u_VD: Any, v: Any,
    slope: Any, reg: Any,
) -> Any:  # fmt: skip
    turn(steps.item, tables.item_ICD, item, g_D, c, u_VD, v)
    return None


@variant(move_item, BiasedCosine)
def _turn_item_and_move_bias(
    scores: Any, steps: Any, tables: Any, item: Any, g_D: Any, c: Any, u_VD: Any, v: Any,
    slope: Any, reg: Any,
) -> Any:  # fmt: skip
    turn(steps.item, tables.item_ICD, item, g_D, c, u_VD, v)
    move_one(steps.bias, scores.bias_IC, item, slope + reg * scores.bias_IC[item, 0])
    return None


@sum_of_places
def _near(before: Numbers, u: Row, v: Row) -> Numbers:
    """Σ_d (2 u_d - v_d) v_d."""
    return muladd(u + u - v, v, before)


@variant(score, Metric)
def _nearness(scores: Any, tables: Any, user: Any, item: Any) -> Any:
    user_UCD, item_ICD = tables.user_UCD, tables.item_ICD
    return _near(row_at(user_UCD, user), row_at(item_ICD, item), user_UCD.shape[2])


@variant(factor, Metric)
def _twice(scores: Any) -> Any:
    return np.float32(2)


@inner
def _into_ball(table_RCD: Any, row: Any) -> Any:
    """Divide a row by its length if that is above 1."""
    square = dot(table_RCD, table_RCD, row, row)
    if square > 1:
        theta = row_at(table_RCD, row)
        scale_row(theta, theta, np.float32(1) / square_root(square), table_RCD.shape[2])
    return None


@variant(move_user, Metric)
def _move_user_in_ball(
    scores: Any, steps: Any, tables: Any, user: Any, g_D: Any, c: Any, grad_VD: Any, v: Any,
    reg: Any,
) -> Any:  # fmt: skip
    move(steps.user, tables.user_UCD, user, g_D, c, grad_VD, v, np.float32(0))
    _into_ball(tables.user_UCD, user)
    return None


@variant(move_item, Metric)
def _move_item_in_ball(
    scores: Any, steps: Any, tables: Any, item: Any, g_D: Any, c: Any, u_VD: Any, v: Any,
    slope: Any, reg: Any,
) -> Any:  # fmt: skip
    move(steps.item, tables.item_ICD, item, g_D, c, u_VD, v, np.float32(-2) * slope)
    _into_ball(tables.item_ICD, item)
    return None
