"""Finders: ways to the k best items that are faster than a look at all scores."""

from __future__ import annotations

from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.models.model import AnyScorer, Indices
from sdgar.ranking.topk import KernelTerms, TopK, require_rankable, top_k


class Finder(Protocol):
    """Finds the best items of a model faster than by all scores."""

    def serves(self, model: AnyScorer) -> bool:
        """Return whether a model has the items that this finds, as one with new users has."""
        ...

    def top_k(
        self,
        model: AnyScorer,
        users_T: Indices,
        k: int,
        *,
        seen: History | None = None,
        blocked_I: NDArray[np.bool_] | None = None,
    ) -> TopK:
        """Return the k best items of each context."""
        ...


def best_items(
    finder: Finder | None,
    model: AnyScorer,
    users_T: Indices,
    k: int,
    *,
    seen: History | None = None,
    blocked_I: NDArray[np.bool_] | None = None,
) -> TopK:
    """Return the k best items of each user, by a finder if there is one that serves the model."""
    if finder is None or not finder.serves(model):
        return top_k(model, users_T, k, seen=seen, blocked_I=blocked_I)
    return finder.top_k(model, users_T, k, seen=seen, blocked_I=blocked_I)


class ItemTable:
    """A table of a model's items, by which exact lists are found; subclasses say how."""

    def __init__(self, terms: KernelTerms) -> None:
        self._v_ID, self._bias_I = terms.item_ID, terms.bias_I
        self._own: tuple[AnyScorer, KernelTerms] | None = None
        """The model that the table was built for, and its terms, which every list needs."""

    @classmethod
    def of(cls, model: AnyScorer) -> Self:
        """Return the table of a model's items."""
        terms = KernelTerms.of(model)
        assert terms is not None
        table = cls(terms)
        table._own = model, terms
        return table

    def _terms(self, model: AnyScorer) -> KernelTerms | None:
        """Return the terms of a model, computed once for the table's own model."""
        if self._own is not None and model is self._own[0]:
            return self._own[1]
        return KernelTerms.of(model)

    def serves(self, model: AnyScorer) -> bool:
        """Return whether a model has the items of this table, as one with new users has."""
        terms = self._terms(model)
        return terms is not None and terms.item_ID is self._v_ID

    def top_k(
        self,
        model: AnyScorer,
        users_T: Indices,
        k: int,
        *,
        seen: History | None = None,
        blocked_I: NDArray[np.bool_] | None = None,
    ) -> TopK:
        """Return the k best items of each context."""
        terms = self._terms(model)
        users_T = np.ascontiguousarray(users_T, np.int64)
        if terms is not None and len(users_T) and self._suits(len(users_T)) and k < model.n_items:
            require_rankable(users_T, k, model.n_items, seen, blocked_I)
            found = self._best(terms, users_T, k, seen, blocked_I)
            if found is not None:
                return found
        # A ranking of all scores says which of them is not finite.
        return top_k(model, users_T, k, seen=seen, blocked_I=blocked_I)

    def _suits(self, n_users: int) -> bool:
        """Return whether lists of so many contexts are found faster in this way."""
        return True

    def _best(
        self,
        terms: KernelTerms,
        users_T: Indices,
        k: int,
        seen: History | None,
        blocked_I: NDArray[np.bool_] | None,
    ) -> TopK | None:
        """Return the lists; None if a score cannot be ranked."""
        raise NotImplementedError
