"""How rows of parameters move on the CPU, one kind for each class of optimiser.

Each table has its step, with the state that the table does not hold itself. A row of a table
is θ, or θ and Adam's m and v, side by side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import by_default, variant
from sdgar.kernels.numba.rows import (
    Number,
    Numbers,
    Row,
    add_row,
    clear_row,
    dot_rows,
    each_place,
    muladd,
    root,
    row_at,
    scale_row,
    square_root,
    sum_of_places,
)
from sdgar.kernels.numba.threads import prefetch


class Gradient(NamedTuple):
    """The gradient g + c u + reg θ of a row θ."""

    g: Any
    """The address of a row that is all zeros, or the sum of other gradients."""
    c: Any
    u: Any
    """The address of a row."""
    reg: Any


class SGD(NamedTuple):
    """θ ← θ - η g."""

    rate: np.float32


class RowAdagrad(NamedTuple):
    """θ ← θ - η g / (√G + ε), with G ← G + mean_d g_d²."""

    rate: np.float32
    epsilon: np.float32
    sum_R: NDArray[np.float32]


class LazyAdam(NamedTuple):
    """θ ← θ - η m̂ / (√v̂ + ε), with m ← β₁ m + (1 - β₁) g and v ← β₂ v + (1 - β₂) g²."""

    rate: np.float32
    beta1: np.float32
    beta2: np.float32
    epsilon: np.float32


@by_default
def at(step, number):
    """Return the step as it is once so many steps are taken, this one included."""
    return step


@variant(at, LazyAdam)
def _at_lazy_adam(step, number):
    """Take the corrections of bias out of the loops: m̂ = m / (1 - β₁ᵗ), v̂ = v / (1 - β₂ᵗ)."""
    fix1 = np.float32(1 / (1 - np.float64(step.beta1) ** number))
    root = np.sqrt(np.float32(1 / (1 - np.float64(step.beta2) ** number)))
    return LazyAdam(step.rate * fix1 / root, step.beta1, step.beta2, step.epsilon / root)


@by_default
def prefetch_sums(step, row):
    """Prefetch the state that a step has of a row outside of the table."""


@variant(prefetch_sums, RowAdagrad)
def _prefetch_sums(step, row):
    prefetch(step.sum_R.ctypes.data + np.uint64(row) * np.uint64(4))


@by_default
def rests(step):
    """Return whether a row stays where it is if its gradient is 0."""
    return True


@variant(rests, LazyAdam)
def _moves_on(step):
    """Return False: earlier gradients still move it."""
    return False


def rate_of(step, row, mean):
    """Return the learning rate of a row whose squared gradient has this mean."""


@variant(rate_of, SGD)
def _rate_of_all(step, row, mean):
    return step.rate


@variant(rate_of, RowAdagrad)
def _rate_of_row(step, row, mean):
    step.sum_R[row] += mean
    return step.rate / (square_root(step.sum_R[row]) + step.epsilon)


def move(step, table_RCD, row, by):
    """Move a row by its ``Gradient``."""


def turn(step, table_RCD, row, by):
    """Move a row along the sphere, by g + c u without its part along θ, and back to length 1.

    The row g stays as it is, or becomes 0.
    """


def move_one(step, table_RC, row, g):
    """Move the one number of a row by its gradient."""


def _gradient(theta: Row, g: Row, u: Row, c: Number, reg: Number) -> Numbers:
    """G + c u + reg θ, at one place."""
    return muladd(reg, theta, muladd(c, u, g))


@each_place
def _step(theta: Row, g: Row, u: Row, c: Number, reg: Number, rate: Number) -> Numbers:
    """Θ - η (g + c u + reg θ)."""
    return theta - rate * _gradient(theta, g, u, c, reg)


@sum_of_places
def _squares(before: Numbers, theta: Row, g: Row, u: Row, c: Number, reg: Number) -> Numbers:
    """Σ_d (g + c u + reg θ)²."""
    found = _gradient(theta, g, u, c, reg)
    return muladd(found, found, before)


@each_place
def _adam_step(
    theta: Row, m: Row, s: Row, g: Row, u: Row, c: Number, reg: Number, rate: Number, beta1: Number,
    rest1: Number, beta2: Number, rest2: Number, epsilon: Number,
) -> tuple[Numbers, Numbers, Numbers]:  # fmt: skip
    """Θ - η m / (√s + ε) with the new m and s, and these."""
    found = _gradient(theta, g, u, c, reg)
    m = muladd(beta1, m, rest1 * found)
    s = muladd(beta2, s, rest2 * found * found)
    return theta - rate * m / (root(s) + epsilon), m, s


def _aside(theta: Row, g: Row, u: Row, c: Number, a: Number) -> Numbers:
    """P = g + c u - a θ, at one place: what is not along θ, if a is (g + c u) · θ."""
    return muladd(c, u, g) - a * theta


@sum_of_places
def _along(before: Numbers, theta: Row, g: Row, u: Row, c: Number) -> Numbers:
    """(g + c u) · θ."""
    return muladd(theta, muladd(c, u, g), before)


@sum_of_places
def _products(
    before: tuple[Numbers, Numbers, Numbers], theta: Row, g: Row, u: Row, c: Number, a: Number
) -> tuple[Numbers, Numbers, Numbers]:
    """P · p, p · θ and θ · θ."""
    p, (pp, pt, tt) = _aside(theta, g, u, c, a), before
    return muladd(p, p, pp), muladd(p, theta, pt), muladd(theta, theta, tt)


@each_place
def _turn_step(
    theta: Row, g: Row, u: Row, c: Number, a: Number, rate: Number, inverse: Number
) -> Numbers:
    """(θ - η p) / ‖θ - η p‖."""
    return (theta - rate * _aside(theta, g, u, c, a)) * inverse


@variant(turn, SGD, RowAdagrad)
def _turn_at_one_rate(step, table_RCD, row, by):
    """Θ ← (θ - η p) / ‖θ - η p‖, with a length from the products of p and θ.

    A p that is almost 0 is made of rounding, and not at a right angle to θ.
    """
    dim, theta = table_RCD.shape[2], row_at(table_RCD, row)
    a = _along(theta, by.g, by.u, by.c, dim)
    pp, pt, tt = _products(theta, by.g, by.u, by.c, a, dim)
    rate = rate_of(step, row, pp / np.float32(dim))
    square = tt - np.float32(2) * (rate * pt) + rate * (rate * pp)
    _turn_step(theta, by.g, by.u, by.c, a, rate, np.float32(1) / square_root(square), dim)


@variant(turn, LazyAdam)
def _turn_lazy_adam(step, table_RCD, row, by):
    dim, theta, g, zero = table_RCD.shape[2], row_at(table_RCD, row), by.g, np.float32(0)
    # Adam needs each number of the gradient, so its part along θ is taken off before the step.
    add_row(g, by.u, by.c, dim)
    add_row(g, theta, -dot_rows(g, theta, dim), dim)
    move(step, table_RCD, row, Gradient(g, zero, by.u, zero))
    scale_row(theta, theta, np.float32(1) / square_root(dot_rows(theta, theta, dim)), dim)
    clear_row(g, dim)


@variant(move, SGD)
def _move_sgd(step, table_RCD, row, by):
    dim, theta = table_RCD.shape[2], row_at(table_RCD, row)
    _step(theta, by.g, by.u, by.c, by.reg, step.rate, dim)


@variant(move_one, SGD)
def _move_one_sgd(step, table_RC, row, g):
    table_RC[row, 0] -= step.rate * g


@variant(move, RowAdagrad)
def _move_row_adagrad(step, table_RCD, row, by):
    dim, theta = table_RCD.shape[2], row_at(table_RCD, row)
    square = _squares(theta, by.g, by.u, by.c, by.reg, dim) / np.float32(dim)
    _step(theta, by.g, by.u, by.c, by.reg, rate_of(step, row, square), dim)


@variant(move_one, RowAdagrad)
def _move_one_row_adagrad(step, table_RC, row, g):
    step.sum_R[row] += g * g
    table_RC[row, 0] -= step.rate * g / (square_root(step.sum_R[row]) + step.epsilon)


@variant(move, LazyAdam)
def _move_lazy_adam(step, table_RCD, row, by):
    dim = table_RCD.shape[2]
    # θ, m and v are side by side: one address, and cache lines that follow each other.
    theta, size = row_at(table_RCD, row), np.uint64(dim * 4)
    _adam_step(
        theta, theta + size, theta + size + size, by.g, by.u, by.c, by.reg, step.rate,
        step.beta1, np.float32(1) - step.beta1, step.beta2, np.float32(1) - step.beta2,
        step.epsilon, dim,
    )  # fmt: skip


@variant(move_one, LazyAdam)
def _move_one_lazy_adam(step, table_RC, row, g):
    m = step.beta1 * table_RC[row, 1] + (np.float32(1) - step.beta1) * g
    s = step.beta2 * table_RC[row, 2] + (np.float32(1) - step.beta2) * g * g
    table_RC[row, 1], table_RC[row, 2] = m, s
    table_RC[row, 0] -= step.rate * m / (square_root(s) + step.epsilon)
