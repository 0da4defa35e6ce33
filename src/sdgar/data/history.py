"""The known items of every context, in compressed sparse rows (CSR)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class History:
    """The known items of every context, in CSR order; items ascend within a context."""

    indptr_U1: NDArray[np.int64]
    """The items of context u are ``items_E[indptr_U1[u] : indptr_U1[u + 1]]``."""
    items_E: NDArray[np.int32]
    """The item of each pair."""

    @property
    def n_users(self) -> int:
        """The number of contexts."""
        return len(self.indptr_U1) - 1

    @classmethod
    def of_pairs(
        cls, users_E: NDArray[np.int64], items_E: NDArray[np.int64], n_users: int
    ) -> History:
        """Build a history from pairs in any order; a pair that comes twice counts once."""
        most = int(items_E.max(initial=0)) + 1
        users_E, items_E = np.divmod(np.unique(users_E * most + items_E), most)
        counts = np.bincount(users_E, minlength=n_users)
        return cls(np.concatenate(([0], np.cumsum(counts))), items_E.astype(np.int32))

    @property
    def users_E(self) -> NDArray[np.int64]:
        """The context of each pair."""
        return np.repeat(np.arange(self.n_users), np.diff(self.indptr_U1))

    def of(self, user: int) -> NDArray[np.int32]:
        """Return the items of one context."""
        return self.items_E[self.indptr_U1[user] : self.indptr_U1[user + 1]]

    def rows(self, users_T: NDArray[np.int64]) -> History:
        """Return the histories of some contexts, in this order; index -1 has an empty one."""
        count_T = np.where(users_T < 0, 0, np.diff(self.indptr_U1, append=0)[users_T])
        indptr_T1 = np.concatenate(([0], np.cumsum(count_T)))
        shift_T = self.indptr_U1[users_T] - indptr_T1[:-1]
        place_E = np.arange(indptr_T1[-1]) + np.repeat(shift_T, count_T)
        return History(indptr_T1, self.items_E[place_E])

    def where(self, keep_E: NDArray[np.bool_]) -> History:
        """Return some of the pairs; a context may be left without any."""
        items_E = self.items_E[keep_E].astype(np.int64)
        return History.of_pairs(self.users_E[keep_E], items_E, self.n_users)

    def of_groups(self, group_U: NDArray[np.int64]) -> History:
        """Return one history for each group: all items that its contexts have together."""
        n_groups = int(group_U.max(initial=-1)) + 1
        return History.of_pairs(group_U[self.users_E], self.items_E.astype(np.int64), n_groups)

    def union(self, other: History | None) -> History:
        """Return the pairs of this history and of another one of the same contexts."""
        if other is None:
            return self
        users_E = np.concatenate((self.users_E, other.users_E))
        items_E = np.concatenate((self.items_E, other.items_E)).astype(np.int64)
        return History.of_pairs(users_E, items_E, self.n_users)
