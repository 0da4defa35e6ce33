"""Leave out users and items with too little to learn from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.interactions import Interactions
from sdgar.errors import DataError, UsageError


def at_least(interactions: Interactions, *, users: int = 0, items: int = 0) -> Interactions:
    """Keep users with at least ``users`` items, and items with at least ``items`` users.

    With both, each pass can undo the other, so they alternate until nothing changes. What is
    left does not depend on the order; with equal numbers it is the k-core.
    """
    for what, number in (("users", users), ("items", items)):
        if number < 0:
            raise UsageError(f"{what} must be 0 or more, got {number}.", code="bad_minimum")
    users_E, items_E = interactions.users_E, interactions.items_E
    keep_E = np.ones(len(interactions), np.bool_)
    by_user_E = np.zeros(len(interactions), np.bool_)
    while True:
        few_E = keep_E & (_count(users_E[keep_E], interactions.n_users)[users_E] < users)
        keep_E, by_user_E = keep_E & ~few_E, by_user_E | few_E
        rare_E = keep_E & (_count(items_E[keep_E], interactions.n_items)[items_E] < items)
        keep_E = keep_E & ~rare_E
        if not rare_E.any():
            break
    if not keep_E.any():
        raise DataError(
            f"nothing is left of {len(interactions):,} interactions when users need at least "
            f"{users} items and items at least {items} users. Ask for less.",
            code="no_rows",
        )
    left = _without(interactions, by_user_E, f"user_below_{users}")
    return _without(left, ~keep_E[~by_user_E], f"item_below_{items}")


def _count(index_E: NDArray[np.integer[Any]], size: int) -> NDArray[np.intp]:
    return np.bincount(index_E, minlength=size)


def _without(interactions: Interactions, drop_E: NDArray[np.bool_], reason: str) -> Interactions:
    return interactions.subset(~drop_E, reason) if drop_E.any() else interactions
