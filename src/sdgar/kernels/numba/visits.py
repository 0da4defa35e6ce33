"""The visits of an epoch on the CPU: their contexts, their positives, and the rows of both.

What a visit needs is found in stages, each of which prefetches the cache lines that the next one
reads. A caller does something else between the stages of a visit, so that the lines are there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import by_default, inner, variant
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


class Permuted(NamedTuple):
    """Visits in the order of an epoch, from place ``begin`` on."""

    begin: int
    keys: NDArray[np.uint64]


def name_visits(source, order, place, visits, visit_V):
    """Write into ``visit_V`` the visits at places ``place`` … of a batch."""


@by_default
def deliver(source, first, last, s, scratch):
    """Pass on the factors of visits that are scored, at places first … last - 1."""


@variant(name_visits, Permuted)
def _permute(source, order, place, visits, visit_V):
    for v in range(visits):
        visit_V[v] = permuted(
            order.n_visits, source.keys, order.left_bits, order.right_bits,
            source.begin + place + v,
        )  # fmt: skip


@inner
def _row(loop, user, place):
    """Return the row of the positive at a place of a context; see ``engines.visits.Visits``."""
    start, end = loop.rows.indptr_U1[user], loop.rows.indptr_U1[user + 1]
    count = np.uint64(end - start)
    w0, w1, _, _ = words(loop.order.seed, user, np.int64(0), loop.deal)
    stride = loop.order.strides[w1 & np.uint64(3)] % count
    offset = (w0 * count) >> np.uint64(32)
    return start + np.int64((offset + stride * np.uint64(place)) % count)


@inner
def prefetch_visits(visits, loop, block):
    """Prefetch the contexts of the first visits of a block."""
    order, pair_E2 = loop.order, loop.rows.pair_E2.ctypes.data
    user_V, place_V = order.user_V.ctypes.data, order.place_V.ctypes.data
    for v in range(visits):
        visit = np.uint64(block.visit_V[v])
        if order.positives == 1:
            # User and item are side by side, so that a visit waits for one cache line and not for
            # two.
            prefetch(pair_E2 + visit * _EIGHT)
        else:
            prefetch(user_V + visit * _FOUR)
            prefetch(place_V + visit * _FOUR)


@inner
def find_contexts(visits, loop, block):
    """Find the contexts of the visits, and prefetch their vectors and where their rows begin."""
    order, rows = loop.order, loop.rows
    user_V, indptr_U1 = block.user_V, rows.indptr_U1.ctypes.data
    known_U1 = loop.known.indptr_U1.ctypes.data
    for v in range(visits):
        visit = block.visit_V[v]
        user_V[v] = rows.pair_E2[visit, 0] if order.positives == 1 else order.user_V[visit]
        prefetch_context(loop.tables, user_V[v])
        prefetch(known_U1 + np.uint64(user_V[v]) * _EIGHT)
        if order.positives > 1:
            prefetch(indptr_U1 + np.uint64(user_V[v]) * _EIGHT)


@inner
def find_rows(visits, loop, block):
    """Find the rows of the visits' positives, and prefetch their items and the known ones."""
    order, known, row_VP, count_V = loop.order, loop.known, block.row_VP, block.count_V
    indptr_U1 = loop.rows.indptr_U1
    pair_E2, known_E = loop.rows.pair_E2.ctypes.data, known.items_E.ctypes.data
    for v in range(visits):
        visit, user = block.visit_V[v], block.user_V[v]
        prefetch_fields(loop.tables, user)
        # The first known items: most histories are so short that these are all.
        prefetch(known_E + np.uint64(known.indptr_U1[user]) * _FOUR)
        count_V[v] = 1
        if order.positives == 1:
            row_VP[v, 0] = visit
            continue
        place = np.int64(order.place_V[visit])
        count_V[v] = min(order.positives, indptr_U1[user + 1] - indptr_U1[user] - place)
        for i in range(count_V[v]):
            row = _row(loop, user, place + i)
            row_VP[v, i] = row
            prefetch(pair_E2 + np.uint64(row) * _EIGHT)


@inner
def find_positives(visits, loop, block):
    """Find the positives of the visits with their weights, and prefetch their vectors."""
    weight_E, weight_VP = loop.rows.weight_E, block.weight_VP
    for v in range(visits):
        # A place without a positive weighs 0, so that losses need not know where a visit ends.
        for i in range(weight_VP.shape[1]):
            weight_VP[v, i] = 0
        for i in range(block.count_V[v]):
            row = block.row_VP[v, i]
            item = np.int64(loop.rows.pair_E2[row, 1])
            block.item_VP[v, i] = item
            weight_VP[v, i] = weight_E[row] if len(weight_E) else np.float32(1)
            prefetch_item(loop.scores, loop.tables, item)
