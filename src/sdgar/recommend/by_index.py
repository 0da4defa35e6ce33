"""Single queries by index, as a server has them: many are answered by one call.

The basis of a list is one of

model      the user was trained on, and has no new positive item since then
feedback   the user has new positive items: all items of the user are folded in
history    the query itself has the items
popular    the user is unknown: the most popular items
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.models.fold_in import NewContexts
from sdgar.recommend.indexed_model import IndexedModel
from sdgar.recommend.lists import Queries
from sdgar.recommend.ranking import ListOptions, rank
from sdgar.recommend.reasons import explained

Items = NDArray[np.int64]
"""The indices of some items."""
Basis = Literal["model", "feedback", "history", "popular"]
NO_ITEMS = np.zeros(0, np.int64)
"""The indices of no items."""


@dataclass(frozen=True, eq=False, slots=True)
class Query:
    """A query for one ranked list, in the indices of a model."""

    basis: Basis
    """What the list is based on."""
    user: int = -1
    """The index of the user or context in the model, -1 for none."""
    history_H: Items = field(default_factory=lambda: NO_ITEMS)
    """The items that are folded in, in the order of time."""
    extra_H: Items = field(default_factory=lambda: NO_ITEMS)
    """Further items of the user, which are left out like the seen ones."""
    disliked_H: Items = field(default_factory=lambda: NO_ITEMS)
    """Items with negative feedback, which are never listed."""
    context: Queries | None = None
    """The rows of the library for a context of several fields."""

    def left_out(self, options: ListOptions, *known: NDArray[Any]) -> NDArray[Any]:
        """Return the items that the list leaves out; ``known`` ones unless they are included."""
        return np.concatenate((self.disliked_H, *(known if options.exclude_seen else ())))


@dataclass(frozen=True, slots=True)
class RankedItems:
    """The answer to a query: items with scores, best first."""

    items: list[int]
    """The indices of the items."""
    scores: list[float]
    """The scores of the items."""
    notes: tuple[tuple[str, ...], ...] | None = None
    """The notes of the rules on each entry, if there are rules."""
    because: list[list[dict[str, Any]]] | None = None
    """The reasons for each entry, if they were requested."""


def rank_queries(
    model: IndexedModel, options: ListOptions, queries: Sequence[Query]
) -> list[RankedItems]:
    """Return the ranked list of each query."""
    found: list[RankedItems | None] = [None] * len(queries)
    for places, rows in _groups(model, options, queries):
        # Rules act on exact lists.
        lists = rank(rows, options, model.items, popular=model.popular, finder=model.finder)
        ends_T = (lists.items_TK >= 0).sum(axis=1).tolist()
        for t, (place, end) in enumerate(zip(places, ends_T, strict=True)):
            items_K, because = lists.items_TK[t, :end], None
            if options.reasons:
                because = _reasons(model, rows.rows(slice(t, t + 1)), items_K, options.reasons)
            found[place] = RankedItems(
                items_K.tolist(),
                lists.scores_TK[t, :end].tolist(),
                None if lists.notes is None else lists.notes[t],
                because,
            )
    return [one for one in found if one is not None]


def _reasons(
    model: IndexedModel, one: Queries, items_K: NDArray[Any], most: int
) -> list[list[dict[str, Any]]]:
    """Return the reasons for each entry of one list; none for popular items."""
    if not len(items_K) or not one.by_model_T[0]:
        return [[] for _ in items_K]
    reasons = explained(one, items_K.astype(np.int64), most, model.items)
    return [entry["because"] for entry in reasons.dicts()]


def explain_query(
    model: IndexedModel, options: ListOptions, query: Query, items: list[int] | None, most: int
) -> list[dict[str, Any]]:
    """Return the contributions of the history to the scores of some items, or of the k best."""
    if items is None:
        items = rank_queries(model, options, [query])[0].items
    ((_, rows),) = _groups(model, options, [query])
    return explained(rows, np.array(items, np.int64), most, model.items).dicts()


def _groups(
    model: IndexedModel, options: ListOptions, queries: Sequence[Query]
) -> Iterator[tuple[list[int], Queries]]:
    """Yield queries that are ranked together, with their places.

    If lists are re-ranked, each folded-in or context query is a separate group, because the noise
    of exploration depends on a row's position in its group.
    """
    plain: list[int] = []
    folded: list[int] = []
    others: list[int] = []
    for place, query in enumerate(queries):
        if len(query.history_H):
            folded.append(place)
        elif query.context is None and not len(query.extra_H) and not len(query.disliked_H):
            plain.append(place)
        else:
            others.append(place)
    if plain:
        index_T = np.array([queries[place].user for place in plain], np.int64)
        rows = Queries(model.model, model.known, {}, index_T, model.history)
        yield plain, rows if options.exclude_seen else rows.with_seen_items()
    together = [folded] if options.reranking is None else [[place] for place in folded]
    for places in filter(None, together):
        yield places, _folded(model, options, [queries[place] for place in places])
    for place in others:
        yield [place], _single(model, options, queries[place])


def _folded(model: IndexedModel, options: ListOptions, queries: Sequence[Query]) -> Queries:
    """Return the rows of users whose items are folded into the model."""
    own = _history([query.history_H for query in queries])
    in_order_E = np.concatenate([_last_of_each(query.history_H) for query in queries])
    seen = [query.left_out(options, query.history_H, query.extra_H) for query in queries]
    folded = model.model.fold_in(NewContexts(own, in_order_E))
    return Queries(folded, _history(seen), {}, np.arange(len(queries)), own)


def _single(model: IndexedModel, options: ListOptions, query: Query) -> Queries:
    """Return the row of a context, or of a user with further items that are left out."""
    if query.context is not None:
        return query.context if options.exclude_seen else query.context.with_seen_items()
    first_T = np.zeros(1, np.int64)
    if query.user < 0:
        own, seen = _history([query.extra_H]), _history([query.left_out(options, query.extra_H)])
        return Queries(model.model, seen, {}, first_T, own, np.zeros(1, bool))
    at = np.array([query.user], np.int64)
    seen = _history([query.left_out(options, model.known.of(query.user), query.extra_H)])
    only = model.model.only(at, np.zeros((1, 0), np.int64))
    return Queries(only, seen, {}, first_T, model.history.rows(at))


def _history(rows: Sequence[NDArray[Any]]) -> History:
    """Return a history with one row for each array."""
    row_E = np.repeat(np.arange(len(rows)), [len(items_H) for items_H in rows])
    return History.of_pairs(row_E, np.concatenate(rows), len(rows))


def _last_of_each(items_H: Items) -> Items:
    """Return the items of a history, each at its last position only."""
    _, last = np.unique(items_H[::-1], return_index=True)
    kept: Items = items_H[np.sort(len(items_H) - 1 - last)]
    return kept
