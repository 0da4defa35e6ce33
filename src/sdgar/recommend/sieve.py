"""Exact lists for a few contexts, most items of which are ruled out by rough scores.

A table of the vectors of items in integers of 8 bits takes a quarter of their room, so that a
processor reads it four times as fast. How far a rough score can be off is known for every item, so
nothing is overlooked: whatever may belong to a list is scored exactly. ``kernels/numba/sieve.py``
has the bound.
"""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec

import numpy as np
import torch
from numpy.typing import NDArray

from sdgar.data.interactions import History
from sdgar.evaluation.topk import TopK, require_rankable, top_k
from sdgar.models.factors import Factors
from sdgar.models.model import Scorer
from sdgar.models.parts import Parts, as_array

FROM_ITEMS = 2_000
"""The size of a catalogue from which a sieve is worth it."""
_FEW = 64
"""The most contexts for which this is the faster way."""
_GREATEST = 127
_SLACK = np.float32(2e-5)
"""What rounding may add to an error, beside the norms of both vectors: more than it ever does."""


def can_be_sieved(model: Scorer) -> bool:
    """Tell whether a sieve can be made: of finite vectors on the CPU, where Numba is installed."""
    parts = Parts.of(model)
    if parts is None or not parts.is_float32 or find_spec("numba") is None:
        return False
    return bool(torch.isfinite(parts.factors.item_ID).all())


class Sieve:
    """Finds the best items of a few contexts, the same as by looking at all scores."""

    def __init__(self, factors: Factors) -> None:
        self._item_ID = factors.item_ID
        v_ID = as_array(factors.item_ID)
        self._c_I, self._q_ID = quantised(v_ID)
        rest_ID = v_ID - self._c_I[:, None] * self._q_ID
        self._rest = np.linalg.norm(rest_ID, axis=1).max()
        self._longest = np.linalg.norm(v_ID, axis=1).max()

    @classmethod
    def of(cls, model: Scorer) -> Sieve:
        """Make the sieve of a model's items."""
        parts = Parts.of(model)
        assert parts is not None
        return cls(parts.factors)

    def serves(self, model: Scorer) -> bool:
        """Tell whether a model has the items of this sieve, as one with new users has."""
        parts = Parts.of(model)
        return parts is not None and parts.factors.item_ID is self._item_ID

    def top_k(
        self,
        model: Scorer,
        users_T: NDArray[np.int64],
        k: int,
        *,
        seen: History | None = None,
        blocked_I: NDArray[np.bool_] | None = None,
    ) -> TopK:
        """Give the k best items of each context."""
        parts = Parts.of(model)
        users_T = np.ascontiguousarray(users_T, np.int64)
        n_items = model.n_items
        if parts is None or not 0 < len(users_T) <= _FEW or k >= n_items:
            return top_k(model, users_T, k, seen=seen, blocked_I=blocked_I)
        require_rankable(users_T, k, n_items, seen, blocked_I)
        found = self._best(parts, users_T, k, seen, blocked_I)
        if found is None:  # whoever ranks all scores says which of them is wrong
            return top_k(model, users_T, k, seen=seen, blocked_I=blocked_I)
        return found

    def _best(
        self,
        parts: Parts,
        users_T: NDArray[np.int64],
        k: int,
        seen: History | None,
        blocked_I: NDArray[np.bool_] | None,
    ) -> TopK | None:
        from sdgar.kernels.numba.few import add_memory
        from sdgar.kernels.numba.sieve import BLOCK, integer_products, rescore
        from sdgar.kernels.numba.threads import share
        from sdgar.kernels.numba.topk import select_rows

        n, n_items = len(users_T), len(self._q_ID)
        at_T = torch.from_numpy(users_T)
        u_BD = as_array(parts.factors.user_UD.detach().index_select(0, at_T))
        a_B, p_BD = quantised(u_BD)
        bias_I = as_array(parts.factors.bias_I)
        product_BI = np.empty((n, n_items), np.int32)
        blocks, arrays = -(-n_items // BLOCK), (p_BD, self._q_ID, product_BI)
        share(integer_products, blocks, product_BI.size, *arrays, pool_of=_pool)
        rough_BI = product_BI.astype(np.float32)
        rough_BI *= self._c_I
        rough_BI *= a_B[:, None]
        rough_BI += bias_I
        if parts.memory is not None:
            add_memory(rough_BI, *parts.memory_of(users_T))
        starts_B = ends_B = np.zeros(n, np.int64)
        seen_E = np.zeros(0, np.int32)
        if seen is not None:
            starts_B, ends_B = seen.indptr_U1[users_T], seen.indptr_U1[users_T + 1]
            seen_E = np.ascontiguousarray(seen.items_E)
        out_I = np.zeros(0, bool) if blocked_I is None else np.ascontiguousarray(blocked_I)
        items_BK, top_BK = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
        out_of = starts_B, ends_B, seen_E, out_I
        if select_rows(rough_BI, *out_of, 0, n, items_BK, top_BK) >= 0:
            return None
        edge_B = top_BK[:, -1] - 2 * self._errors(u_BD, a_B, p_BD)
        rescore(
            rough_BI, product_BI, edge_B, u_BD, as_array(self._item_ID), a_B, self._c_I, bias_I,
            *out_of, items_BK, top_BK,
        )  # fmt: skip
        return TopK(items_BK, top_BK)

    def _errors(
        self, u_BD: NDArray[np.float32], a_B: NDArray[np.float32], p_BD: NDArray[np.int8]
    ) -> NDArray[np.float32]:
        """e = |a p| max |v - c q| + |u - a p| max |v|, and what rounding may add."""
        near_BD = a_B[:, None] * p_BD
        near_B = np.linalg.norm(near_BD, axis=1)
        rest_B = np.linalg.norm(u_BD - near_BD, axis=1)
        rounding_B = _SLACK * np.linalg.norm(u_BD, axis=1)
        errors_B: NDArray[np.float32] = near_B * self._rest + (rest_B + rounding_B) * self._longest
        return errors_B


def quantised(v_RD: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """v ≈ c q: return a length c for each row, and integers q from -127 to 127."""
    c_R = (np.abs(v_RD).max(axis=1, initial=0.0) / _GREATEST).astype(np.float32)
    c_R[c_R == 0] = 1
    with np.errstate(invalid="ignore"):
        q_RD = np.rint(v_RD / c_R[:, None]).clip(-_GREATEST, _GREATEST).astype(np.int8)
    return c_R, q_RD


@cache
def _pool(threads: int) -> Executor:
    """Start so many threads, which all calls share from then on."""
    return ThreadPoolExecutor(threads, thread_name_prefix="sdgar-sieve")
