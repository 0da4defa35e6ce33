"""The histories of new users, in the forms in which they may be given."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.data.ids import Ids, is_column, plain
from sdgar.data.interactions import Interactions
from sdgar.errors import SdgarWarning, UsageError
from sdgar.models.fold_in import NewContexts

Histories = Interactions | Mapping[Any, Iterable[Any]] | Iterable[Iterable[Any]]
"""The items of new users: rows, lists of items by user, or lists only, of users 0, 1, 2, …."""


def rows_of(histories: Histories) -> Interactions:
    """Return one row for every item of every new user."""
    if isinstance(histories, Interactions):
        if histories.weight_E is not None:
            _warn_of_weights()
        return histories
    lists = _lists_of(histories)
    bare = [user for user, items in lists.items() if not items]
    if bare or not lists:
        raise UsageError(
            f"{len(bare):,} histories are empty, the first are {bare[:5]!r}. Nothing can be said "
            "of a user who has nothing: give them what is most popular."
            if lists
            else "there is no history to fold in.",
            code="empty_history",
        )
    users = [user for user, items in lists.items() for _ in items]
    items = [item for items in lists.values() for item in items]
    return Interactions.from_arrays(users, items, time=np.arange(len(items)))


def _lists_of(histories: Any) -> dict[Any, list[Any]]:
    """Return the items of each new user, in their order."""
    if not isinstance(histories, Mapping):
        if not is_column(histories):
            raise _bad_history(histories)
        if hasattr(histories, "columns"):
            raise UsageError(
                "histories are a frame, whose rows say nothing of their order here. Give "
                "sdgar.read(frame), which has one row for each user and item.",
                code="bad_history",
            )
        histories = dict(enumerate(histories))
    lists = {}
    for user, items in histories.items():
        if not is_column(items):
            raise _bad_history(items)
        if isinstance(items, Mapping):
            _warn_of_weights()
        lists[plain(user)] = [plain(item) for item in items]
        for one in (plain(user), *lists[plain(user)]):
            if isinstance(one, bool) or not isinstance(one, str | int):
                raise UsageError(
                    f"an id is text or an integer, got {one!r} in the histories.",
                    code="bad_history",
                )
    return lists


def _bad_history(found: Any) -> UsageError:
    what = "this is text" if isinstance(found, str | bytes) else f"this is {found!r:.60}"
    return UsageError(
        f"a history is a list of items, and {what}: say [['a', 'b']] for one user, or "
        "{'ann': ['a', 'b']}.",
        code="bad_history",
    )


def _warn_of_weights() -> None:
    warnings.warn(
        "fold_in does not use the weights of rows: every item of a history counts alike.",
        SdgarWarning,
        stacklevel=4,
    )


def history_of(seen: Interactions, users: Ids, items: Ids) -> History:
    """Return rows in the numbers of a model, without those of users or items it does not know."""
    users_E = users.index_of(seen.users.values)[seen.users_E]
    items_E = items.index_of(seen.items.values)[seen.items_E]
    known = (users_E >= 0) & (items_E >= 0)
    return History.of_pairs(users_E[known], items_E[known], len(users))


def new_contexts(
    lists: Sequence[Sequence[Any]], items: Ids
) -> tuple[NewContexts, NDArray[np.bool_]]:
    """Return the histories of new users as a model takes them, and who has an item that it knows.

    This is for requests, of which each counts: ids that are neither text nor integers, and those
    that the model does not know, are left out, and users whom that leaves without any item are none
    of the contexts. Of an item that comes twice, the last place counts.
    """
    users_E = np.repeat(np.arange(len(lists)), [len(one) for one in lists])
    items_E = items.index_of([item for one in lists for item in one])
    known_E = items_E >= 0
    users_E, items_E = users_E[known_E], items_E[known_E]
    known_T = np.bincount(users_E, minlength=len(lists)) > 0
    pair_E = users_E * max(1, len(items)) + items_E
    last_E = len(pair_E) - 1 - np.unique(pair_E[::-1], return_index=True)[1]
    length_C = np.bincount(users_E[last_E], minlength=len(lists))[known_T]
    history = History(np.concatenate(([0], np.cumsum(length_C))), items_E[last_E].astype(np.int32))
    return NewContexts(history, items_E[np.sort(last_E)]), known_T


def in_order(rows: Interactions, items: Ids) -> NDArray[np.int64] | None:
    """Give the items that a model knows, user by user in the order of time; None without times."""
    if rows.time_E is None:
        return None
    items_E = items.index_of(rows.items.values)[rows.items_E]
    items_E = items_E[np.lexsort((rows.time_E, rows.users_E))]
    return items_E[items_E >= 0]
