"""The scores of a few contexts, as the requests of a moment ask for them.

The products of a library are made for many rows, and some of them use threads that nobody asked
for. Nothing is looked at here but the histories of those who are asked about. A context gets the
same bits in any company, except alone: then a library reads the vectors of items fastest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor

import numpy as np
import torch
from numpy.typing import NDArray

from sdgar.models.model import Scorer
from sdgar.models.parts import Parts, as_array

_FEW = 64
"""The most contexts for which this is the faster way."""
_KEPT = 1 << 22
"""The scores that each thread keeps room for: memory that is new costs more than to write to it."""
_own = threading.local()


def few_parts(scorer: Scorer, n_users: int, memory_bytes: int) -> Parts | None:
    """Give the parts of a model that scores so few contexts here; None if it does not."""
    if n_users > _FEW or 4 * scorer.n_items * n_users > memory_bytes:
        return None
    parts = Parts.of(scorer)
    return parts if parts is not None and parts.is_float32 and scorer.n_items >= 4 else None


def scores_of_few(
    parts: Parts, users_B: NDArray[np.int64], pool_of: Callable[[int], Executor]
) -> NDArray[np.float32]:
    """s_BI of a few contexts, by threads that ``pool_of`` gives.

    They lie in room that the next call of this thread may use again.
    """
    from sdgar.kernels.numba.topk import BLOCK, FOUR, add_memory, score_blocks
    from sdgar.machine.threads import share

    factors, n = parts.factors, len(users_B)
    u_BD, v_ID, bias_I = (t.detach() for t in (factors.user_UD, factors.item_ID, factors.bias_I))
    u_BD = u_BD.index_select(0, torch.from_numpy(users_B))
    if n == 1:
        scores_PI = torch.addmv(bias_I, v_ID, u_BD[0])[None].numpy()
    else:
        u_PD = np.zeros((-(-n // FOUR) * FOUR, u_BD.shape[1]), np.float32)
        u_PD[:n] = u_BD.numpy()
        scores_PI = _room(len(u_PD), len(v_ID))
        arrays = u_PD, as_array(v_ID), as_array(bias_I), scores_PI
        blocks = -(-len(v_ID) // BLOCK)
        share(score_blocks, blocks, scores_PI.size, *arrays, pool_of=pool_of)
    if parts.memory is not None:
        add_memory(scores_PI, *parts.memory_of(users_B))
    return scores_PI[:n]


def _room(rows: int, columns: int) -> NDArray[np.float32]:
    """Give room for so many scores, which this thread keeps if they are not too many."""
    wanted = rows * columns
    if wanted > _KEPT:
        return np.empty((rows, columns), np.float32)
    kept: NDArray[np.float32] | None = getattr(_own, "room", None)
    if kept is None or len(kept) < wanted:
        kept = _own.room = np.empty(wanted, np.float32)
    return kept[:wanted].reshape(rows, columns)
