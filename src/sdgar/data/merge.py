"""Put two parts of one data set together, or into one numbering of ids."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.building import RowAccount
from sdgar.data.ids import Ids, common_kind
from sdgar.data.interactions import Interactions
from sdgar.errors import DataError


def merge(one: Interactions, other: Interactions) -> Interactions:
    """Return the rows of both; a pair in both counts once, with its later time and weight."""
    if one.context != other.context:
        raise DataError(
            f"the contexts of the two parts differ: {', '.join(one.context)} and "
            f"{', '.join(other.context)}. Read both with the same --context.",
            code="schema_mismatch",
        )
    if one.fields is not None and other.fields is not None:
        for mine, theirs in zip(one.fields.values, other.fields.values, strict=True):
            common_kind(mine.values, theirs.values)
    users, users_E = _union(one.users, one.users_E, other.users, other.users_E)
    items, items_E = _union(one.items, one.items_E, other.items, other.items_E)
    n = len(one) + len(other)
    merged = Interactions.from_indices(
        users,
        items,
        users_E,
        items_E,
        weight_E=_both(one.weight_E, other.weight_E),
        time_E=_both(one.time_E, other.time_E),
        duplicates="last",
        account=RowAccount(read=n, kept=n),
    )
    return other.copy_not_liked_to(one.copy_description_to(merged))


def with_ids_of(rows: Interactions, other: Interactions) -> Interactions:
    """Return the same rows with the ids of other rows, which have all of these ids and more."""
    users_U = other.users.index_of(rows.users.values)
    items_I = other.items.index_of(rows.items.values)
    same = Interactions.from_indices(
        other.users,
        other.items,
        users_U[rows.users_E],
        items_I[rows.items_E],
        weight_E=rows.weight_E,
        time_E=rows.time_E,
        account=rows.account,
    )
    return rows.copy_description_to(same)


def _union(
    mine: Ids, mine_E: NDArray[Any], theirs: Ids, theirs_E: NDArray[Any]
) -> tuple[Ids, NDArray[np.int64]]:
    """Return the ids of both parts together, and the index among them of each row of both."""
    parts = common_kind(mine.at(mine_E), theirs.at(theirs_E))
    distinct, index = np.unique(np.concatenate(parts), return_inverse=True)
    return Ids(distinct), index.astype(np.int64)


def _both(mine: NDArray[Any] | None, theirs: NDArray[Any] | None) -> NDArray[Any] | None:
    return None if mine is None or theirs is None else np.concatenate((mine, theirs))
