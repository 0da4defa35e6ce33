"""The values that items or users have in one field, as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


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
