"""New users and new events of a saved model, without training.

A user whose history changes is folded in again from all items of the history. A model without a
rule for folding in keeps the vectors of its users and cannot add users; its lists leave out new
items all the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.data.ids import Ids, common_kind
from sdgar.data.interactions import Interactions
from sdgar.data.merge import merge
from sdgar.data.read_options import USER
from sdgar.errors import DataError, UsageError
from sdgar.maths.sequences import Sequences
from sdgar.models.fold_in import NewContexts
from sdgar.recommend.artifact import Artifact
from sdgar.recommend.indexed_model import IndexedModel, no_rule
from sdgar.recommend.inputs import Histories, find, history_of, rows_of

Pairs = NDArray[np.int64]
"""Pairs of a context and an item as one number each, context · M + item; they ascend."""


def with_new_users(model: IndexedModel, histories: Histories, *, skip_unknown: bool) -> Artifact:
    """Return a model of new users alone; see ``Recommender.fold_in``."""
    rows = rows_of(histories)
    folded, new = model.folded(rows, skip_unknown=skip_unknown)
    seen, neutral_E = model.not_liked_of(rows)
    about = {**model.about, "context": list(USER), "folded_in": True}
    return Artifact(folded, rows.users, model.items, new, about, seen, neutral_E, model.cold_I)


def updated(saved: Artifact, events: Histories, *, skip_unknown: bool) -> Artifact:
    """Return a model that includes these events; see ``Recommender.update``."""
    rows = rows_of(events)
    _require_users(saved, rows)
    if not skip_unknown:
        find(saved.items, rows.items.values.tolist(), "item", "error")
    n_items = len(saved.items)
    item_I = saved.items.index_of(rows.items.values)
    known_E = item_I[rows.items_E] >= 0
    users = _together(saved.users, rows.users.at(np.unique(rows.users_E[known_E])))
    old_U = saved.users.index_of(users.values)
    of_row_U = users.index_of(rows.users.values)

    def pairs(history: History, item_I: NDArray[Any], user_U: NDArray[np.int64]) -> Pairs:
        users_E, items_E = user_U[history.users_E], item_I[history.items_E]
        there_E = (users_E >= 0) & (items_E >= 0)
        return np.unique(users_E[there_E] * n_items + items_E[there_E])

    everyone_U, every_I = np.arange(len(users)), np.arange(n_items)
    before = pairs(saved.history.rows(old_U), every_I, everyone_U)
    liked = pairs(rows.history, item_I, of_row_U)
    not_liked = disliked = before[:0]
    if rows.not_liked_by_id is not None:
        not_liked, neutral_E = rows.not_liked_by_id.pairs(users, saved.items)
        disliked = not_liked[~neutral_E]
    new, gone = np.setdiff1d(liked, before), np.intersect1d(before, not_liked)
    history = _history(np.setdiff1d(np.union1d(before, new), gone), n_items, len(users))
    seen, neutral = (
        before[:0] if known is None else pairs(known.rows(old_U), every_I, everyone_U)
        for known in (saved.seen, saved.neutral)
    )
    seen = np.setdiff1d(np.union1d(seen, not_liked), liked)
    # The feedback of the events is newer than that of the model.
    neutral_E = np.isin(seen, np.setdiff1d(np.union1d(neutral, not_liked), disliked))

    changed_U = np.bincount(np.append(new, gone) // n_items, minlength=len(users)) > 0
    rule, at_U = saved.model.rule, old_U.copy()
    if rule is not None:
        at_U[changed_U & (np.diff(history.indptr_U1) > 0)] = -1
    elif (old_U < 0).any():
        raise no_rule(saved)
    kept = saved.model.in_order()
    kept = None if kept is None else kept.rows(old_U)
    own = NewContexts(history, _in_order(history, kept, rows, item_I, of_row_U, n_items))
    news = {"users": int(changed_U.sum()), "rows": len(new), "new_users": int((old_U < 0).sum())}
    return replace(
        saved,
        model=saved.model.updated(at_U, own),
        users=users,
        history=history,
        seen=_history(seen, n_items, len(users)) if len(seen) else None,
        seen_neutral_E=neutral_E if neutral_E.any() else None,
        about=saved.about | {"updated": news},
        version="",
    )


def with_history(saved: Artifact, data: Interactions) -> Artifact:
    """Return a model with these rows as the histories of its users; their vectors stay."""
    return replace(
        saved, model=saved.model.with_history(data.history), history=data.history, version=""
    )


def with_rows_of(data: Interactions, saved: Artifact) -> Interactions:
    """Return these rows with the further rows of the model; dislikes in them are newer.

    The model holds no times and no weights: its rows come before all others, with the mean weight.
    """
    _require_users(saved, data)
    old, n_items = saved.history, len(saved.items)
    rows = history_of(data, saved.users, saved.items)
    known = rows.users_E * n_items + rows.items_E
    if data.not_liked_by_id is not None:
        known = np.append(known, data.not_liked_by_id.pairs(saved.users, saved.items)[0])
    lacking_E = ~np.isin(old.users_E * n_items + old.items_E, known)
    if not lacking_E.any():
        return _with_seen_of(data, saved)
    n, time_E, weight_E = int(lacking_E.sum()), data.time_E, data.weight_E
    kept = Interactions.from_arrays(
        saved.users.at(old.users_E[lacking_E]),
        saved.items.at(old.items_E[lacking_E]),
        time=None if time_E is None else np.full(n, time_E.min()),
        weight=None if weight_E is None else np.full(n, weight_E.mean()),
    )
    return _with_seen_of(merge(data, kept), saved)


def _with_seen_of(data: Interactions, saved: Artifact) -> Interactions:
    """Return the same rows with the seen pairs of the model, which are older than all of them.

    Whether a pair is neutral or disliked follows from the rows, if they have it as seen too.
    """
    if saved.seen is None:
        return data
    time_E = data.seen_time_E if data.seen is not None else data.time_E
    users_E = data.users.index_of(saved.users.values)[saved.seen.users_E]
    items_E = data.items.index_of(saved.items.values)[saved.seen.items_E].astype(np.int64)
    neutral_E = saved.seen_neutral_E
    if neutral_E is not None and data.seen is not None:
        newer = data.seen.users_E * data.n_items + data.seen.items_E
        neutral_E = neutral_E & ~np.isin(users_E * data.n_items + items_E, newer)
    n = len(items_E)
    early_E = None if time_E is None else np.full(n, time_E.min(initial=0))
    return data.with_seen_pairs(users_E, items_E, early_E, neutral_E)


def lacks(saved: Artifact, data: Interactions) -> NDArray[np.bool_]:
    """Return whether each row is missing from the histories of a model."""
    users_E = saved.users.index_of(data.users.values)[data.users_E]
    items_E = saved.items.index_of(data.items.values)[data.items_E]
    n_items = len(saved.items)
    known = saved.history.users_E * n_items + saved.history.items_E
    pair_E = np.where((users_E >= 0) & (items_E >= 0), users_E * n_items + items_E, -1)
    return ~np.isin(pair_E, known)


def _require_users(saved: Artifact, rows: Interactions) -> None:
    """Refuse contexts of several fields, on either side."""
    fields = tuple(saved.about.get("context", ["user"]))
    if len(fields) > 1 or rows.fields is not None:
        raise UsageError(
            f"a context is {', '.join(fields if len(fields) > 1 else rows.context)} here, and only "
            "models whose context is the user alone can be updated. Train again with all rows.",
            code="bad_context",
        )


def _together(mine: Ids, others: NDArray[Any]) -> Ids:
    """Return the ids of the model and new ones."""
    new = others[mine.index_of(others) < 0]
    if len(new) and (mine.kind == "text") != (Ids(new).kind == "text"):
        raise DataError(
            f"the ids of users are {mine.kind} in the model and {Ids(new).kind} in the events, "
            f"such as {new[:3].tolist()!r}. Give both as the same type.",
            code="schema_mismatch",
        )
    return Ids(np.unique(np.concatenate(common_kind(mine.values, new)))) if len(new) else mine


def _history(pair_E: Pairs, n_items: int, n_users: int) -> History:
    users_E, items_E = np.divmod(pair_E, n_items)
    return History.of_pairs(users_E, items_E, n_users)


def _in_order(
    history: History,
    kept: Sequences | None,
    rows: Interactions,
    item_I: NDArray[np.int64],
    of_row_U: NDArray[np.int64],
    n_items: int,
) -> NDArray[np.int64] | None:
    """Return the items of each context, items of events last and in the order of their times.

    The model's own items come first, in the order that it keeps, or by index. None without times.
    """
    if rows.time_E is None:
        return None
    pair_E = history.users_E * n_items + history.items_E
    there_E = item_I[rows.items_E] >= 0
    event_E = of_row_U[rows.users_E[there_E]] * n_items + item_I[rows.items_E[there_E]]
    order = np.argsort(event_E, kind="stable")
    at_E = np.searchsorted(event_E[order], pair_E).clip(max=max(len(order) - 1, 0))
    some = len(order) > 0
    met_E = (event_E[order][at_E] == pair_E) if some else np.zeros(len(pair_E), bool)
    time_E = rows.time_E[there_E][order][at_E] if some else np.zeros(len(pair_E), np.int64)
    place_E = history.items_E.astype(np.int64)
    if kept is not None:
        place_E = _last_places(kept.users_E * n_items + kept.item_E, pair_E)
    by = np.lexsort((place_E, np.where(met_E, time_E, 0), met_E, history.users_E))
    return history.items_E[by].astype(np.int64)


def _last_places(pair_S: Pairs, wanted_E: Pairs) -> NDArray[np.int64]:
    """Return the last place of each wanted pair among other pairs; -1 if it is not there."""
    if not len(pair_S):
        return np.full(len(wanted_E), -1)
    order_S = np.argsort(pair_S, kind="stable")
    at_E = np.searchsorted(pair_S[order_S], wanted_E, side="right") - 1
    place_E = order_S[at_E]
    found: NDArray[np.int64] = np.where(pair_S[place_E] == wanted_E, place_E, -1)
    return found
