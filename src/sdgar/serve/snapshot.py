"""A model made ready to answer, which never changes: another model is another snapshot."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.errors import NumericalError, UsageError
from sdgar.models.fold_in import NewContexts
from sdgar.models.model import Model
from sdgar.ranking.index import best_items
from sdgar.recommend.facts import facts_of
from sdgar.recommend.questions import Asked
from sdgar.recommend.reasons import Reasons, explained
from sdgar.recommend.recommender import Recommender, load

Items = NDArray[np.int64]
"""The numbers of some items."""
_CANARIES = 50
"""How many users are asked about before a model may answer anyone."""
_LOOKED_AT = 500
"""How many users' lists tell how much of the catalogue is recommended."""


@dataclass(frozen=True)
class Best:
    """The best items of someone, best first, by their numbers."""

    items_K: Items
    """The numbers of the items."""
    scores_K: NDArray[np.float32]
    """The scores of the items."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A loaded model with all that answers need of it."""

    model: Recommender
    """The model that answers."""
    name: str
    """The name of the folder that it came from."""
    facts: dict[str, Any]
    """What the model says of itself."""
    found_by: dict[str, Any]
    """How the best items are found: by looking at all of them, or by an index."""
    curve: list[dict[str, Any]] = field(default_factory=list)
    """The metric of each epoch of training."""
    loaded_at: float = field(default_factory=time.time)
    """When it was loaded."""

    @classmethod
    def of(cls, folder: Path) -> Snapshot:
        """Load a folder, which is verified, and answer some questions, which builds all tables."""
        model = load(folder)
        found_by = model.prepare()
        made = cls(model, folder.name, facts_of(folder, model), found_by, curve_of(folder))
        made.warm_up()
        return made

    @property
    def version(self) -> str:
        """The name of exactly this model."""
        return self.model.version

    @cached_property
    def popular_I(self) -> Items:
        """All items, the most popular first, ties by number."""
        return np.argsort(-self.model.popularity_I, kind="stable")

    @cached_property
    def folds_in(self) -> bool:
        """Whether the model has an answer for a history that is new to it."""
        return self.model.abilities["fold_in"]

    @cached_property
    def has_reasons(self) -> bool:
        """Whether scores can be split up among the items of a history."""
        some_T = self._some(1)
        if not len(some_T):
            return False
        try:
            self.reasons(int(some_T[0]), np.zeros(1, np.int64), 1)
        except UsageError:
            return False
        return True

    @property
    def index_facts(self) -> dict[str, Any]:
        """How the best items are found, and the share of them that is found."""
        return {"recall": 1.0, **self.found_by}

    def users_of(self, ids: Sequence[Any]) -> list[int]:
        """Return the number of each user, -1 for one of whom the model has learned nothing."""
        return [self._taught(self.model.users.find(user)) for user in ids]

    def _taught(self, user: int) -> int:
        indptr_U1 = self.model.history.indptr_U1
        return user if user >= 0 and indptr_U1[user + 1] > indptr_U1[user] else -1

    def best_of_users(
        self, users_T: Sequence[int], n: int, blocked_I: NDArray[np.bool_] | None, *, unseen: bool
    ) -> list[Best]:
        """Return the n best items of each known user, without what they have if ``unseen``."""
        seen = self.model.known if unseen else None
        return self._best(self.model.model, np.array(users_T, np.int64), n, blocked_I, seen)

    def best_of_histories(
        self, histories: Sequence[Items], n: int, blocked_I: NDArray[np.bool_] | None,
        *, unseen: bool,
    ) -> list[Best]:  # fmt: skip
        """Return the n best items for each history, which is in the order of time."""
        new = contexts_of(histories)
        folded = self.model.model.fold_in(new)
        seen = new.history if unseen else None
        return self._best(folded, np.arange(len(histories)), n, blocked_I, seen)

    def _best(
        self,
        model: Model,
        users_T: NDArray[np.int64],
        n: int,
        blocked_I: NDArray[np.bool_] | None,
        seen: History | None,
    ) -> list[Best]:
        n = min(n, len(self.model.items))
        finder = self.model.finder
        top = best_items(finder, model, users_T, n, seen=seen, blocked_I=blocked_I)
        ends_T = (top.items_TK >= 0).sum(axis=1).tolist()
        return [
            Best(items_K[:end].astype(np.int64), scores_K[:end])
            for items_K, scores_K, end in zip(top.items_TK, top.scores_TK, ends_T, strict=True)
        ]

    def scores(self, who: int | Items | None, items_B: Items) -> NDArray[np.float64]:
        """Return the scores of some items for a user, a history, or nobody in particular."""
        if who is None:
            return self.model.popularity_I[items_B].astype(np.float64)
        model, at = self.model.model, 0
        if isinstance(who, int):
            at = who
        else:
            model = model.fold_in(contexts_of([who]))
        users_P, items_P = torch.full((len(items_B),), at), torch.from_numpy(items_B)
        with torch.no_grad():
            return model.score_pairs(users_P, items_P).double().cpu().numpy()

    def in_context(
        self,
        context: Mapping[str, Any],
        n: int,
        blocked_I: NDArray[np.bool_] | None,
        *,
        unseen: bool,
    ) -> tuple[Best, str]:
        """Return the n best items in a context of several fields, and what the list rests on."""
        alone = self.model.fields is None and set(context) == {"user"}
        asked = self.model.asked(context["user"] if alone else context)
        if asked is None:
            order_I = self.popular_I
            if blocked_I is not None:
                order_I = order_I[~blocked_I[order_I]]
            return Best(order_I[:n], self.model.popularity_I[order_I[:n]]), "popular"
        seen = asked.seen if unseen else None
        return self._best(asked.model, asked.index_T, n, blocked_I, seen)[0], "model"

    def like(
        self, items: Sequence[Any], k: int, by: str, hidden_I: NDArray[np.bool_] | None
    ) -> list[tuple[Best, bool]]:
        """Return the items that are like each of some items, and whether the model knows it."""
        index_T = self.model.items.index_of(items)
        known = [item for item, at in zip(items, index_T, strict=True) if at >= 0]
        nothing = Best(np.zeros(0, np.int64), np.zeros(0, np.float32))
        found: list[tuple[Best, bool]] = [(nothing, False)] * len(items)
        if not known:
            self.model.similar_by("item", by)
            return found
        lists = self.model.similar_lists("item", known, k, by=by)
        for row, at in enumerate(np.flatnonzero(index_T >= 0).tolist()):
            listed_K = lists.items_TK[row]
            kept_K = listed_K >= 0
            if hidden_I is not None:
                kept_K &= ~hidden_I[listed_K]
            scores_K = lists.scores_TK[row]
            found[at] = (Best(listed_K[kept_K].astype(np.int64), scores_K[kept_K]), True)
        return found

    def reasons(self, who: int | Items, items_B: Items, most: int) -> Reasons:
        """Return which items speak for each of some items: those of a user, or of a history."""
        history = self.model.history
        model, at = self.model.model, np.zeros(1, np.int64)
        if isinstance(who, int):
            at[0] = who
        else:
            new = contexts_of([who])
            model, history = model.fold_in(new), new.history
        asked = Asked(model, history, {}, at, history)
        return explained(asked, items_B, most, self.model.items)

    def warm_up(self) -> None:
        """Answer some questions of each kind; raise if an answer makes no sense."""
        some_T = self._some(_CANARIES)
        if not len(some_T):
            return
        for best in self.best_of_users(some_T.tolist(), 10, None, unseen=False):
            if not len(best.items_K) or not np.isfinite(best.scores_K).all():
                raise NumericalError(
                    f"the model {self.name} lists nothing for a user whom it knows, or with scores "
                    "that are not finite. Train it again.",
                    code="non_finite_scores",
                )
        if self.folds_in:
            history_H = self.model.history.of(int(some_T[0])).astype(np.int64)
            self.best_of_histories([history_H], 10, None, unseen=True)
        if self.model.abilities["similar_items"]:
            self.model.similar_lists("item", self.model.items.values[:1].tolist(), 10)
        self.popular_I  # noqa: B018 - both are built here rather than by the first request
        self.concentration  # noqa: B018

    def _some(self, n: int) -> NDArray[np.int64]:
        """Return about n users, spread over all whom the model has learned something of."""
        taught_U = np.flatnonzero(np.diff(self.model.history.indptr_U1) > 0)
        return taught_U[:: max(1, len(taught_U) // n)][:n]

    @cached_property
    def concentration(self) -> dict[str, Any]:
        """How unequal items are in the data and in the lists of some users."""
        lists = self.best_of_users(self._some(_LOOKED_AT).tolist(), 10, None, unseen=True)
        return concentration_of(self.model, [best.items_K for best in lists])

    def canary_lists(self) -> dict[str, list[str]]:
        """Return the lists of some users, by which two models can be compared."""
        some_T = self._some(_CANARIES)
        return self.lists_of([str(user) for user in self.model.users.at(some_T).tolist()])

    def lists_of(self, users: Sequence[str]) -> dict[str, list[str]]:
        """Return the ten best items of those users whom the model knows."""
        numbers = self.users_of(users)
        known = [user for user, at in zip(users, numbers, strict=True) if at >= 0]
        lists = self.best_of_users([at for at in numbers if at >= 0], 10, None, unseen=False)
        return {
            user: [str(item) for item in self.model.items.at(best.items_K).tolist()]
            for user, best in zip(known, lists, strict=True)
        }


def contexts_of(histories: Sequence[Items]) -> NewContexts:
    """Return new contexts that have these items, each in the order of time."""
    own = [np.unique(items_H) for items_H in histories]
    indptr_T1 = np.concatenate(([0], np.cumsum([len(items_H) for items_H in own])))
    history = History(indptr_T1.astype(np.int64), np.concatenate(own).astype(np.int32))
    return NewContexts(history, np.concatenate([_once(items_H) for items_H in histories]))


def _once(items_H: Items) -> Items:
    """Return each item of a history once, where it came last."""
    _, last = np.unique(items_H[::-1], return_index=True)
    kept: Items = items_H[np.sort(len(items_H) - 1 - last)]
    return kept


_MOST_LOG = 4 << 20
"""The most bytes of a log of training that are read."""


def curve_of(folder: Path) -> list[dict[str, Any]]:
    """Return the validation metric and the loss of each epoch, from the log beside a model."""
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


def gini(count_I: NDArray[np.floating[Any]]) -> float:
    """G = Σ_i (2 i - n - 1) x_i / (n Σ x), x ascending: 0 if all are alike, near 1 if one has all.

    >>> round(gini(np.array([0.0, 0.0, 0.0, 1.0])), 2)
    0.75
    """
    x_I, n = np.sort(count_I.astype(np.float64)), len(count_I)
    if not n or not x_I.sum():
        return 0.0
    return float(((2 * np.arange(1, n + 1) - n - 1) * x_I).sum() / (n * x_I.sum()))


def concentration_of(model: Recommender, lists: list[NDArray[np.int64]]) -> dict[str, Any]:
    """Return how unequal items are in the data and in the lists of some users."""
    count_I = model.popularity_I
    listed = np.concatenate(lists) if lists else np.zeros(0, np.int64)
    listed_I = np.bincount(listed, minlength=len(count_I))
    most = np.sort(count_I)[::-1]
    top = max(1, len(count_I) // 100)
    total = float(count_I.sum())
    return {
        "gini_of_data": gini(count_I),
        "share_of_top_percent": float(most[:top].sum()) / total if total else 0.0,
        "gini_of_lists": gini(listed_I.astype(np.float64)) if len(listed) else None,
        "users_looked_at": len(lists),
        "items_listed": int((listed_I > 0).sum()),
        "coverage": float((listed_I > 0).mean()) if len(count_I) else 0.0,
    }


def as_time(seconds: float) -> str:
    """Return a time as text, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
