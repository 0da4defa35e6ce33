"""Scores on the CPU, and how their gradients reach the rows that they are made of.

    s = u · v + b               products
    s = û · v̂ / τ (+ b)         cosines, θ̂ = θ / ‖θ‖

A slope dl/ds enters the gradient of u as slope · a_i v, and that of v as slope · a_c u.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import inner, summing, variant
from sdgar.kernels.numba_math import dot
from sdgar.kernels.numba_steps import move, move_one


class Products(NamedTuple):
    """Scores u · v + b.

    The biases have a table of their own: it stays in the caches, and a row of 32 numbers then
    takes two cache lines, not three.
    """

    bias_IC: NDArray[np.float32]


class Cosines(NamedTuple):
    """Scores û · v̂ / τ; inverse is 1/‖u‖ and 1/‖v‖."""

    inverse_U: NDArray[np.float32]
    inverse_I: NDArray[np.float32]
    tau: np.float32


class BiasedCosines(NamedTuple):
    """Scores û · v̂ / τ + b."""

    inverse_U: NDArray[np.float32]
    inverse_I: NDArray[np.float32]
    tau: np.float32
    bias_IC: NDArray[np.float32]


Scores = Products | Cosines | BiasedCosines


def score(scores: Any, tables: Any, user: Any, item: Any) -> Any:
    """The score of one pair."""


def factor_of_user(scores: Any, user: Any) -> Any:
    """a_c: what u is multiplied with in the gradient of v."""


def factor_of_item(scores: Any, item: Any) -> Any:
    """a_i: what v is multiplied with in the gradient of u."""


def move_user(
    scores: Any, steps: Any, tables: Any, user: Any, g_D: Any, c: Any, grad_VD: Any, v: Any,
    reg: Any,
) -> Any:  # fmt: skip
    """Step a user by g + c grad, the gradient by what stands in the score, and reg θ."""


def move_item(
    scores: Any, steps: Any, tables: Any, item: Any, g_D: Any, c: Any, u_VD: Any, v: Any,
    slope: Any, reg: Any,
) -> Any:  # fmt: skip
    """Step an item by g + c u, the gradient by what stands in the score, and reg θ.

    ``slope`` is the sum of the item's slopes, the gradient of its bias.
    """


@variant(score, Products)
def _product(scores: Any, tables: Any, user: Any, item: Any) -> Any:
    return dot(tables.user_UCD, tables.item_ICD, user, item) + scores.bias_IC[item, 0]


@variant(factor_of_user, Products)
@variant(factor_of_item, Products)
def _no_factor(scores: Any, row: Any) -> Any:
    return np.float32(1)


@variant(move_user, Products)
def _move_user(
    scores: Any, steps: Any, tables: Any, user: Any, g_D: Any, c: Any, grad_VD: Any, v: Any,
    reg: Any,
) -> Any:  # fmt: skip
    move(steps.user, tables.user_UCD, user, g_D, c, grad_VD, v, reg)
    return None


@variant(move_item, Products)
def _move_item_and_bias(
    scores: Any, steps: Any, tables: Any, item: Any, g_D: Any, c: Any, u_VD: Any, v: Any,
    slope: Any, reg: Any,
) -> Any:  # fmt: skip
    move(steps.item, tables.item_ICD, item, g_D, c, u_VD, v, reg)
    move_one(steps.bias, scores.bias_IC, item, slope + reg * scores.bias_IC[item, 0])
    return None


@inner
def _cosine_of(scores: Any, tables: Any, user: Any, item: Any) -> Any:
    product = dot(tables.user_UCD, tables.item_ICD, user, item)
    return product * (scores.inverse_U[user] / scores.tau) * scores.inverse_I[item]


@variant(score, Cosines)
def _cosine(scores: Any, tables: Any, user: Any, item: Any) -> Any:
    return _cosine_of(scores, tables, user, item)


@variant(score, BiasedCosines)
def _biased_cosine(scores: Any, tables: Any, user: Any, item: Any) -> Any:
    return _cosine_of(scores, tables, user, item) + scores.bias_IC[item, 0]


@variant(factor_of_user, Cosines, BiasedCosines)
def _factor_of_user(scores: Any, user: Any) -> Any:
    return scores.inverse_U[user] / scores.tau


@variant(factor_of_item, Cosines, BiasedCosines)
def _factor_of_item(scores: Any, item: Any) -> Any:
    return scores.inverse_I[item] / scores.tau


@summing
def _along(g_D: Any, table_RCD: Any, row: Any) -> Any:
    """The product g · θ."""
    total = np.float32(0)
    for d in range(table_RCD.shape[2]):
        total += g_D[d] * table_RCD[row, 0, d]
    return total


@inner
def _move_turned(
    step: Any, table_RCD: Any, inverse_R: Any, row: Any, g_D: Any, c: Any, u_VD: Any, v: Any,
    reg: Any,
) -> Any:  # fmt: skip
    """From the gradient g + c u by θ̂ to that by θ: (g - (g · θ̂) θ̂) / ‖θ‖; g is 0 afterwards."""
    dim, inverse = table_RCD.shape[2], inverse_R[row]
    for d in range(dim):
        g_D[d] += c * u_VD[v, d]
    along = _along(g_D, table_RCD, row) * inverse * inverse
    for d in range(dim):
        g_D[d] = (g_D[d] - along * table_RCD[row, 0, d]) * inverse
    move(step, table_RCD, row, g_D, np.float32(0), u_VD, v, reg)
    for d in range(dim):
        g_D[d] = 0
    inverse_R[row] = np.float32(1) / np.sqrt(dot(table_RCD, table_RCD, row, row))
    return None


@variant(move_user, Cosines, BiasedCosines)
def _turn_user(
    scores: Any, steps: Any, tables: Any, user: Any, g_D: Any, c: Any, grad_VD: Any, v: Any,
    reg: Any,
) -> Any:  # fmt: skip
    _move_turned(steps.user, tables.user_UCD, scores.inverse_U, user, g_D, c, grad_VD, v, reg)
    return None


@variant(move_item, Cosines)
def _turn_item(
    scores: Any, steps: Any, tables: Any, item: Any, g_D: Any, c: Any, u_VD: Any, v: Any,
    slope: Any, reg: Any,
) -> Any:  # fmt: skip
    _move_turned(steps.item, tables.item_ICD, scores.inverse_I, item, g_D, c, u_VD, v, reg)
    return None


@variant(move_item, BiasedCosines)
def _turn_item_and_move_bias(
    scores: Any, steps: Any, tables: Any, item: Any, g_D: Any, c: Any, u_VD: Any, v: Any,
    slope: Any, reg: Any,
) -> Any:  # fmt: skip
    _move_turned(steps.item, tables.item_ICD, scores.inverse_I, item, g_D, c, u_VD, v, reg)
    move_one(steps.bias, scores.bias_IC, item, slope + reg * scores.bias_IC[item, 0])
    return None
