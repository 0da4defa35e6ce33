"""Exact lists for a few contexts, for which rough scores rule out most items.

A table of the vectors of items in integers of 8 bits takes a quarter of their room, so that a
processor reads it four times as fast. How far a rough score can be off is known for every item, so
nothing is overlooked: whatever may belong to a list is scored exactly. ``kernels/numba/sieve.py``
has the bound.
"""

from __future__ import annotations

import threading
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.models.model import AnyScorer
from sdgar.ranking.finder import ItemTable
from sdgar.ranking.topk import KernelTerms, TopK

FROM_ITEMS = 2_000
"""The size of a catalogue from which a sieve is worth it."""
_FEW = 64
"""The most contexts for which this is faster."""
_AT_ONCE = 1 << 16
"""The most vectors that are turned into integers at once."""
_KEPT = 1 << 22
"""The most numbers of an array that a thread keeps."""
_NO_ITEMS, _NO_FLAGS = np.zeros(0, np.int32), np.zeros(0, bool)
_own = threading.local()
SLACK = np.float32(2e-5)
"""What rounding may add to an error, by the norms of both vectors: more than it ever does."""


def can_be_sieved(model: AnyScorer) -> bool:
    """Return whether a sieve can be made: of finite vectors, where Numba is installed."""
    terms = KernelTerms.of(model)
    if terms is None or find_spec("numba") is None:
        return False
    return bool(np.isfinite(terms.item_ID).all())


class Integers(NamedTuple):
    """v_i ≈ c_i q_i: the vectors of items in integers of 8 bits."""

    c_I: NDArray[np.float32]
    """The length c of a unit of each item."""
    q_ID: NDArray[np.int8]
    """The integers q of each item, from -127 to 127; zeros fill them up to the width of a row."""
    rest: np.float32
    """The largest |v_i - c_i q_i|."""
    longest: np.float32
    """The largest |v_i|."""

    @classmethod
    def of(
        cls,
        v_ID: NDArray[np.float32],
        width: int | None = None,
        order_I: NDArray[np.int32] | None = None,
    ) -> Integers:
        """Return the table of some vectors, with rows of a width, or else as long as vectors are.

        With an order, row p of the table is that of vector ``order_I[p]``.
        """
        n_items, dim = v_ID.shape
        c_I = np.empty(n_items, np.float32)
        q_ID = np.zeros((n_items, width or dim), np.int8)
        rest = longest = np.float32(0)
        for first in range(0, n_items, _AT_ONCE):
            rows = slice(first, first + _AT_ONCE)
            v_RD = v_ID[rows] if order_I is None else v_ID[order_I[rows]]
            c_I[rows], q_ID[rows, :dim] = quantised(v_RD)
            rest_RD = v_RD - c_I[rows, None] * q_ID[rows, :dim]
            rest = max(rest, np.linalg.norm(rest_RD, axis=1).max())
            longest = max(longest, np.linalg.norm(v_RD, axis=1).max())
        return cls(c_I, q_ID, np.float32(rest), np.float32(longest))


class Sieve(ItemTable):
    """Finds the best items of a few contexts, the same as by looking at all scores."""

    def __init__(self, terms: KernelTerms) -> None:
        super().__init__(terms)
        self._c_I, self._q_ID, self._rest, self._longest = Integers.of(self._v_ID)

    def _suits(self, n_users: int) -> bool:
        return n_users <= _FEW

    def _best(
        self,
        terms: KernelTerms,
        users_T: NDArray[np.int64],
        k: int,
        seen: History | None,
        blocked_I: NDArray[np.bool_] | None,
    ) -> TopK | None:
        from sdgar.kernels.numba.sieve import BLOCK, best, in_integers, integer_products
        from sdgar.machine.threads import share

        n, (n_items, dim) = len(users_T), self._q_ID.shape
        u_BD, p_BD = np.empty((n, dim), np.float32), np.empty((n, dim), np.int8)
        a_B, error_B = np.empty(n, np.float32), np.empty(n, np.float32)
        user_UD = terms.user_UD
        bounds = self._rest, self._longest, SLACK
        in_integers(users_T, user_UD, *bounds, u_BD, p_BD, a_B, error_B)
        product_BI = _room("products", n, n_items, np.int32)
        blocks, arrays = -(-n_items // BLOCK), (p_BD, self._q_ID, product_BI)
        share(integer_products, blocks, product_BI.size, *arrays, pool_of=_pool)
        starts_B = ends_B = np.zeros(n, np.int64)
        seen_E = _NO_ITEMS
        if seen is not None:
            starts_B, ends_B = seen.indptr_U1[users_T], seen.indptr_U1[users_T + 1]
            seen_E = np.ascontiguousarray(seen.items_E)
        out_I = _NO_FLAGS if blocked_I is None else np.ascontiguousarray(blocked_I)
        items_BK, top_BK = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
        bad = best(
            product_BI, u_BD, a_B, error_B, self._v_ID, self._c_I, self._bias_I,
            _room("scores", 1, n_items), starts_B, ends_B, seen_E, out_I,
            *terms.weights_of(users_T), items_BK, top_BK,
        )  # fmt: skip
        return None if bad >= 0 else TopK(items_BK, top_BK)


def quantised(v_RD: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """v ≈ c q: return a length c for each row, and integers q from -127 to 127."""
    from sdgar.kernels.numba.sieve import GREATEST

    c_R = (np.abs(v_RD).max(axis=1, initial=0.0) / GREATEST).astype(np.float32)
    c_R[c_R == 0] = 1
    with np.errstate(invalid="ignore"):
        q_RD = np.rint(v_RD / c_R[:, None]).clip(-GREATEST, GREATEST).astype(np.int8)
    return c_R, q_RD


def _room(name: str, rows: int, columns: int, kind: type[Any] = np.float32) -> NDArray[Any]:
    """Return an array that this thread keeps: new memory costs more than to write to it."""
    kept: NDArray[Any] | None = getattr(_own, name, None)
    if kept is None or len(kept) < rows * columns:
        kept = np.empty(rows * columns, kind)
        if len(kept) <= _KEPT:
            setattr(_own, name, kept)
    return kept[: rows * columns].reshape(rows, columns)


@cache
def _pool(threads: int) -> Executor:
    """Start so many threads, which all calls share from then on."""
    return ThreadPoolExecutor(threads, thread_name_prefix="sdgar-sieve")
