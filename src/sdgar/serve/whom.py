"""Who a list is for, in the numbers of a model: by training, by feedback, by a history, or nobody.

model      the model was trained on the user, who has done nothing new since
feedback   the user has liked items since: all that they have is folded in
history    the request itself says what they have
popular    nothing is known of them
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sdgar.serve.activity import RecentFeedback
from sdgar.serve.snapshot import Items, Snapshot

_NONE: frozenset[int] = frozenset()
_NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Whom:
    """One for whom a list is made."""

    basis: str
    """What the list rests on."""
    user: int = -1
    """The number of the user in the model, if the list rests on the model."""
    history: Items = field(default_factory=lambda: _NOTHING)
    """The items that are folded in, if it rests on feedback or on a history."""
    known: frozenset[int] = _NONE
    """Items that the user has, and that the model does not leave out by itself."""
    disliked: frozenset[int] = _NONE
    """Items that the user does not like: these are never listed."""


def by_user(snapshot: Snapshot, user: int, since: RecentFeedback | None) -> Whom:
    """Say what is known of a user: by number, -1 if the model does not know the user."""
    if since is None:
        return Whom("model", user) if user >= 0 else Whom("popular")
    items = snapshot.model.items
    liked_H = items.index_of(since.liked)
    liked_H = liked_H[liked_H >= 0]
    disliked_H = items.index_of(since.disliked)
    disliked = frozenset(disliked_H[disliked_H >= 0].tolist())
    own_H = np.zeros(0, np.int64)
    known = frozenset(liked_H.tolist())
    if user >= 0:
        own_H = snapshot.model.history.of(user).astype(np.int64)
        known |= frozenset(snapshot.model.known.of(user).tolist())
    new_H = liked_H[~np.isin(liked_H, own_H)]
    kept_H = own_H[~np.isin(own_H, list(disliked))] if disliked else own_H
    changed = len(new_H) > 0 or len(kept_H) < len(own_H)
    if changed and snapshot.folds_in:
        history = np.concatenate((kept_H, new_H))
        if len(history):
            return Whom("feedback", user, history, known, disliked)
    return Whom("model" if user >= 0 else "popular", user, known=known, disliked=disliked)


def by_history(snapshot: Snapshot, items: Sequence[Any]) -> tuple[Whom, list[Any]]:
    """Say what is known of someone with these items, and which of them the model lacks."""
    index_H = snapshot.model.items.index_of(items)
    unknown = [item for item, at in zip(items, index_H, strict=True) if at < 0]
    history_H = index_H[index_H >= 0]
    known = frozenset(history_H.tolist())
    if not len(history_H) or not snapshot.folds_in:
        return Whom("popular", known=known), unknown
    return Whom("history", history=history_H, known=known), unknown
