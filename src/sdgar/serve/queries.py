"""Queries of requests: users with recent feedback, histories and contexts, by index.

``sdgar.recommend.by_index`` has the queries and answers them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sdgar.recommend.by_index import NO_ITEMS, Basis, Items, Query, RankedItems

if TYPE_CHECKING:
    from sdgar.recommend.lists import RankedLists
    from sdgar.serve.activity import RecentFeedback
    from sdgar.serve.snapshot import Snapshot


def user_query(snapshot: Snapshot, user: int, feedback: RecentFeedback | None) -> Query:
    """Return the query for a user by index (-1 if unknown) and by the feedback since training."""
    known: Basis = "model" if user >= 0 else "popular"
    if feedback is None:
        return Query(known, user)
    items = snapshot.model.items
    liked_H = _known(items.index_of(feedback.liked))
    disliked_H = _known(items.index_of(feedback.disliked))
    own_H = snapshot.model.history.of(user).astype(np.int64) if user >= 0 else NO_ITEMS
    new_H = liked_H[~np.isin(liked_H, own_H)]
    kept_H = own_H[~np.isin(own_H, disliked_H)]
    changed = len(new_H) > 0 or len(kept_H) < len(own_H)
    if changed and snapshot.folds_in and len(kept_H) + len(new_H):
        history_H = np.concatenate((kept_H, new_H))
        seen_H = snapshot.model.known.of(user).astype(np.int64) if user >= 0 else NO_ITEMS
        return Query("feedback", user, history_H, np.concatenate((seen_H, liked_H)), disliked_H)
    return Query(known, user, NO_ITEMS, liked_H, disliked_H)


def history_query(snapshot: Snapshot, items: Sequence[Any]) -> tuple[Query, list[Any]]:
    """Return the query for a history, and its items that the model does not know."""
    index_H = snapshot.model.items.index_of(items)
    unknown = [item for item, at in zip(items, index_H, strict=True) if at < 0]
    history_H = _known(index_H)
    if not len(history_H) or not snapshot.folds_in:
        return Query("popular", extra_H=history_H), unknown
    return Query("history", history_H=history_H), unknown


def context_query(snapshot: Snapshot, context: dict[str, Any]) -> Query:
    """Return the query for a context of several fields, or for a user as the only field."""
    only_user = snapshot.model.fields is None and set(context) == {"user"}
    found = snapshot.model.query_of_context(context["user"] if only_user else context)
    return Query("popular") if found is None else Query("model", context=found)


def unblocked(lists: RankedLists, blocked_I: NDArray[np.bool_] | None, k: int) -> list[RankedItems]:
    """Return the first k items of each list that are not blocked."""
    found = []
    for items_K, scores_K in zip(lists.items_TK, lists.scores_TK, strict=True):
        kept_K = items_K >= 0
        if blocked_I is not None:
            kept_K &= ~blocked_I[items_K]
        found.append(RankedItems(items_K[kept_K][:k].tolist(), scores_K[kept_K][:k].tolist()))
    return found


def _known(index_H: Items) -> Items:
    return index_H[index_H >= 0]
