"""The visits of an epoch on the CPU: their contexts, their positives, and the rows of both.

What a visit needs is found in stages, each of which prefetches the cache lines that the next one
reads. A caller does something else between the stages of a visit, so that the lines are there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import inner, variant
from sdgar.kernels.numba.contexts import prefetch_context, prefetch_fields
from sdgar.kernels.numba.rng import permuted, words
from sdgar.kernels.numba.scores import prefetch_item
from sdgar.kernels.numba.threads import prefetch

_FOUR, _EIGHT = np.uint64(4), np.uint64(8)


class Rows(NamedTuple):
    """The training positives row by row; weight_E has length 0 if all weigh 1."""

    indptr_U1: NDArray[np.int64]
    pair_E2: NDArray[np.int32]
    """The user and the item of each row, which a visit needs together."""
    weight_E: NDArray[np.float32]


class Order(NamedTuple):
    """The visits; user_V and place_V have length 0 if every visit is one positive."""

    seed: np.uint64
    n_visits: int
    positives: int
    batch: int
    user_V: NDArray[np.int32]
    place_V: NDArray[np.int32]
    strides: NDArray[np.uint64]
    left_bits: int
    right_bits: int


class Visited(NamedTuple):
    """The contexts that are visited, each with its positives."""

    visit_V: NDArray[np.int64]
    user_V: NDArray[np.int64]
    count_V: NDArray[np.int64]
    row_VP: NDArray[np.int64]
    item_VP: NDArray[np.int64]
    weight_VP: NDArray[np.float32]


class Permuted(NamedTuple):
    """Visits in the order of an epoch, from place ``begin`` on."""

    begin: int
    keys: NDArray[np.uint64]


def name_visits(source: Any, order: Any, place: Any, visits: Any, visit_V: Any) -> Any:
    """Write into ``visit_V`` the visits at places ``place`` … of a batch."""


def deliver(source: Any, first: Any, last: Any, s: Any, scratch: Any) -> Any:
    """Pass on the factors of visits that are scored, at places first … last - 1."""


@variant(name_visits, Permuted)
def _permute(source: Any, order: Any, place: Any, visits: Any, visit_V: Any) -> Any:
    for v in range(visits):
        visit_V[v] = permuted(
            order.n_visits, source.keys, order.left_bits, order.right_bits,
            source.begin + place + v,
        )  # fmt: skip
    return None


@variant(deliver, Permuted)
def _leave(source: Any, first: Any, last: Any, s: Any, scratch: Any) -> Any:
    return None


@inner
def _row(
    indptr_U1: Any, strides: Any, seed: Any, deal: Any, user: Any, place: Any
) -> Any:  # fmt: skip
    """Return the row of the positive at a place of a context; see ``engines.visits.Visits``."""
    start = indptr_U1[user]
    count = np.uint64(indptr_U1[user + 1] - start)
    w0, w1, _, _ = words(seed, user, np.int64(0), deal)
    stride = strides[w1 & np.uint64(3)] % count
    offset = (w0 * count) >> np.uint64(32)
    return start + np.int64((offset + stride * np.uint64(place)) % count)


@inner
def positives_at(order: Any, indptr_U1: Any, visit: Any) -> Any:
    """Return how many positives a visit has."""
    if order.positives == 1:
        return 1
    user = np.int64(order.user_V[visit])
    return min(order.positives, indptr_U1[user + 1] - indptr_U1[user] - order.place_V[visit])


@inner
def prefetch_visits(visits: Any, order: Any, rows: Any, visited: Any) -> Any:
    """Prefetch the contexts of the first visits of ``visited.visit_V``."""
    pair_E2 = rows.pair_E2.ctypes.data
    user_V, place_V = order.user_V.ctypes.data, order.place_V.ctypes.data
    for v in range(visits):
        visit = np.uint64(visited.visit_V[v])
        if order.positives == 1:
            # User and item are side by side, so that a visit waits for one cache line and not for
            # two.
            prefetch(pair_E2 + visit * _EIGHT)
        else:
            prefetch(user_V + visit * _FOUR)
            prefetch(place_V + visit * _FOUR)
    return None


@inner
def find_contexts(
    visits: Any, order: Any, rows: Any, known: Any, tables: Any, visited: Any
) -> Any:  # fmt: skip
    """Find the contexts of the visits, and prefetch their vectors and where their rows begin."""
    user_V, indptr_U1 = visited.user_V, rows.indptr_U1.ctypes.data
    known_U1 = known.indptr_U1.ctypes.data
    for v in range(visits):
        visit = visited.visit_V[v]
        user_V[v] = rows.pair_E2[visit, 0] if order.positives == 1 else order.user_V[visit]
        prefetch_context(tables, user_V[v])
        prefetch(known_U1 + np.uint64(user_V[v]) * _EIGHT)
        if order.positives > 1:
            prefetch(indptr_U1 + np.uint64(user_V[v]) * _EIGHT)
    return None


@inner
def find_rows(
    visits: Any, deal: Any, order: Any, rows: Any, known: Any, tables: Any, visited: Any
) -> Any:  # fmt: skip
    """Find the rows of the visits' positives, and prefetch their items and the known ones."""
    indptr_U1, row_VP, count_V = rows.indptr_U1, visited.row_VP, visited.count_V
    pair_E2, known_E = rows.pair_E2.ctypes.data, known.items_E.ctypes.data
    for v in range(visits):
        visit, user = visited.visit_V[v], visited.user_V[v]
        prefetch_fields(tables, user)
        # The first known items: most histories are so short that these are all.
        prefetch(known_E + np.uint64(known.indptr_U1[user]) * _FOUR)
        count_V[v] = positives_at(order, indptr_U1, visit)
        if order.positives == 1:
            row_VP[v, 0] = visit
            continue
        place = np.int64(order.place_V[visit])
        for i in range(count_V[v]):
            row = _row(indptr_U1, order.strides, order.seed, deal, user, place + i)
            row_VP[v, i] = row
            prefetch(pair_E2 + np.uint64(row) * _EIGHT)
    return None


@inner
def find_positives(visits: Any, rows: Any, scores: Any, tables: Any, visited: Any) -> Any:
    """Find the positives of the visits with their weights, and prefetch their vectors."""
    weight_E, weight_VP = rows.weight_E, visited.weight_VP
    for v in range(visits):
        # A place without a positive weighs 0, so that losses need not know where a visit ends.
        for i in range(weight_VP.shape[1]):
            weight_VP[v, i] = 0
        for i in range(visited.count_V[v]):
            row = visited.row_VP[v, i]
            item = np.int64(rows.pair_E2[row, 1])
            visited.item_VP[v, i] = item
            weight_VP[v, i] = weight_E[row] if len(weight_E) else np.float32(1)
            prefetch_item(scores, tables, item)
    return None
