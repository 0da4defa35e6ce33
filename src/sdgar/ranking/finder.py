"""What finds the best items by a table of a model's items, the same as by looking at all scores."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sdgar.data.history import History
from sdgar.models.factors import Factors
from sdgar.models.model import Scorer
from sdgar.models.parts import Parts, as_array
from sdgar.ranking.topk import TopK, require_rankable, top_k


def has_items(model: Scorer, item_ID: Tensor) -> bool:
    """Tell whether a model has the items of a table, as one with new users has."""
    parts = Parts.of(model)
    return parts is not None and parts.factors.item_ID is item_ID


class Finder:
    """Finds exact lists; whoever has another way to find them says how in ``_best``."""

    def __init__(self, factors: Factors) -> None:
        self._item_ID = factors.item_ID
        self._v_ID = as_array(factors.item_ID)
        self._bias_I = as_array(factors.bias_I)

    @classmethod
    def of(cls, model: Scorer) -> Self:
        """Make the table of a model's items."""
        parts = Parts.of(model)
        assert parts is not None
        return cls(parts.factors)

    def serves(self, model: Scorer) -> bool:
        """Tell whether a model has the items of this table, as one with new users has."""
        return has_items(model, self._item_ID)

    def top_k(
        self,
        model: Scorer,
        users_T: NDArray[np.int64],
        k: int,
        *,
        seen: History | None = None,
        blocked_I: NDArray[np.bool_] | None = None,
    ) -> TopK:
        """Give the k best items of each context."""
        parts = Parts.of(model)
        users_T = np.ascontiguousarray(users_T, np.int64)
        if parts is not None and len(users_T) and self._takes(len(users_T)) and k < model.n_items:
            require_rankable(users_T, k, model.n_items, seen, blocked_I)
            found = self._best(parts, users_T, k, seen, blocked_I)
            if found is not None:
                return found
        # Whoever ranks all scores says which of them is wrong.
        return top_k(model, users_T, k, seen=seen, blocked_I=blocked_I)

    def _takes(self, n_users: int) -> bool:
        """Tell whether lists of so many contexts are found in this way."""
        return True

    def _best(
        self,
        parts: Parts,
        users_T: NDArray[np.int64],
        k: int,
        seen: History | None,
        blocked_I: NDArray[np.bool_] | None,
    ) -> TopK | None:
        """Return the lists; None if a score cannot be ranked."""
        raise NotImplementedError
