"""A loaded model with all that answers need. It never changes: a new model is a new snapshot."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.errors import NumericalError, UsageError
from sdgar.evaluation.beyond import gini_of
from sdgar.recommend.by_index import (
    NO_ITEMS,
    Basis,
    Items,
    Query,
    RankedItems,
    explain_query,
    rank_queries,
)
from sdgar.recommend.ranking import ListOptions
from sdgar.recommend.recommender import Recommender, load
from sdgar.serve.activity import RecentFeedback

_CANARIES = 50
"""The number of users whose lists are checked before a model may answer."""
_SAMPLE = 500
"""The number of users whose lists measure the coverage of the catalogue."""
_MOST_LOG = 4 << 20
"""The maximum size in bytes of a training log that is read."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A loaded model, ready to answer."""

    model: Recommender
    """The loaded model."""
    name: str
    """The name of its folder."""
    facts: dict[str, Any]
    """Its facts: system, settings, data and metrics."""
    finder_facts: dict[str, Any]
    """How the best items are found: exactly, or by an index."""
    curve: list[dict[str, Any]] = field(default_factory=list)
    """The loss and the validation metric of each epoch of training."""
    loaded_at: float = field(default_factory=time.time)
    """The time of loading."""

    @classmethod
    def of(cls, folder: Path) -> Snapshot:
        """Load and verify a folder, and answer some queries, which builds all tables."""
        model = load(folder)
        finder_facts = {"recall": 1.0, **model.prepare()}
        made = cls(model, folder.name, model.facts(folder), finder_facts, curve_of(folder))
        made.warm_up()
        return made

    @property
    def version(self) -> str:
        """The version of the model."""
        return self.model.version

    @cached_property
    def folds_in(self) -> bool:
        """Whether the model can rank for a new history."""
        return self.model.abilities["fold_in"]

    @cached_property
    def has_reasons(self) -> bool:
        """Whether scores can be split among the items of a history."""
        users_T = self._some_users(1)
        if not len(users_T):
            return False
        try:
            explain_query(self.model, ListOptions(1), Query("model", int(users_T[0])), [0], 1)
        except UsageError:
            return False
        return True

    def users_of(self, ids: Sequence[Any]) -> list[int]:
        """Return the index of each user, -1 for one without a trained row."""
        indptr_U1 = self.model.history.indptr_U1
        found = [self.model.users.find(user) for user in ids]
        return [u if u >= 0 and indptr_U1[u + 1] > indptr_U1[u] else -1 for u in found]

    def user_id(self, user: int, raw: Any) -> Any:
        """Return the model's id of a user by index, or the id of the request if it is -1."""
        return self.model.users.at(np.array([user])).tolist()[0] if user >= 0 else raw

    def query_of_user(self, user: int, feedback: RecentFeedback | None) -> Query:
        """Return the query for a user by index (-1 if unknown), with the feedback since training.

        All items of a user are folded in if the feedback changes them; otherwise the items of the
        feedback are only left out.
        """
        known: Basis = "model" if user >= 0 else "popular"
        if feedback is None:
            return Query(known, user)
        liked_H = _known(self.model.items.index_of(feedback.liked))
        disliked_H = _known(self.model.items.index_of(feedback.disliked))
        own_H = self.model.history.of(user).astype(np.int64) if user >= 0 else NO_ITEMS
        new_H = liked_H[~np.isin(liked_H, own_H)]
        kept_H = own_H[~np.isin(own_H, disliked_H)]
        changed = len(new_H) > 0 or len(kept_H) < len(own_H)
        if changed and self.folds_in and len(kept_H) + len(new_H):
            history_H = np.concatenate((kept_H, new_H))
            seen_H = self.model.known.of(user).astype(np.int64) if user >= 0 else NO_ITEMS
            return Query("feedback", user, history_H, np.concatenate((seen_H, liked_H)), disliked_H)
        return Query(known, user, NO_ITEMS, liked_H, disliked_H)

    def query_of_history(self, items: Sequence[Any]) -> Query:
        """Return the query for a history; items that the model does not know are left out."""
        history_H = _known(self.model.items.index_of(items))
        if not len(history_H) or not self.folds_in:
            return Query("popular", extra_H=history_H)
        return Query("history", history_H=history_H)

    def query_of_context(self, context: dict[str, Any]) -> Query:
        """Return the query for a context of several fields, or for a user as the only field."""
        only_user = self.model.fields is None and set(context) == {"user"}
        found = self.model.query_of_context(context["user"] if only_user else context)
        return Query("popular") if found is None else Query("model", context=found)

    def unknown_items(self, items: Sequence[Any]) -> list[Any]:
        """Return the ids of items that the model does not know."""
        found = zip(items, self.model.items.index_of(items), strict=True) if items else ()
        return [item for item, at in found if at < 0]

    def item_ids(self, items: Sequence[int]) -> list[Any]:
        """Return the ids of items by index."""
        ids: list[Any] = self.model.items.at(np.array(items, np.int64)).tolist()
        return ids

    def blocked(self, ids: Sequence[Any]) -> NDArray[np.bool_]:
        """Return whether each item of the model is one of these ids."""
        blocked_I = np.zeros(len(self.model.items), bool)
        index_T = self.model.items.index_of(ids)
        blocked_I[index_T[index_T >= 0]] = True
        return blocked_I

    def warm_up(self) -> None:
        """Answer some queries of each kind; raise if a list is empty or has a bad score."""
        users_T = self._some_users(_CANARIES)
        if not len(users_T):
            return
        for found in self._lists(users_T, exclude_seen=False):
            if not found.items or not np.isfinite(found.scores).all():
                raise NumericalError(
                    f"the model {self.name} has an empty list for a known user, or scores that are "
                    "not finite. Train it again.",
                    code="non_finite_scores",
                )
        if self.folds_in:
            history_H = self.model.history.of(int(users_T[0])).astype(np.int64)
            rank_queries(self.model, ListOptions(10), [Query("history", history_H=history_H)])
        if self.model.abilities["similar_items"]:
            self.model.similar_lists("item", self.model.items.values[:1].tolist(), 10)
        rank_queries(self.model, ListOptions(10), [Query("popular")])
        self.concentration  # noqa: B018 - computed here rather than by the first request

    @cached_property
    def concentration(self) -> dict[str, Any]:
        """How unequal items are in the data and in the lists of some users."""
        count_I = self.model.popularity_I
        lists = self._lists(self._some_users(_SAMPLE), exclude_seen=True)
        listed = np.array([item for found in lists for item in found.items], np.int64)
        listed_I = np.bincount(listed, minlength=len(count_I))
        most = np.sort(count_I)[::-1]
        top = max(1, len(count_I) // 100)
        total = float(count_I.sum())
        return {
            "gini_of_data": gini_of(count_I) if total else 0.0,
            "share_of_top_percent": float(most[:top].sum()) / total if total else 0.0,
            "gini_of_lists": gini_of(listed_I) if len(listed) else None,
            "users_looked_at": len(lists),
            "items_listed": int((listed_I > 0).sum()),
            "coverage": float((listed_I > 0).mean()) if len(count_I) else 0.0,
        }

    def canary_lists(self) -> dict[str, list[str]]:
        """Return the lists of some users, by which two models can be compared."""
        users_T = self._some_users(_CANARIES)
        return self.lists_of([str(user) for user in self.model.users.at(users_T).tolist()])

    def lists_of(self, users: Sequence[str]) -> dict[str, list[str]]:
        """Return the ten best items of the known users."""
        pairs = zip(users, self.users_of(users), strict=True)
        known = {user: at for user, at in pairs if at >= 0}
        lists = self._lists(np.array(list(known.values()), np.int64), exclude_seen=False)
        return {
            user: [str(item) for item in self.item_ids(found.items)]
            for user, found in zip(known, lists, strict=True)
        }

    def _lists(self, users_T: NDArray[np.int64], *, exclude_seen: bool) -> list[RankedItems]:
        queries = [Query("model", user) for user in users_T.tolist()]
        return rank_queries(self.model, ListOptions(10, exclude_seen), queries)

    def _some_users(self, n: int) -> NDArray[np.int64]:
        """Return about n users, spread over all users with a trained row."""
        trained_U = np.flatnonzero(np.diff(self.model.history.indptr_U1) > 0)
        return trained_U[:: max(1, len(trained_U) // n)][:n]


def _known(index_H: Items) -> Items:
    return index_H[index_H >= 0]


def curve_of(folder: Path) -> list[dict[str, Any]]:
    """Return the validation metric and the loss of each epoch, from the log of a training."""
    path = folder / "log.jsonl"
    if not path.is_file() or path.stat().st_size > _MOST_LOG:
        return []
    found = []
    for text in path.read_text(errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            break
        if isinstance(line, dict) and isinstance(line.get("epoch"), int):
            names = ("phase", "epoch", "loss", "metric", "seconds")
            found.append({name: line.get(name) for name in names})
    return found


def as_time(seconds: float) -> str:
    """Return a time as text, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
