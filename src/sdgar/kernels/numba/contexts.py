"""The vectors of contexts on the CPU: rows of a table, or sums of the rows of their fields.

u_c = Σ_f e_f(c)             sums, whose gradient reaches every e_f as it is
u_c = Σ_f e_f(c) / ‖Σ‖       their directions: of the gradient g, e_f gets (g - (g · u) u) / ‖Σ‖
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import often, variant
from sdgar.kernels.numba.rows import add_row, clear_row, dot_rows, row_at, scale_row, square_root
from sdgar.kernels.numba.scores import move_user
from sdgar.kernels.numba.steps import move
from sdgar.kernels.numba.threads import prefetch, prefetch_row


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


def prefetch_context(tables: Any, user: Any) -> Any:
    """Prefetch the vector of a context, or the places of the vectors that it is a sum of."""


def prefetch_fields(tables: Any, user: Any) -> Any:
    """Prefetch the vectors that a context is a sum of."""


def add_up(tables: Any, visits: Any, user_V: Any, g_D: Any) -> Any:
    """Bring u_c of visited contexts up to date; g is 0 before and afterwards."""


def pass_to_rows(tables: Any, user: Any, v: Any, place_VF: Any, grad_VD: Any) -> Any:
    """Store which rows visit v moves, and turn the gradient of u_c into their gradients."""


def prefetch_moved(tables: Any, row: Any) -> Any:
    """Prefetch a row that will be moved."""


@often
def move_row(
    tables: Any, scores: Any, steps: Any, row: Any, g_D: Any, c: Any, grad_VD: Any, v: Any, reg: Any
) -> Any:
    """Move a row by its gradient g_D + c · grad_VD[v] + reg · θ; cosines ignore ``reg``."""


@variant(prefetch_context, Tables)
def _prefetch_vector(tables: Any, user: Any) -> Any:
    user_UCD = tables.user_UCD
    size = np.uint64(user_UCD.shape[1] * user_UCD.shape[2] * 4)
    prefetch_row(user_UCD.ctypes.data, user, size, np.uint64(user_UCD.shape[2] * 4))
    return None


@variant(prefetch_fields, Tables)
def _no_fields(tables: Any, user: Any) -> Any:
    return None


@variant(add_up, Tables)
def _nothing_to_add(tables: Any, visits: Any, user_V: Any, g_D: Any) -> Any:
    return None


@variant(pass_to_rows, Tables)
def _to_the_context(tables: Any, user: Any, v: Any, place_VF: Any, grad_VD: Any) -> Any:
    place_VF[v, 0] = user
    return None


@variant(prefetch_moved, Tables)
def _prefetch_one_context(tables: Any, row: Any) -> Any:
    size = np.uint64(tables.user_UCD.shape[1] * tables.user_UCD.shape[2] * 4)
    prefetch_row(tables.user_UCD.ctypes.data, row, size, size)
    return None


@variant(move_row, Tables)
def _move_context(
    tables: Any, scores: Any, steps: Any, row: Any, g_D: Any, c: Any, grad_VD: Any, v: Any, reg: Any
) -> Any:
    move_user(scores, steps, tables, row, g_D, c, grad_VD, v, reg)
    return None


@variant(prefetch_context, Summed)
def _prefetch_places(tables: Any, user: Any) -> Any:
    prefetch(row_at(tables.place_UF, user))
    size = np.uint64(tables.user_UCD.shape[2] * 4)
    prefetch_row(tables.user_UCD.ctypes.data, user, size, size)
    return None


@variant(prefetch_fields, Summed)
def _prefetch_values(tables: Any, user: Any) -> Any:
    field_VCD = tables.field_VCD
    size = np.uint64(field_VCD.shape[1] * field_VCD.shape[2] * 4)
    used = np.uint64(field_VCD.shape[2] * 4)
    for f in range(tables.place_UF.shape[1]):
        prefetch_row(field_VCD.ctypes.data, tables.place_UF[user, f], size, used)
    return None


@variant(add_up, Summed)
def _add_up(tables: Any, visits: Any, user_V: Any, g_D: Any) -> Any:
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
    return None


@variant(pass_to_rows, Summed)
def _to_the_fields(tables: Any, user: Any, v: Any, place_VF: Any, grad_VD: Any) -> Any:
    for f in range(tables.place_UF.shape[1]):
        place_VF[v, f] = tables.place_UF[user, f]
    if tables.directions:
        dim, g, u = grad_VD.shape[1], row_at(grad_VD, v), row_at(tables.user_UCD, user)
        add_row(g, u, -dot_rows(g, u, dim), dim)
        scale_row(g, g, tables.inverse_U[user], dim)
    return None


@variant(prefetch_moved, Summed)
def _prefetch_one_value(tables: Any, row: Any) -> Any:
    size = np.uint64(tables.field_VCD.shape[1] * tables.field_VCD.shape[2] * 4)
    prefetch_row(tables.field_VCD.ctypes.data, row, size, size)
    return None


@variant(move_row, Summed)
def _move_value(
    tables: Any, scores: Any, steps: Any, row: Any, g_D: Any, c: Any, grad_VD: Any, v: Any, reg: Any
) -> Any:
    reg = np.float32(0) if tables.directions else reg
    move(steps.user, tables.field_VCD, row, g_D, c, grad_VD, v, reg)
    return None
