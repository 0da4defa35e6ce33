"""Scores on the CPU, and how their gradients reach the rows that they are made of.

    s = u · v + b               products
    s = u · v / τ (+ b)         cosines, of rows whose length is 1

A slope dl/ds enters the gradient of u as slope · a v, and that of v as slope · a u.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import inner, summing, variant
from sdgar.kernels.numba.math import dot
from sdgar.kernels.numba.steps import move, move_one


class MatrixFactorization(NamedTuple):
    """s = u · v + b.

    The biases have a table of their own: it stays in the caches, and a row of 32 numbers then
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


Scores = MatrixFactorization | Cosine | BiasedCosine


def score(scores: Any, tables: Any, user: Any, item: Any) -> Any:
    """Return the score of one pair."""


def factor(scores: Any) -> Any:
    """Return a, by which the one vector is multiplied in the gradient of the other."""


def move_user(
    scores: Any, steps: Any, tables: Any, user: Any, g_D: Any, c: Any, grad_VD: Any, v: Any,
    reg: Any,
) -> Any:  # fmt: skip
    """Update one row of contexts; its gradient is g_D + c · grad_VD[v] + reg · θ.

    Cosines ignore ``reg``.
    """


def move_item(
    scores: Any, steps: Any, tables: Any, item: Any, g_D: Any, c: Any, u_VD: Any, v: Any,
    slope: Any, reg: Any,
) -> Any:  # fmt: skip
    """Update one item; its gradient is g_D + c · u_VD[v] + reg · θ, and cosines ignore ``reg``.

    ``slope`` is the sum of the item's slopes, the gradient of its bias.
    """


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


@summing
def _along(g_D: Any, table_RCD: Any, row: Any) -> Any:
    """Return the product g · θ."""
    total = np.float32(0)
    for d in range(table_RCD.shape[2]):
        total += g_D[d] * table_RCD[row, 0, d]
    return total


@inner
def _turn(
    step: Any, table_RCD: Any, row: Any, g_D: Any, c: Any, u_VD: Any, v: Any
) -> Any:  # fmt: skip
    """Move a row along the sphere, by g + c u without its part along θ, and back to length 1.

    g_D is 0 afterwards.
    """
    dim = table_RCD.shape[2]
    for d in range(dim):
        g_D[d] += c * u_VD[v, d]
    along = _along(g_D, table_RCD, row)
    for d in range(dim):
        g_D[d] -= along * table_RCD[row, 0, d]
    move(step, table_RCD, row, g_D, np.float32(0), u_VD, v, np.float32(0))
    inverse = np.float32(1) / np.sqrt(dot(table_RCD, table_RCD, row, row))
    for d in range(dim):
        table_RCD[row, 0, d] *= inverse
        g_D[d] = 0
    return None


@variant(move_user, Cosine, BiasedCosine)
def _turn_user(
    scores: Any, steps: Any, tables: Any, user: Any, g_D: Any, c: Any, grad_VD: Any, v: Any,
    reg: Any,
) -> Any:  # fmt: skip
    _turn(steps.user, tables.user_UCD, user, g_D, c, grad_VD, v)
    return None


@variant(move_item, Cosine)
def _turn_item(
    scores: Any, steps: Any, tables: Any, item: Any, g_D: Any, c: Any, u_VD: Any, v: Any,
    slope: Any, reg: Any,
) -> Any:  # fmt: skip
    _turn(steps.item, tables.item_ICD, item, g_D, c, u_VD, v)
    return None


@variant(move_item, BiasedCosine)
def _turn_item_and_move_bias(
    scores: Any, steps: Any, tables: Any, item: Any, g_D: Any, c: Any, u_VD: Any, v: Any,
    slope: Any, reg: Any,
) -> Any:  # fmt: skip
    _turn(steps.item, tables.item_ICD, item, g_D, c, u_VD, v)
    move_one(steps.bias, scores.bias_IC, item, slope + reg * scores.bias_IC[item, 0])
    return None
