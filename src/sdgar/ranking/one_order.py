"""The k best items of each user where all users have the same scores, as most popular has.

Let o be the items in the order of their scores and p_m, m = 0, 1, …, the places in it, ascending,
of what a user has seen. Before the item that a user gets at rank j stand j items that the user gets
and all those seen ones that at most j others precede:

    item at rank j = o[j + |{ m : p_m - m ≤ j }|]

So no score is computed for any pair of a user and an item.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def ranked(
    scores_I: NDArray[np.float32],
    k: int,
    *,
    indptr_T1: NDArray[np.int64],
    seen_E: NDArray[np.int32],
    blocked_I: NDArray[np.bool_] | None,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return items and scores, best first; -1 and -inf where nothing is left.

    ``seen_E[indptr_T1[t] : indptr_T1[t + 1]]`` are the items that user t must not get.
    """
    listed_I = scores_I > -np.inf
    if blocked_I is not None:
        listed_I &= ~blocked_I
    order_L = np.argsort(-scores_I, kind="stable").astype(np.int32)
    order_L = order_L[listed_I[order_L]]
    n_listed, n_users = len(order_L), len(indptr_T1) - 1
    place_I = np.full(len(scores_I), n_listed, np.int64)
    place_I[order_L] = np.arange(n_listed)
    user_E = np.repeat(np.arange(n_users), np.diff(indptr_T1))
    place_E = np.sort(user_E * (n_listed + 1) + place_I[seen_E]) - user_E * (n_listed + 1)
    before_E = place_E - (np.arange(len(seen_E)) - indptr_T1[user_E])
    before_E = np.where(place_E == n_listed, k, np.minimum(before_E, k))
    passed_TK = np.bincount(user_E * (k + 1) + before_E, minlength=n_users * (k + 1))
    passed_TK = passed_TK.reshape(n_users, k + 1)[:, :k].cumsum(axis=1)
    at_TK = np.minimum(np.arange(k) + passed_TK, n_listed)
    items_TK = np.append(order_L, np.int32(-1))[at_TK]
    return items_TK, np.append(scores_I[order_L], np.float32(-np.inf))[at_TK]
