"""Negatives that are chosen among uniform candidates by their scores, on the CPU.

HARDEST     the best scored of C candidates
VIOLATION   the first of C candidates with s_j > s⁺ - margin, else the last, and how many it took
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sdgar.kernels.compiled import inner
from sdgar.kernels.numba_draws import unknown_item
from sdgar.kernels.numba_math import dot

NONE, HARDEST, VIOLATION = 0, 1, 2


@inner
def pick(
    p: Any, known: Any, tail: Any, visits: Any, row_V: Any, user_V: Any, pos_VP: Any,
    user_UCD: Any, item_ICD: Any, bias_IC: Any, item_VN: Any, ok_VN: Any, neg_VN: Any,
    tries_V: Any,
) -> Any:  # fmt: skip
    """N negatives for each of some visits, their scores, and whether each is accepted."""
    indptr_U1, known_E = known.indptr_U1, known.items_E
    for v in range(visits):
        user = user_V[v]
        first, last = indptr_U1[user], indptr_U1[user + 1]
        unknown = p.n_items - (last - first)
        tries_V[v] = 0
        bound = pos_VP[v, 0] - p.margin
        for j in range(p.n):
            item, best = np.int64(known_E[row_V[v]]), np.float32(0)
            found = False
            for c in range(p.candidates if unknown > 0 else 0):
                slot = j * p.candidates + c
                drawn = unknown_item(p.seed, tail, row_V[v], slot, first, last, unknown, known_E)
                s = dot(user_UCD, item_ICD, user, drawn) + bias_IC[drawn, 0]
                if p.pick == HARDEST:
                    if not found or s > best:
                        item, best, found = drawn, s, True
                else:
                    item, best, found = drawn, s, True
                    tries_V[v] = c + 1
                    if s > bound:
                        break
            item_VN[v, j], neg_VN[v, j], ok_VN[v, j] = item, best, found
    return None
