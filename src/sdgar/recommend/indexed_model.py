"""A saved model with the ids of its users and items: from raw ids to indices of the model.

An unknown id in a query never makes other queries fail.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import of_kind
from sdgar.data.contexts import Fields, excluded
from sdgar.data.history import History
from sdgar.data.ids import plain
from sdgar.data.interactions import Interactions
from sdgar.data.read_options import USER, SeenBy
from sdgar.errors import ArtifactError, DataError, UsageError
from sdgar.models.factors import Factors, popularity
from sdgar.models.fold_in import NewContexts
from sdgar.models.model import Model
from sdgar.recommend.artifact import Artifact
from sdgar.recommend.inputs import (
    CONSEQUENCE,
    Histories,
    Raw,
    column_of,
    find,
    history_of,
    in_order,
    labels,
    report_unknown,
    rows_of,
    several,
    warn,
    without_items,
)
from sdgar.recommend.lists import Queries
from sdgar.recommend.rules import Facts, Reranking

if TYPE_CHECKING:
    from sdgar.ranking.topk import Finder


class IndexedModel:
    """A model with its ids and histories, which turns raw ids into queries by index."""

    def __init__(self, saved: Artifact) -> None:
        of_kind("saved", saved, Artifact, "Load a saved model with sdgar.load(path).")
        self.saved = saved
        """The record that is written to a folder."""
        self.users = saved.users
        """Ids of the contexts."""
        self.items = saved.items
        """Ids of the items."""
        self.model = saved.model
        """The model that scores: vectors, item-item weights, or a network."""
        self.history = saved.history
        """The training items of each context."""
        self.about = saved.about
        """How the model was made."""
        self.version = saved.version
        """The name of exactly this model; empty if it was not loaded from a folder."""
        self.cold_I = saved.cold
        """Whether each item is cold, known by its features alone; None if no item is."""
        self.finder: Finder | None = None
        """The fast way to the best items that ``prepare`` has built; None for a full ranking."""

    @property
    def factors(self) -> Factors:
        """The vectors of the model, without its item-item weights; raise if it has none."""
        factors = self.model.factors()
        if factors is None:
            raise UsageError(
                f"a model of system {self.about.get('system')} has {self.model.holds} and no "
                "vectors. Use `model`.",
                code="no_vectors",
            )
        return factors

    @property
    def cold_items(self) -> NDArray[Any]:
        """The ids of cold items."""
        return self.items.values[:0] if self.cold_I is None else self.items.values[self.cold_I]

    @cached_property
    def popular(self) -> Factors:
        """The scores for users without training rows: the popularity of items."""
        return popularity(self.history, self.model.n_items)

    @property
    def popularity_I(self) -> NDArray[np.float32]:
        """How many contexts have each item."""
        return self.popular.bias_I

    @property
    def seen_by(self) -> SeenBy:
        """Whether an item of a user is left out in all contexts of the user, or only in its own."""
        return "user" if self.about.get("seen_by") == "user" else "context"

    @cached_property
    def fields(self) -> Fields | None:
        """The fields of contexts, if they have several."""
        names = tuple(self.about.get("context", USER))
        if names == USER:
            return None
        try:
            return Fields.of(names, self.users)
        except (DataError, TypeError, ValueError) as error:
            raise ArtifactError(
                f"the model's contexts should be {', '.join(names)}, and are not: "
                f"{self.users.values[:1].tolist()!r} ({error}). Train it again.",
                code="damaged",
            ) from error

    @cached_property
    def known(self) -> History:
        """The items that lists leave out: positive ones, and seen ones that are not positive."""
        return excluded(self.history.union(self.saved.seen), self.fields, self.seen_by)

    def queries_of(
        self, users: Raw | None = None, histories: Histories | None = None, *, fallback: str
    ) -> Queries:
        """Return the queries for these users, for new users with histories, or for all users."""
        if histories is not None:
            return self._of_histories(rows_of(histories), fallback)
        if users is not None:
            return self._of_users(several(users, "users"), fallback)
        ids = self.users.values
        columns = {"user": ids} if self.fields is None else self._columns_of(ids.tolist())
        return self._of_index(np.arange(len(ids)), columns)

    def _of_index(self, index_T: NDArray[np.int64], columns: Mapping[str, NDArray[Any]]) -> Queries:
        indptr_U1 = self.history.indptr_U1
        trained_T: NDArray[np.bool_] = indptr_U1[index_T + 1] > indptr_U1[index_T]
        return Queries(self.model, self.known, columns, index_T, self.history, trained_T)

    def _of_users(self, ids: list[Any], fallback: str) -> Queries:
        """Return the queries for users by id, and warn of unknown ones."""
        if self.fields is not None and ids:
            return self._of_contexts(self.fields, ids, fallback)
        if any(isinstance(one, Mapping) for one in ids):
            raise UsageError(
                "the context of this model is the user alone: query user ids, without other "
                "fields. To have more fields, train with --context user,FIELD.",
                code="bad_context",
            )
        index_T = find(self.users, ids, "user", fallback)
        columns = {"user": labels(self.users, ids, index_T)}
        return self._of_index(index_T, columns if self.fields is None else self._columns_of([]))

    def _columns_of(self, contexts: list[str]) -> dict[str, NDArray[Any]]:
        """Return a column for each field of contexts."""
        assert self.fields is not None
        rows = [json.loads(text) for text in contexts]
        return {
            name: column_of([row[f] for row in rows]) for f, name in enumerate(self.fields.names)
        }

    def _of_histories(self, rows: Interactions, fallback: str) -> Queries:
        """Return the queries for new users; a user without a known item is unknown."""
        known_U = np.ones(rows.n_users, bool)
        columns = {"user": rows.users.values}
        if fallback != "error":
            known_I = self.items.index_of(rows.items.values) >= 0
            report_unknown(rows.items.values[~known_I].tolist(), self.items, "item", "skip")
            known_U = np.bincount(rows.users_E[known_I[rows.items_E]], minlength=rows.n_users) > 0
        index_T = _numbered(known_U)
        if not known_U.all():
            warn(f"{without_items(rows.users.values[~known_U])} {CONSEQUENCE[fallback]}")
            if not known_U.any():
                return Queries(self.model, self.known, columns, index_T, self.history)
            rows = rows.subset(known_U[rows.users_E], "unknown_items")
        folded, new = self.folded(rows, skip_unknown=fallback != "error")
        return Queries(folded, new.union(self.not_liked_of(rows)[0]), columns, index_T, new)

    def folded(self, rows: Interactions, *, skip_unknown: bool) -> tuple[Model, History]:
        """Return a model for the new users of these rows, and their items."""
        if not skip_unknown:
            find(self.items, rows.items.values.tolist(), "item", "error")
        new = history_of(rows, rows.users, self.items)
        empty = np.flatnonzero(np.diff(new.indptr_U1) == 0)
        if len(empty):
            raise UsageError(
                f"{without_items(rows.users.at(empty))} Leave them out: they can only get the "
                "most popular items.",
                code="empty_history",
            )
        if self.model.rule is None:
            raise no_rule(self.saved)
        return self.model.fold_in(NewContexts(new, in_order(rows, self.items))), new

    def not_liked_of(self, rows: Interactions) -> tuple[History | None, NDArray[np.bool_] | None]:
        """Return the seen items of new users that are not positive, and which are neutral."""
        if rows.not_liked_by_id is None:
            return None, None
        pairs, neutral_E = rows.not_liked_by_id.pairs(rows.users, self.items)
        users_E, items_E = np.divmod(pairs, len(self.items))
        seen = History.of_pairs(users_E, items_E, rows.n_users)
        return seen, neutral_E if neutral_E.any() else None

    def blocked(
        self, allow: Iterable[Any] | None, exclude: Iterable[Any] | None, *, fallback: str
    ) -> NDArray[np.bool_] | None:
        """Return whether each item may not be listed; unknown ones are reported or refused."""
        if allow is None and exclude is None:
            return None
        fallback = "error" if fallback == "error" else "skip"
        blocked_I = np.zeros(self.model.n_items, bool)
        if allow is not None:
            wanted = several(allow, "items")
            none_known = len(wanted) > 0 and bool((self.items.index_of(wanted) < 0).all())
            index_T = find(self.items, wanted, "item", "error" if none_known else fallback)
            blocked_I[:] = True
            blocked_I[index_T[index_T >= 0]] = False
        if exclude is not None:
            index_T = find(self.items, several(exclude, "exclude"), "item", fallback)
            blocked_I[index_T[index_T >= 0]] = True
        return blocked_I

    def facts_for(self, reranking: Reranking) -> Facts:
        """Return the facts about items that rules need; the last ones are kept by the rules."""
        if reranking.made and reranking.made[0][0] is self.model:
            return reranking.made[0][1]
        facts = Facts.of(
            reranking.table,
            self.items,
            popularity_I=np.bincount(self.history.items_E, minlength=self.model.n_items),
            item_ID=self.model.item_vectors(),
        )
        for complaint in reranking.complaints(facts):
            warn(complaint[0].upper() + complaint[1:])
        reranking.made[:] = [(self.model, facts)]
        return facts

    def _of_contexts(self, fields: Fields, contexts: list[Any], fallback: str) -> Queries:
        """Return the queries for contexts of several fields, trained on or new combinations."""
        names: list[list[Any]] = []
        found: list[tuple[int, NDArray[np.int64]] | None] = []
        reasons: list[str] = []
        for context in contexts:
            if not isinstance(context, Mapping):
                raise UsageError(
                    f"a context of this model has the fields {', '.join(fields.names)}: "
                    f"pass a mapping with these, got {context!r}.",
                    code="bad_context",
                )
            fields.require_names(context)
            try:
                found.append(self._place(fields, context))
                names.append(json.loads(fields.key(context)))
            except UsageError as error:
                if fallback == "error":
                    raise
                found.append(None)
                names.append([plain(context[name]) for name in fields.names])
                reasons.append(str(error))
        if reasons:
            warn(
                f"{len(reasons):,} contexts are unknown to the model. The first: {reasons[0]} "
                f"{CONSEQUENCE[fallback]}"
            )
        known = [place for place in found if place is not None]
        at_T = np.array([at for at, _ in known], np.int64)
        place_TF = np.array([places_F for _, places_F in known], np.int64)
        place_TF = place_TF.reshape(-1, len(fields.names))
        same_T = np.where(at_T >= 0, at_T, fields.same_seen(place_TF, self.seen_by))
        columns = [column_of(list(values)) for values in zip(*names, strict=True)]
        return Queries(
            self.model.only(at_T, place_TF),
            self.known.rows(same_T),
            dict(zip(fields.names, columns, strict=True)),
            _numbered(np.array([place is not None for place in found], bool)),
            self.history.rows(same_T),
        )

    def _place(self, fields: Fields, context: Mapping[str, Any]) -> tuple[int, NDArray[np.int64]]:
        """Return the index of a context, -1 if it is new, and the values of its fields."""
        places_F = fields.places(context)
        at = int(self.users.index_of([fields.key(context)])[0])
        if at < 0 and self.model.n_values is None:
            raise UsageError(
                f"{dict(context)!r} did not occur in training, and a model of system "
                f"{self.about.get('system')} can only rank for contexts that did.",
                code="unknown_context",
            )
        return at, places_F


def _numbered(known_T: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return 0, 1, 2, … for known queries, and -1 for others."""
    return np.where(known_T, np.cumsum(known_T) - 1, -1)


def no_rule(saved: Artifact) -> UsageError:
    """Return the error for new users of a model that cannot fold them in."""
    return UsageError(
        f"new users cannot be folded into a model of system {saved.about.get('system')!r}: "
        "it has no rule for a vector from a history alone. Use a model of cosines trained by a "
        "softmax, such as sdsoftmax (with similarity=cosine), of least squares, such as ials, or "
        "of weights between items, such as local-ease. Or train again with the new users' rows.",
        code="no_fold_in",
    )
