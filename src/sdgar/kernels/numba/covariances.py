"""Covariances between the axes of all vectors of a batch on the CPU, and how they pull at rows.

    n = Σ_y m_y            μ = 1/n Σ_y m_y y            C = 1/n Σ_y m_y (y - μ)(y - μ)'
    P = ‖C‖² - ‖diag C‖²   ∂(λ/2 P)/∂y = m_y · 2λ/n · (C - diag C)(y - μ)

over the distinct contexts and items y of a batch, where m_y is how often one occurs. A batch is cut
into parts of so many visits whatever the number of threads, and a row is added up in the part in
which it occurs first, so that every sum has one order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import inner
from sdgar.kernels.numba.owners import owns
from sdgar.kernels.numba.rows import WIDTH, add_row, row_at, scale_row
from sdgar.kernels.numba.sums import add_rows
from sdgar.kernels.numba.threads import meet, prefetch_row

_PART = 64
"""Visits of a part."""
_TOGETHER = 32
"""Rows that are added up together, so that sums are read and written less often."""
_AHEAD = 8
"""Entries ahead of the one whose row is read."""


class Covariances(NamedTuple):
    """The weight λ of the covariances, and what threads hand each other to compute them."""

    weight: np.float32
    touch_U: NDArray[np.float32]
    """How often a context occurs in the batch; 0 between batches."""
    touch_I: NDArray[np.float32]
    first_V: NDArray[np.bool_]
    """True where the context of a visit occurs for the first time."""
    first_e: NDArray[np.bool_]
    weight_KG: NDArray[np.float32]
    """How often each of some rows of a part occurs, which are added up together."""
    y_KGD: NDArray[np.float32]
    """The vectors of these rows."""
    z_KGD: NDArray[np.float32]
    """The rows, each times how often it occurs."""
    sum_KD: NDArray[np.float32]
    """Σ m y of a part of the batch."""
    sum_KDD: NDArray[np.float32]
    """Σ m y y' of a part of the batch."""
    mean_D: NDArray[np.float64]
    pull_DD: NDArray[np.float32]
    """The matrix 2λ/n · (C - diag C)."""
    pull_D: NDArray[np.float32]
    """That matrix times μ."""


def room_for(
    weight: float, n_users: int, n_items: int, dim: int, visits: int, entries: int
) -> Covariances:
    """Allocate what the covariances of batches of at most so many visits and entries need."""
    parts = -(-visits // _PART)
    return Covariances(
        weight=np.float32(weight),
        touch_U=np.zeros(n_users, np.float32),
        touch_I=np.zeros(n_items, np.float32),
        first_V=np.empty(visits, np.bool_),
        first_e=np.empty(entries, np.bool_),
        weight_KG=np.zeros((parts, _TOGETHER), np.float32),
        y_KGD=np.zeros((parts, _TOGETHER, dim), np.float32),
        z_KGD=np.zeros((parts, _TOGETHER, dim), np.float32),
        sum_KD=np.empty((parts, dim), np.float32),
        sum_KDD=np.empty((parts, dim, dim), np.float32),
        mean_D=np.empty(dim, np.float64),
        pull_DD=np.empty((dim, dim), np.float32),
        pull_D=np.empty(dim, np.float32),
    )


@inner
def _count(t: Any, threads: Any, visits: Any, p: Any, n: Any, scratch: Any, room: Any) -> Any:
    """Count how often each row that thread t owns occurs, and mark where it does so first."""
    touch_U, touch_I, first_V, first_e = room.touch_U, room.touch_I, room.first_V, room.first_e
    place_VF, item_e, count_V, s = scratch.place_VF, scratch.item_e, scratch.count_V, p + n
    for v in range(visits):
        count, user = np.float32(count_V[v]), np.int64(place_VF[v, 0])
        if owns(t, threads, user):
            first_V[v] = touch_U[user] == 0
            touch_U[user] += count
        for i in range(s):
            item = np.int64(item_e[v * s + i])
            if item >= 0 and owns(t, threads, item):
                first_e[v * s + i] = touch_I[item] == 0
                touch_I[item] += np.float32(1) if i < p else count
    return None


@inner
def _gather(k: Any, g: Any, table_RCD: Any, row: Any, m: Any, room: Any) -> Any:
    """Put a row and how often it occurs into place g of those that are added up together."""
    room.weight_KG[k, g] = m
    dim = table_RCD.shape[2]
    skipped, y = np.uint64(g * dim * 4), row_at(table_RCD, row)
    scale_row(row_at(room.y_KGD, k) + skipped, y, np.float32(1), dim)
    scale_row(row_at(room.z_KGD, k) + skipped, y, m, dim)
    return None


@inner
def _add(k: Any, g: Any, room: Any) -> Any:
    """Add m y and m y y' of g rows to the sums of a part.

    Of the matrix, which is the same on both sides, row d is added up from the vector of places that
    d lies in; ``_finish`` takes the rest from the other side.
    """
    y, z, one = row_at(room.y_KGD, k), row_at(room.z_KGD, k), np.float32(1)
    sums, dim = row_at(room.sum_KDD, k), room.sum_KD.shape[1]
    size = dim * 4
    add_rows(row_at(room.sum_KD, k), one, row_at(room.weight_KG, k), 4, y, size, g, dim)
    for d in range(dim):
        start = d // WIDTH * WIDTH
        add_rows(
            sums + np.uint64(d * size + start * 4), one, z + np.uint64(d * 4), size,
            y + np.uint64(start * 4), size, g, dim - start,
        )  # fmt: skip
    return None


@inner
def _ask_ahead(e: Any, entries: Any, item_ICD: Any, scratch: Any, room: Any) -> Any:
    """Bring the row of an entry that comes later towards the caches, if it will be added up."""
    if e < entries and room.first_e[e] and scratch.item_e[e] >= 0:
        size = np.uint64(item_ICD.shape[1] * item_ICD.shape[2] * 4)
        used = np.uint64(item_ICD.shape[2] * 4)
        prefetch_row(item_ICD.ctypes.data, scratch.item_e[e], size, used)
    return None


@inner
def _add_part(k: Any, visits: Any, p: Any, n: Any, tables: Any, scratch: Any, room: Any) -> Any:
    """Add up all rows that occur first in part k."""
    sum_KD, sum_KDD = room.sum_KD, room.sum_KDD
    touch_U, touch_I = room.touch_U, room.touch_I
    place_VF, item_e, s = scratch.place_VF, scratch.item_e, p + n
    dim, g = sum_KD.shape[1], 0
    for d in range(dim):
        sum_KD[k, d] = 0
        for e in range(dim):
            sum_KDD[k, d, e] = 0
    last = min((k + 1) * _PART, visits)
    for v in range(k * _PART, last):
        for e in range(v * s - 1, (v + 1) * s):
            if e < v * s:
                user = np.int64(place_VF[v, 0])
                if not room.first_V[v]:
                    continue
                _gather(k, g, tables.user_UCD, user, touch_U[user], room)
            else:
                _ask_ahead(e + _AHEAD, last * s, tables.item_ICD, scratch, room)
                item = np.int64(item_e[e])
                if item < 0 or not room.first_e[e]:
                    continue
                _gather(k, g, tables.item_ICD, item, touch_I[item], room)
            g += 1
            if g == _TOGETHER:
                _add(k, g, room)
                g = 0
    _add(k, g, room)
    return None


@inner
def _finish(first: Any, last: Any, parts: Any, vectors: Any, room: Any) -> Any:
    """Make rows first … last - 1 of the matrix that pulls, from the sums of all parts."""
    sum_KD, sum_KDD, mean_D, pull_DD = room.sum_KD, room.sum_KDD, room.mean_D, room.pull_DD
    dim = len(mean_D)
    for d in range(dim):  # every thread writes the same
        total = np.float64(0)
        for k in range(parts):
            total += sum_KD[k, d]
        mean_D[d] = total / vectors
    for d in range(first, last):
        along = np.float64(0)
        for e in range(dim):
            total, added = np.float64(0), e >= d // WIDTH * WIDTH
            for k in range(parts):
                total += sum_KDD[k, d, e] if added else sum_KDD[k, e, d]
            covariance = total / vectors - mean_D[d] * mean_D[e]
            pull_DD[d, e] = 2 * np.float64(room.weight) / vectors * covariance if d != e else 0
            along += pull_DD[d, e] * mean_D[e]
        room.pull_D[d] = along
    return None


@inner
def look_over(
    room: Any, t: Any, threads: Any, barrier_4: Any, visits: Any, positives: Any, p: Any, n: Any,
    tables: Any, scratch: Any,
) -> Any:  # fmt: skip
    """Compute μ and the matrix that pulls, of all vectors of a batch, by all threads together."""
    parts, dim = (visits + _PART - 1) // _PART, len(room.mean_D)
    _count(t, threads, visits, p, n, scratch, room)
    meet(barrier_4, threads)
    for k in range(t, parts, threads):  # the first parts have most of the rows
        _add_part(k, visits, p, n, tables, scratch, room)
    meet(barrier_4, threads)
    # A context and its items occur once for each of its positives.
    vectors = np.float64(positives * (2 + n))
    _finish(dim * t // threads, dim * (t + 1) // threads, parts, vectors, room)
    meet(barrier_4, threads)
    return None


@inner
def pull(room: Any, table_RCD: Any, row: Any, touches: Any, g_D: Any) -> Any:
    """g ← g + m · 2λ/n · (C - diag C)(y - μ)."""
    dim, g = len(g_D), g_D.ctypes.data
    add_row(g, room.pull_D.ctypes.data, -touches, dim)
    add_rows(
        g, touches, row_at(table_RCD, row), 4, room.pull_DD.ctypes.data, dim * 4, dim, dim
    )  # fmt: skip
    return None
