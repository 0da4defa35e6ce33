"""Merge the weights of rows of one pair, and refuse weights that float32 cannot hold together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import Ids, plain
from sdgar.data.read_options import Duplicates
from sdgar.errors import DataError

_MAX_RATIO = 1e12
_FLOAT32 = np.finfo(np.float32)


@dataclass
class Merging:
    """What is found of the weights while rows of one pair are merged, part by part."""

    differing: int = 0
    """The number of pairs that occur with different weights, where that is an error."""
    user: Any = None
    """The first user with such a pair."""
    item: Any = None
    """The item of the first such pair."""
    least: float = float("inf")
    """The least weight of a pair."""
    least_positive: float = float("inf")
    """The least weight of a pair above 0."""
    most: float = 0.0
    """The largest weight of a pair."""
    total: float = 0.0
    """The sum of the weights of all pairs."""

    def merge(
        self,
        weight_E: NDArray[np.float64],
        key_E: NDArray[np.int64],
        last_E: NDArray[np.bool_],
        duplicates: Duplicates,
        users: Ids,
        items: Ids,
    ) -> NDArray[np.float64]:
        """Return one weight a pair, of rows sorted by pair; ``last_E`` marks the last row of each.

        What is found is added to this record.
        """
        starts = np.concatenate(([0], np.flatnonzero(last_E)[:-1] + 1))
        if duplicates == "sum":
            merged = np.add.reduceat(weight_E, starts)
        elif duplicates == "max":
            merged = np.maximum.reduceat(weight_E, starts)
        else:
            merged = weight_E[last_E]
        if duplicates == "error":
            low, high = np.minimum.reduceat(weight_E, starts), np.maximum.reduceat(weight_E, starts)
            differs = np.flatnonzero(low != high)
            if len(differs):
                user, item = divmod(int(key_E[last_E][differs[0]]), len(items))
                self._add_differing(len(differs), users.values[user], items.values[item])
        self.least = min(self.least, float(merged.min()))
        positive = merged[merged > 0]
        self.least_positive = min(self.least_positive, float(positive.min(initial=np.inf)))
        self.most = max(self.most, float(merged.max()))
        self.total += float(merged.sum())
        return merged

    def _add_differing(self, count: int, user: Any, item: Any) -> None:
        if not self.differing or user < self.user:
            self.user, self.item = user, item
        self.differing += count

    def add(self, other: Merging) -> None:
        """Take in what was found of other rows, of other users."""
        if other.differing:
            self._add_differing(other.differing, other.user, other.item)
        self.least = min(self.least, other.least)
        self.least_positive = min(self.least_positive, other.least_positive)
        self.most = max(self.most, other.most)
        self.total += other.total

    def require(self) -> None:
        """Raise if weights differ where they must not, or do not fit float32 together."""
        if self.differing:
            raise DataError(
                f"{self.differing:,} (user, item) pairs occur with different weights, the "
                f"first is user {plain(self.user)!r}, item {plain(self.item)!r}. "
                "Say what is meant with --duplicates sum, max or last (duplicates=… in Python).",
                code="differing_weights",
            )
        if self.most > self.least_positive * _MAX_RATIO:
            raise DataError(
                f"weights range from {self.least_positive:g} to {self.most:g}, more than a factor "
                "of 1e12: the smallest would be lost in rounding. Rescale or clip them.",
                code="weight_range",
            )
        if self.total > _FLOAT32.max or self.least_positive < _FLOAT32.tiny:
            raise DataError(
                f"weights from {self.least:g} to {self.most:g} that add up to {self.total:g} do "
                f"not fit float32, which ends at {_FLOAT32.max:g}. Rescale or clip them.",
                code="weight_range",
            )
