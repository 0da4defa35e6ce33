"""What metrics beyond accuracy know of users and items: histories, popularity, vectors, columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sdgar.data.coded import Coded
from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

CATEGORY = "category"
"""The name of the column that items are compared by, if no other is named."""
_NEW = 0.1
"""The share of the training rows, by time, in which items are new."""


@dataclass(frozen=True)
class Known:
    """What is known of the items of a catalogue and of the users whose lists are measured."""

    n_items: int
    """The number of items in the catalogue."""
    history: History
    """The training rows, by which items are popular."""
    own: History
    """The items that each measured user has, by the number of the user."""
    item_ID: NDArray[np.floating] | None = None
    """The vectors by which items are compared; None if there are none."""
    coded: Callable[[str], Coded] | None = None
    """The function that gives the values of items in a column; None without a table of items."""
    new_I: NDArray[np.bool_] | None = None
    """Whether each item is new; None if nobody knows."""
    items: Ids | None = None
    """The ids of the items; None if they go by number."""
    blocked_I: NDArray[np.bool_] | None = None
    """Whether each item is in no list, because it was not ranked; None if all were."""

    @property
    def n_ranked(self) -> int:
        """The number of items that lists could have."""
        return self.n_items if self.blocked_I is None else int((~self.blocked_I).sum())

    @cached_property
    def count_I(self) -> NDArray[np.int64]:
        """The number of users who have each item in the training rows."""
        return np.bincount(self.history.items_E, minlength=self.n_items)

    @cached_property
    def n_users(self) -> int:
        """The number of users who have anything in the training rows."""
        return int((np.diff(self.history.indptr_U1) > 0).sum())

    def top(self, share: float) -> NDArray[np.bool_]:
        """Return whether each item is of this share of all items that most users have."""
        top_I = np.zeros(self.n_items, bool)
        most = max(1, round(share * self.n_items))
        top_I[np.argsort(-self.count_I, kind="stable")[:most]] = True
        return top_I

    def own_of(self, users_T: NDArray[np.int64]) -> History:
        """Return the histories of some users; those beyond the table have none."""
        return self.own.rows(np.where(users_T < self.own.n_users, users_T, -1))

    def values(self, kind: str, column: str | None) -> csr_matrix:
        """Return [i has g] for the values g of a column; the metric of this kind needs it."""
        column = CATEGORY if column is None else column
        found = None if self.coded is None else self.coded(column)
        if found is None or not found.names:
            raise UsageError(
                f"{kind} needs the column {column!r} of items, and "
                + ("there is no table of items" if found is None else "no item has a value there")
                + ". Give one with --item-facts TABLE (facts=sdgar.read_facts(table) in Python), "
                f"and name a column of it, as in {kind}:genres@10.",
                code="nothing_to_go_by",
            )
        return found.matrix(self.n_items)

    def is_new(self) -> NDArray[np.bool_]:
        """Return whether each item is new, or raise if nobody knows."""
        if self.new_I is None:
            raise UsageError(
                "new_hit needs to know which items are new. Give the training events with their "
                "times as --train FILE (seen=train in Python), or new_items=[ids].",
                code="nothing_to_go_by",
            )
        new_I: NDArray[np.bool_] = self.new_I | (self.count_I == 0)
        return new_I


def newest(rows: Interactions) -> NDArray[np.bool_] | None:
    """Return whether the first event of each item is in the last tenth of rows; None without times.

    t_i > the moment by which nine tenths of all rows had happened
    """
    if rows.time_E is None or not len(rows):
        return None
    first_I = np.full(rows.n_items, np.iinfo(np.int64).max)
    np.minimum.at(first_I, rows.items_E, rows.time_E)
    before = np.quantile(rows.time_E, 1 - _NEW, method="inverted_cdf")
    return first_I > before
