"""Queries for ranked lists: by user, by history or by context, answered by one library call.

The basis of a list is one of

model      the user was trained on, and has no new positive item since then
feedback   the user has new positive items: all items of the user are folded in
history    the request itself has the items
popular    the user is unknown: the most popular items
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.models.fold_in import NewContexts
from sdgar.recommend.questions import Asked
from sdgar.recommend.ranking import ranked
from sdgar.recommend.reasons import explained
from sdgar.recommend.reranked import reranked_in_pieces
from sdgar.recommend.rules import Facts, Reranking

if TYPE_CHECKING:
    from sdgar.recommend.lists import Lists
    from sdgar.serve.activity import RecentFeedback
    from sdgar.serve.snapshot import Snapshot

Items = NDArray[np.int64]
"""The indices of some items."""
Basis = Literal["model", "feedback", "history", "popular"]
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class Query:
    """A query for one ranked list, in the indices of a model."""

    basis: Basis
    """What the list is based on."""
    user: int = -1
    """The index of the user or context in the model, -1 for none."""
    history_H: Items = field(default_factory=lambda: _NONE)
    """The items that are folded in, in the order of time."""
    extra_H: Items = field(default_factory=lambda: _NONE)
    """Further items of the user, which are left out like the seen ones."""
    disliked_H: Items = field(default_factory=lambda: _NONE)
    """Items with negative feedback, which are never listed."""
    context: Asked | None = None
    """The model and the seen items of a context of several fields."""

    @property
    def is_plain(self) -> bool:
        """Whether the list depends on nothing but the index of the user."""
        return (
            self.basis in ("model", "popular")
            and self.context is None
            and not len(self.extra_H)
            and not len(self.disliked_H)
        )


@dataclass(frozen=True, eq=False)
class BlockedItems:
    """The items that may not be listed; compared by identity, so that it can be part of a key."""

    blocked_I: NDArray[np.bool_] | None = None
    """Whether each item is blocked; None if none is."""


@dataclass(frozen=True)
class ListOptions:
    """The options of ranked lists; queries with equal options are answered together."""

    k: int
    """The number of items of a list."""
    exclude_seen: bool = True
    """Whether items that the user has are left out."""
    blocked: BlockedItems = BlockedItems()
    """The items that are left out for everyone."""
    reasons: int = 0
    """The number of reasons for each entry."""
    reranking: Reranking | None = None
    """The rules and options that re-rank the list, if there are any."""
    facts: Facts | None = None
    """The facts about items that rules need."""


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


def user_query(snapshot: Snapshot, user: int, feedback: RecentFeedback | None) -> Query:
    """Return the query for a user by index (-1 if unknown) and by the feedback since training."""
    known: Basis = "model" if user >= 0 else "popular"
    if feedback is None:
        return Query(known, user)
    items = snapshot.model.items
    liked_H = _known(items.index_of(feedback.liked))
    disliked_H = _known(items.index_of(feedback.disliked))
    own_H = snapshot.model.history.of(user).astype(np.int64) if user >= 0 else _NONE
    new_H = liked_H[~np.isin(liked_H, own_H)]
    kept_H = own_H[~np.isin(own_H, disliked_H)]
    changed = len(new_H) > 0 or len(kept_H) < len(own_H)
    if changed and snapshot.folds_in and len(kept_H) + len(new_H):
        history_H = np.concatenate((kept_H, new_H))
        seen_H = snapshot.model.known.of(user).astype(np.int64) if user >= 0 else _NONE
        return Query("feedback", user, history_H, np.concatenate((seen_H, liked_H)), disliked_H)
    return Query(known, user, _NONE, liked_H, disliked_H)


def history_query(snapshot: Snapshot, items: Sequence[Any]) -> tuple[Query, list[Any]]:
    """Return the query for a history, and its items that the model does not know."""
    index_H = snapshot.model.items.index_of(items)
    unknown = [item for item, at in zip(items, index_H, strict=True) if at < 0]
    history_H = _known(index_H)
    if not len(history_H) or not snapshot.folds_in:
        return Query("popular", extra_H=history_H), unknown
    return Query("history", history_H=history_H), unknown


def context_query(snapshot: Snapshot, context: dict[str, Any]) -> Query:
    """Return the query for a context of several fields, or for a user as the only field."""
    only_user = snapshot.model.fields is None and set(context) == {"user"}
    found = snapshot.model.asked(context["user"] if only_user else context)
    return Query("popular") if found is None else Query("model", context=found)


def rank(snapshot: Snapshot, options: ListOptions, queries: Sequence[Query]) -> list[RankedItems]:
    """Return the ranked list of each query."""
    common: dict[str, Any] = {"blocked_I": options.blocked.blocked_I, "popular": snapshot.popular}
    ids = snapshot.model.items
    found: list[RankedItems | None] = [None] * len(queries)
    for places, rows in _groups(snapshot, options, queries):
        if options.reranking is None:
            lists = ranked(rows, options.k, ids, index=snapshot.model.finder, **common)
        else:
            assert options.facts is not None
            (lists,) = reranked_in_pieces(
                rows, options.k, ids, None, options.reranking, options.facts, why=False, **common
            )
        ends_T = (lists.items_TK >= 0).sum(axis=1).tolist()
        for t, (place, end) in enumerate(zip(places, ends_T, strict=True)):
            items_K, notes = lists.items_TK[t, :end], lists.notes
            because = None
            if options.reasons:
                because = reasons_of(snapshot, rows, t, items_K.astype(np.int64), options.reasons)
            found[place] = RankedItems(
                items_K.tolist(), lists.scores_TK[t, :end].tolist(),
                None if notes is None else notes[t], because,
            )  # fmt: skip
    return [one for one in found if one is not None]


def explained_items(
    snapshot: Snapshot, options: ListOptions, query: Query, items: list[int] | None, most: int
) -> list[dict[str, Any]]:
    """Return the contributions of the history to the scores of some items, or of the k best."""
    if items is None:
        items = rank(snapshot, options, [query])[0].items
    ((_, rows),) = _groups(snapshot, options, [query])
    return explained(rows, np.array(items, np.int64), most, snapshot.model.items).dicts()


def unblocked(lists: Lists, blocked_I: NDArray[np.bool_] | None, k: int) -> list[RankedItems]:
    """Return the first k items of each list that are not blocked."""
    found = []
    for items_K, scores_K in zip(lists.items_TK, lists.scores_TK, strict=True):
        kept_K = items_K >= 0
        if blocked_I is not None:
            kept_K &= ~blocked_I[items_K]
        found.append(RankedItems(items_K[kept_K][:k].tolist(), scores_K[kept_K][:k].tolist()))
    return found


def reasons_of(
    snapshot: Snapshot, rows: Asked, row: int, items_B: Items, most: int
) -> list[list[dict[str, Any]]]:
    """Return the reasons for the scores of some items of one list; none for popular items."""
    if not len(items_B) or not rows.by_model_T[row]:
        return [[] for _ in items_B]
    one = rows.rows(slice(row, row + 1))
    reasons = explained(one, items_B, most, snapshot.model.items)
    return [entry["because"] for entry in reasons.dicts()]


def _groups(
    snapshot: Snapshot, options: ListOptions, queries: Sequence[Query]
) -> Iterator[tuple[list[int], Asked]]:
    """Yield queries that the library answers together, with their places.

    If lists are re-ranked, each folded-in or context query is a separate group, because the noise
    of exploration depends on a row's position in its group.
    """
    plain: list[int] = []
    folded: list[int] = []
    others: list[int] = []
    for place, query in enumerate(queries):
        if query.is_plain:
            plain.append(place)
        elif query.basis in ("feedback", "history"):
            folded.append(place)
        else:
            others.append(place)
    if plain:
        index_T = np.array([queries[place].user for place in plain], np.int64)
        yield plain, snapshot.known_users(index_T, exclude_seen=options.exclude_seen)
    if folded and options.reranking is None:
        yield folded, _folded(snapshot, options, [queries[place] for place in folded])
    elif folded:
        for place in folded:
            yield [place], _folded(snapshot, options, [queries[place]])
    for place in others:
        yield [place], _single(snapshot, options, queries[place])


def _folded(snapshot: Snapshot, options: ListOptions, queries: Sequence[Query]) -> Asked:
    """Return the rows of users whose items are folded into the model."""
    new = contexts_of([query.history_H for query in queries])
    model = snapshot.model.model.fold_in(new)
    seen = _left_out(options, queries, lambda query: (query.history_H, query.extra_H))
    return Asked(model, seen, {}, np.arange(len(queries)), new.history)


def _single(snapshot: Snapshot, options: ListOptions, query: Query) -> Asked:
    """Return the row of a context, or of a user with further items that are left out."""
    if query.context is not None:
        return query.context if options.exclude_seen else query.context.unseen()
    model, at = snapshot.model, np.array([max(query.user, 0)], np.int64)
    if query.basis == "model":
        users = snapshot.known_users(at, exclude_seen=False)
        own, trained = users.own.rows(at), np.ones(1, bool)
        known_H = model.known.of(query.user)

        scorer = model.model.only(at, np.zeros((1, 0), np.int64))
    else:
        own, trained = _rows([query.extra_H]), np.zeros(1, bool)
        known_H = np.zeros(0, np.int32)
        scorer = model.model
    seen = _left_out(options, [query], lambda query: (known_H, query.extra_H))
    return Asked(scorer, seen, {}, np.zeros(1, np.int64), own, trained)


def _left_out(
    options: ListOptions,
    queries: Sequence[Query],
    known: Callable[[Query], tuple[NDArray[Any], ...]],
) -> History:
    """Return the items that the lists leave out: disliked ones, and seen ones unless included."""
    return _rows(
        [
            np.concatenate((query.disliked_H, *(known(query) if options.exclude_seen else ())))
            for query in queries
        ]
    )


def contexts_of(histories: Sequence[Items]) -> NewContexts:
    """Return new contexts with these items, each in the order of time."""
    in_order = [_last_of_each(items_H) for items_H in histories]
    return NewContexts(_rows(histories), np.concatenate(in_order))


def _rows(rows: Sequence[NDArray[Any]]) -> History:
    """Return a history with one row for each array."""
    sorted_rows = [np.unique(items_H) for items_H in rows]
    indptr_T1 = np.concatenate(([0], np.cumsum([len(items_H) for items_H in sorted_rows])))
    return History(indptr_T1.astype(np.int64), np.concatenate(sorted_rows).astype(np.int32))


def _last_of_each(items_H: Items) -> Items:
    """Return the items of a history, each at its last position only."""
    _, last = np.unique(items_H[::-1], return_index=True)
    kept: Items = items_H[np.sort(len(items_H) - 1 - last)]
    return kept


def _known(index_H: Items) -> Items:
    return index_H[index_H >= 0]
