"""Compressed sparse rows (CSR): the known items of every context, and the values of items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


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


@dataclass(frozen=True, slots=True)
class Coded:
    """The values of one field, as numbers: item i has entries indptr[i] to indptr[i + 1] - 1."""

    names: tuple[str, ...]
    """The values that occur, as text."""
    indptr_I1: NDArray[np.int64]
    """The places where the values of each item begin."""
    codes_E: NDArray[np.int64]
    """The numbers of the values, item after item."""

    def of(self, item: int) -> NDArray[np.int64]:
        """Return the numbers of the values of an item; those beyond the table have none."""
        if not 0 <= item < len(self.indptr_I1) - 1:
            return self.codes_E[:0]
        return self.codes_E[self.indptr_I1[item] : self.indptr_I1[item + 1]]

    def has(self, items_N: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return which of G values each item has, and the numbers of these values."""
        rows = [self.of(item) for item in items_N.tolist()]
        row_E = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        found_E = np.concatenate(rows) if rows else self.codes_E[:0]
        codes_G, at_E = np.unique(found_E, return_inverse=True)
        has_NG = np.zeros((len(rows), len(codes_G)), bool)
        has_NG[row_E, at_E] = True
        return has_NG, codes_G

    def matrix(self, n_items: int) -> csr_matrix:
        """Return [i has g] of n items and all G values, in float64."""
        from scipy.sparse import csr_matrix

        n = min(n_items, len(self.indptr_I1) - 1)
        indptr_I1 = np.pad(self.indptr_I1[: n + 1], (0, n_items - n), mode="edge")
        codes_E = self.codes_E[: indptr_I1[-1]]
        shape = n_items, max(1, len(self.names))
        return csr_matrix((np.ones(len(codes_E)), codes_E, indptr_I1), shape)
