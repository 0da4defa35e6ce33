"""The k best items of every user, over the whole catalogue, in bounded memory.

    rank of i for u: position of i among { j : j not seen by u, j not blocked, s_uj > -inf },
    ordered by score descending, then item index ascending

The order is total, so no tie depends on a thread, a block or a partition algorithm. If all users
have the same scores, items are put in order once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.errors import UsageError
from sdgar.models.model import Floats, Indices, Model
from sdgar.models.scorers import AnyScorer, Scorer, TensorScorer
from sdgar.ranking.blocks import Blocks, Wanted, not_finite_of

if TYPE_CHECKING:
    from sdgar.ranking.index import ItemIndex
    from sdgar.ranking.sweep import Sweep

    Finder: TypeAlias = ItemIndex | Sweep
    """What finds the best items of a model faster than by all scores."""

BYTES_PER_SCORE = 8
"""What a score costs while its block is alive: the scorer may need a copy of the same size."""
_RAM = 128 << 20
"""The bytes of a block of scores of a thread; larger ones only leave the caches."""
_MOST_ROWS = 256
"""The most users that a thread scores at once: enough for a fast matrix product, few enough that
all threads end at about the same time."""


@dataclass(frozen=True, slots=True)
class TopK:
    """The best items of each user, best first."""

    items_TK: NDArray[np.int32]
    """The numbers of the items; -1 where a user has fewer than K recommendable items."""
    scores_TK: NDArray[np.float32]
    """The scores of the items; -inf where the item is -1."""


def best_items(
    finder: Finder | None,
    model: AnyScorer,
    users_T: Indices,
    k: int,
    *,
    seen: History | None = None,
    blocked_I: NDArray[np.bool_] | None = None,
) -> TopK:
    """Return the k best items of each user, by a finder if there is one that serves the model."""
    find = top_k if finder is None or not finder.serves(model) else finder.top_k
    return find(model, users_T, k, seen=seen, blocked_I=blocked_I)


def top_k(
    scorer: AnyScorer,
    users_T: Indices,
    k: int,
    *,
    seen: History | None = None,
    blocked_I: NDArray[np.bool_] | None = None,
) -> TopK:
    """Rank the whole catalogue for each user and keep the k best.

    A seen or blocked item is never returned, nor one with the score -inf: the row is padded
    instead. A score that is NaN or +inf anywhere in the catalogue is an error, since every rank
    below it would be meaningless. ``scorer.score_all`` is called by several threads at once.
    """
    n_items = scorer.n_items
    users_T = np.ascontiguousarray(users_T, np.int64)
    require_rankable(Wanted(users_T, k, seen, blocked_I), n_items)
    kept = min(k, n_items)
    items_TK = np.full((len(users_T), k), -1, np.int32)
    scores_TK = np.full((len(users_T), k), -np.inf, np.float32)
    if len(users_T) == 0:
        return TopK(items_TK, scores_TK)
    wanted = Wanted(users_T, kept, seen, blocked_I)
    if hasattr(scorer, "device"):
        from sdgar.ranking.on_device import TorchRanking

        found = TorchRanking(cast("TensorScorer", scorer), wanted).rank()
    elif (bias_I := shared_scores(scorer)) is not None:
        found = _in_one_order(bias_I, wanted)
    else:
        found = Blocks(scorer, wanted).rank(block_rows(n_items, _RAM))
    items_TK[:, :kept], scores_TK[:, :kept] = found
    return TopK(items_TK, scores_TK)


def block_rows(n_items: int, ram_bytes: int) -> int:
    """Return how many users are in a block: as many as ``ram_bytes`` hold, at least one."""
    return min(max(1, ram_bytes // (BYTES_PER_SCORE * n_items)), _MOST_ROWS)


def require_rankable(wanted: Wanted, n_items: int) -> None:
    """Raise if an argument is out of range, as kernels check no bounds."""
    users_T, k, seen, blocked_I = wanted
    if k < 1:
        raise UsageError(f"k must be at least 1, got {k}.", code="bad_k")
    if n_items < 1:
        raise UsageError("the scorer has no items, so there is nothing to rank.", code="no_items")
    if users_T.ndim != 1:
        raise UsageError(
            f"users are given as a list of indices, got an array of shape {users_T.shape}.",
            code="bad_shape",
        )
    if len(users_T) and users_T.min() < 0:
        raise UsageError(
            f"user index {users_T.min()} is negative. Leave unknown users out before ranking.",
            code="unknown_user",
        )
    if seen is not None and len(users_T) and users_T.max() >= seen.n_users:
        raise UsageError(
            f"user index {users_T.max()} is outside the history of {seen.n_users} users. "
            "Pass the history of the data the model was trained on.",
            code="unknown_user",
        )
    if blocked_I is not None and (blocked_I.shape != (n_items,) or blocked_I.dtype != np.bool_):
        raise UsageError(
            f"blocked_I must be {n_items} booleans, one an item, got {blocked_I.dtype} of shape "
            f"{blocked_I.shape}.",
            code="bad_blocked",
        )


def shared_scores(scorer: Scorer) -> Floats | None:
    """Return the scores that all users have; None if scores differ between users."""
    factors = scorer.factors() if isinstance(scorer, Model) else None
    if factors is None or factors is not scorer or factors.dim:
        return None
    return factors.bias_I


def _in_one_order(score_I: Floats, wanted: Wanted) -> tuple[NDArray[np.int32], Floats]:
    """Rank users who all have the same scores, as most popular has.

    Let o be the items in the order of their scores and p_m, m = 0, 1, …, the places in it,
    ascending, of what a user has seen. Before the item that a user gets at rank j stand j items
    that the user gets and all those seen ones that at most j others precede:

        item at rank j = o[j + |{ m : p_m - m ≤ j }|]

    So no score is computed for any pair of a user and an item.
    """
    users_T, k, seen, blocked_I = wanted
    if not bool((score_I < np.inf).all()):
        raise not_finite_of(score_I, int(users_T[0]))
    own = History(np.zeros(len(users_T) + 1, np.int64), np.zeros(0, np.int32))
    if seen is not None:
        own = seen.rows(users_T)
    listed_I = score_I > -np.inf
    if blocked_I is not None:
        listed_I &= ~blocked_I
    order_L = np.flatnonzero(listed_I).astype(np.int32)
    reached = k + int(np.diff(own.indptr_U1).max(initial=0))
    if reached < len(order_L):  # nobody gets an item below this place, so it need not be sorted
        score_L = score_I[order_L]
        least = np.partition(score_L, len(score_L) - reached)[len(score_L) - reached]
        order_L = order_L[score_L >= least]
    order_L = order_L[np.argsort(-score_I[order_L], kind="stable")]
    n_listed, n_users = len(order_L), own.n_users
    place_I = np.full(len(score_I), n_listed, np.int64)
    place_I[order_L] = np.arange(n_listed)
    user_E = own.users_E
    place_E = np.sort(user_E * (n_listed + 1) + place_I[own.items_E]) - user_E * (n_listed + 1)
    before_E = place_E - (np.arange(len(user_E)) - own.indptr_U1[user_E])
    before_E = np.where(place_E == n_listed, k, np.minimum(before_E, k))
    passed_TK = np.bincount(user_E * (k + 1) + before_E, minlength=n_users * (k + 1))
    passed_TK = passed_TK.reshape(n_users, k + 1)[:, :k].cumsum(axis=1)
    at_TK = np.minimum(np.arange(k) + passed_TK, n_listed)
    items_TK = np.append(order_L, np.int32(-1))[at_TK]
    return items_TK, np.append(score_I[order_L], np.float32(-np.inf))[at_TK]
