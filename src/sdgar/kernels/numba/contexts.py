"""The vectors of contexts on the CPU: rows of a table, or sums of the rows of their fields.

u_c = Σ_f e_f(c)             sums, whose gradient reaches every e_f as it is
u_c = Σ_f e_f(c) / ‖Σ‖       their directions: of the gradient g, e_f gets (g - (g · u) u) / ‖Σ‖
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import by_default, often, variant
from sdgar.kernels.numba.rows import add_row, clear_row, dot_rows, row_at, scale_row, square_root
from sdgar.kernels.numba.scores import move_vector
from sdgar.kernels.numba.steps import Gradient, move
from sdgar.kernels.numba.threads import prefetch, prefetch_vector, prefetch_whole_row


class Tables(NamedTuple):
    """The vectors of contexts and items; a row holds the vector and the state of its step."""

    user_UCD: NDArray[np.float32]
    item_ICD: NDArray[np.float32]


class Summed(NamedTuple):
    """The vectors where contexts have several fields; rows hold vectors and the state of steps."""

    user_UCD: NDArray[np.float32]
    """u_c, added up again for each visit. Threads that visit one context write the same numbers."""
    item_ICD: NDArray[np.float32]
    field_VCD: NDArray[np.float32]
    """A vector for each value of each field."""
    place_UF: NDArray[np.int32]
    inverse_U: NDArray[np.float32]
    """1 / ‖Σ‖ of directions; 0 where sums stay as they are."""
    directions: bool


def prefetch_context(tables, user):
    """Prefetch the vector of a context, or the places of the vectors that it is a sum of."""


@by_default
def prefetch_fields(tables, user):
    """Prefetch the vectors that a context is a sum of."""


@by_default
def add_up(tables, visits, user_V, g_D):
    """Bring u_c of visited contexts up to date; g is 0 before and afterwards."""


def pass_to_rows(tables, user, v, place_VF, grad_VD):
    """Store which rows visit v moves, and turn the gradient of u_c into their gradients."""


def prefetch_moved(tables, row):
    """Prefetch a row that will be moved."""


@often
def move_row(tables, scores, steps, row, by):
    """Move a row by its ``Gradient``; cosines ignore its ``reg``."""


@variant(prefetch_context, Tables)
def _prefetch_vector(tables, user):
    prefetch_vector(tables.user_UCD, user)


@variant(pass_to_rows, Tables)
def _to_the_context(tables, user, v, place_VF, grad_VD):
    place_VF[v, 0] = user


@variant(prefetch_moved, Tables)
def _prefetch_one_context(tables, row):
    prefetch_whole_row(tables.user_UCD, row)


@variant(move_row, Tables)
def _move_context(tables, scores, steps, row, by):
    move_vector(scores, steps.user, tables.user_UCD, row, by)


@variant(prefetch_context, Summed)
def _prefetch_places(tables, user):
    prefetch(row_at(tables.place_UF, user))
    prefetch_whole_row(tables.user_UCD, user)


@variant(prefetch_fields, Summed)
def _prefetch_values(tables, user):
    for f in range(tables.place_UF.shape[1]):
        prefetch_vector(tables.field_VCD, tables.place_UF[user, f])


@variant(add_up, Summed)
def _add_up(tables, visits, user_V, g_D):
    user_UCD, field_VCD, place_UF = tables.user_UCD, tables.field_VCD, tables.place_UF
    dim, g, one = len(g_D), g_D.ctypes.data, np.float32(1)
    for visit in range(visits):
        user = user_V[visit]
        # Another thread may read this context: its vector is written once, when it is complete.
        scale_row(g, row_at(field_VCD, place_UF[user, 0]), one, dim)
        for f in range(1, place_UF.shape[1]):
            add_row(g, row_at(field_VCD, place_UF[user, f]), one, dim)
        inverse = one
        if tables.directions:
            # As torch has it, which divides by the length or by 1e-12.
            inverse = one / max(square_root(dot_rows(g, g, dim)), np.float32(1e-12))
            tables.inverse_U[user] = inverse
        scale_row(row_at(user_UCD, user), g, inverse, dim)
    clear_row(g, dim)


@variant(pass_to_rows, Summed)
def _to_the_fields(tables, user, v, place_VF, grad_VD):
    for f in range(tables.place_UF.shape[1]):
        place_VF[v, f] = tables.place_UF[user, f]
    if tables.directions:
        dim, g, u = grad_VD.shape[1], row_at(grad_VD, v), row_at(tables.user_UCD, user)
        add_row(g, u, -dot_rows(g, u, dim), dim)
        scale_row(g, g, tables.inverse_U[user], dim)


@variant(prefetch_moved, Summed)
def _prefetch_one_value(tables, row):
    prefetch_whole_row(tables.field_VCD, row)


@variant(move_row, Summed)
def _move_value(tables, scores, steps, row, by):
    reg = np.float32(0) if tables.directions else by.reg
    move(steps.user, tables.field_VCD, row, Gradient(by.g, by.c, by.u, reg))
