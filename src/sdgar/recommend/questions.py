"""Who is asked about: from raw ids, contexts and histories to the numbers of a model.

A question about an id that the model does not know never fails its neighbours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from sdgar.data.contexts import Fields, left_out
from sdgar.data.history import History
from sdgar.data.ids import Ids, held, is_column, only_column, plain
from sdgar.data.interactions import Interactions
from sdgar.data.read_options import USER, SeenBy
from sdgar.errors import ArtifactError, DataError, UsageError
from sdgar.models.fold_in import NewContexts
from sdgar.models.model import Model
from sdgar.recommend.artifact import Artifact
from sdgar.recommend.histories import Histories, history_of, in_order
from sdgar.recommend.rules import Reranking, Rules
from sdgar.recommend.unknown import INSTEAD, index_of, tell, warn, without_items

Raw = str | int | Mapping[str, Any] | Iterable[Any]
"""One raw id, or several; with contexts of several fields, mappings."""


class Options(TypedDict, total=False):
    """The options of ``Recommender.recommend``, which says what each of them does."""

    history: Iterable[Any] | None
    histories: Histories | None
    items: Iterable[Any] | None
    exclude: Iterable[Any] | None
    exclude_seen: bool
    fallback: str
    why: bool
    rules: Rules | Reranking | None


@dataclass(frozen=True, slots=True)
class Asked:
    """Who or what is asked about, and the model that scores the answers."""

    model: Model
    """The model that scores."""
    seen: History
    """The items that each context of the model has already."""
    columns: Mapping[str, NDArray[Any]]
    """The names that the answer has for each, in one column or one for each field."""
    index_T: NDArray[np.int64]
    """Their numbers in the model, -1 where they are unknown."""
    own: History
    """The items that each context of the model has and likes, which are the reasons for a score."""
    taught_T: NDArray[np.bool_] | None = None
    """Whether the model learned anything of each, as it did not of users who rated all of theirs
    low; None if it did of all that it knows."""

    @property
    def by_model_T(self) -> NDArray[np.bool_]:
        """Whom the model answers; the others get what is popular, or nothing."""
        known_T = self.index_T >= 0
        return known_T if self.taught_T is None else known_T & self.taught_T

    def __len__(self) -> int:
        return len(self.index_T)

    def own_of(self, number: int) -> NDArray[np.int64]:
        """Return the items that one of them has and likes."""
        return self.own.of(int(self.index_T[number])).astype(np.int64)

    def rows(self, part: slice | NDArray[Any]) -> Asked:
        """Return some of them."""
        columns = {name: values[part] for name, values in self.columns.items()}
        taught_T = None if self.taught_T is None else self.taught_T[part]
        return replace(self, columns=columns, index_T=self.index_T[part], taught_T=taught_T)

    def unless(self, fallback: str) -> Asked:
        """Return all of them, or leave out those that are unknown if these are to be skipped."""
        return self.rows(self.index_T >= 0) if fallback == "skip" else self

    def unseen(self) -> Asked:
        """Return the same without anything that they have already."""
        nothing = np.zeros(self.seen.n_users + 1, np.int64)
        return replace(self, seen=History(nothing, np.zeros(0, np.int32)))


class Questions:
    """Finds the numbers of those who are asked about; what it builds, it builds once."""

    def __init__(self, saved: Artifact) -> None:
        self._saved = saved

    @cached_property
    def fields(self) -> Fields | None:
        """The fields of contexts, if they have several."""
        names = tuple(self._saved.about.get("context", USER))
        if names == USER:
            return None
        try:
            return Fields.of(names, self._saved.users)
        except (DataError, TypeError, ValueError) as error:
            raise ArtifactError(
                f"the model's contexts should be {', '.join(names)}, and are not: "
                f"{self._saved.users.values[:1].tolist()!r} ({error}). Train it again.",
                code="damaged",
            ) from error

    def require_fields_of(self, path: object) -> None:
        """Refuse a saved model whose vectors of fields do not fit the fields of its contexts."""
        n_values = 0 if self.fields is None else self.fields.n_values
        vectors = self._saved.model.n_values
        if vectors is not None and vectors != n_values:
            raise ArtifactError(
                f"{path} is damaged: it has {vectors} vectors for {n_values} values of fields. "
                "Restore the folder from a copy, or train again.",
                code="damaged",
            )

    @property
    def seen_by(self) -> SeenBy:
        """Whether what a user has is left out in all of their contexts, or only where they have it.

        Models of earlier days do not say so: they had the latter.
        """
        return "user" if self._saved.about.get("seen_by") == "user" else "context"

    @cached_property
    def known(self) -> History:
        """All that is left out of a list: what a user has, and what they saw and do not like."""
        own = self._saved.history.union(self._saved.seen)
        return left_out(own, self.fields, self.seen_by)

    def about_users(self, users: Raw | None, fallback: str) -> Asked:
        """Ask about these users, or all; a warning tells of those that the model does not know."""
        saved = self._saved
        if users is None:
            columns = {"user": saved.users.values}
            if self.fields is not None:
                columns = _by_field(self.fields, saved.users.values.tolist())
            everyone_T = np.arange(len(saved.users))
            taught_T = self._taught(everyone_T)
            return Asked(saved.model, self.known, columns, everyone_T, saved.history, taught_T)
        asked = several(users, "users")
        if self.fields is not None and asked:
            return self._about_contexts(self.fields, asked, fallback)
        if any(isinstance(one, Mapping) for one in asked):
            raise UsageError(
                "the context of this model is the user alone: ask for user ids, without other "
                "fields. To have more in it, train with --context user,FIELD.",
                code="bad_context",
            )
        index_T = index_of(saved.users, asked, "user", fallback)
        columns = {"user": labels(saved.users, asked, index_T)}
        if self.fields is not None:
            columns = _by_field(self.fields, [])
        taught_T = self._taught(index_T)
        return Asked(saved.model, self.known, columns, index_T, saved.history, taught_T)

    def about_histories(self, rows: Interactions, fallback: str) -> Asked:
        """Ask about new users; those without any item that the model knows are unknown."""
        items, known_U = self._saved.items, np.ones(rows.n_users, bool)
        columns = {"user": rows.users.values}
        if fallback != "error":
            known_I = items.index_of(rows.items.values) >= 0
            tell(rows.items.values[~known_I].tolist(), items, "item", "skip")
            known_U = np.bincount(rows.users_E[known_I[rows.items_E]], minlength=rows.n_users) > 0
        if not known_U.all():
            warn(f"{without_items(rows.users.values[~known_U])} {INSTEAD[fallback]}")
            if not known_U.any():
                own = self._saved.history
                return Asked(self._saved.model, self.known, columns, numbered(known_U), own)
            rows = rows.subset(known_U[rows.users_E], "unknown_items")
        folded, new = self.folded(rows, skip_unknown=fallback != "error")
        seen, _ = self.unliked(rows)
        return Asked(folded, new.union(seen), columns, numbered(known_U), new)

    def folded(self, rows: Interactions, *, skip_unknown: bool) -> tuple[Model, History]:
        """Return a model for the users of these rows, who are new, and what they have."""
        saved = self._saved
        if not skip_unknown:
            index_of(saved.items, rows.items.values.tolist(), "item", "error")
        new = history_of(rows, rows.users, saved.items)
        empty = np.flatnonzero(np.diff(new.indptr_U1) == 0)
        if len(empty):
            raise UsageError(
                f"{without_items(rows.users.at(empty))} Leave them out, and give them what is "
                "most popular.",
                code="empty_history",
            )
        if saved.model.rule is None:
            raise no_rule(saved)
        return saved.model.fold_in(NewContexts(new, in_order(rows, saved.items))), new

    def unliked(self, rows: Interactions) -> tuple[History | None, NDArray[np.bool_] | None]:
        """Return what new users know and do not like, and which of it does not speak against."""
        told = rows.unliked
        if told is None:
            return None, None
        pairs, neutral_E = told.pairs(rows.users, self._saved.items)
        users_E, items_E = np.divmod(pairs, len(self._saved.items))
        seen = History.of_pairs(users_E, items_E, rows.n_users)
        return seen, neutral_E if neutral_E.any() else None

    def blocked(
        self, allow: Iterable[Any] | None, exclude: Iterable[Any] | None, *, strict: bool
    ) -> NDArray[np.bool_] | None:
        """Say which items may not be listed; unknown ones are told of, or refused if ``strict``."""
        if allow is None and exclude is None:
            return None
        items, fallback = self._saved.items, "error" if strict else "skip"
        blocked_I = np.zeros(self._saved.model.n_items, bool)
        if allow is not None:
            wanted = several(allow, "items")
            index_T = items.index_of(wanted)
            none = len(wanted) > 0 and bool((index_T < 0).all())
            index_T = index_of(items, wanted, "item", "error" if none else fallback)
            blocked_I[:] = True
            blocked_I[index_T[index_T >= 0]] = False
        if exclude is not None:
            index_T = index_of(items, several(exclude, "exclude"), "item", fallback)
            blocked_I[index_T[index_T >= 0]] = True
        return blocked_I

    def _taught(self, index_T: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of these users have a row that was learned from."""
        indptr_U1 = self._saved.history.indptr_U1
        taught_T: NDArray[np.bool_] = indptr_U1[index_T + 1] > indptr_U1[index_T]
        return taught_T

    def _about_contexts(self, fields: Fields, asked: list[Any], fallback: str) -> Asked:
        """Ask about contexts, seen or not: the model has those that can be known, in this order."""
        names: list[list[Any]] = []
        found: list[tuple[int, NDArray[np.int64]] | None] = []
        reasons: list[str] = []
        for context in asked:
            if not isinstance(context, Mapping):
                raise UsageError(
                    f"a context of this model has the fields {', '.join(fields.names)}: "
                    f"give a mapping with these, got {context!r}.",
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
                f"{INSTEAD[fallback]}"
            )
        known = [place for place in found if place is not None]
        at_T = np.array([at for at, _ in known], np.int64)
        place_TF = np.array([places_F for _, places_F in known], np.int64)
        place_TF = place_TF.reshape(-1, len(fields.names))
        same_T = fields.same_seen(place_TF, self.seen_by)
        columns = [_column(list(values)) for values in zip(*names, strict=True)]
        whose_T = np.where(at_T >= 0, at_T, same_T)
        return Asked(
            self._saved.model.only(at_T, place_TF),
            self.known.rows(whose_T),
            dict(zip(fields.names, columns, strict=True)),
            numbered(np.array([place is not None for place in found], bool)),
            self._saved.history.rows(whose_T),
        )

    def _place(self, fields: Fields, context: Mapping[str, Any]) -> tuple[int, NDArray[np.int64]]:
        """Find the number of a context, -1 if it is new, and the values of its fields."""
        places_F = fields.places(context)
        at = int(self._saved.users.index_of([fields.key(context)])[0])
        if at < 0 and self._saved.model.n_values is None:
            raise UsageError(
                f"{dict(context)!r} did not occur in training, and a model of system "
                f"{self._saved.about.get('system')} knows only contexts that did.",
                code="unknown_context",
            )
        return at, places_F


def no_rule(saved: Artifact) -> UsageError:
    """Build the error for new users of a model that cannot fold them in."""
    return UsageError(
        f"new users cannot be folded into a model of system {saved.about.get('system')!r}: "
        "it has no rule for a vector from a history alone. Use a model of cosines trained by a "
        "softmax, such as sdsoftmax (with similarity=cosine), of least squares, such as ials, or "
        "of weights between items, such as local-ease. Or train again with the new users' rows.",
        code="no_fold_in",
    )


def several(raw: Raw, name: str) -> list[Any]:
    """Return the ids that were given, one or several, as plain Python values.

    A frame or a mapping of one column is that column.
    """
    if isinstance(raw, np.ndarray) and raw.ndim == 0:
        raw = raw.item()
    raw = plain(only_column(raw, name))
    if isinstance(raw, str | int | Mapping) and not isinstance(raw, bool):
        return [raw]
    if hasattr(raw, "columns"):
        raw = _one_column(raw, name)
    if not isinstance(raw, int) and is_column(raw):
        ids = [plain(one) for one in raw]
        if all(isinstance(i, str | int | Mapping) and not isinstance(i, bool) for i in ids):
            return ids
    raise UsageError(
        f"{name} must be ids, each a text or an integer, got {raw!r:.60}.", code="bad_ids"
    )


def _one_column(frame: Any, name: str) -> Any:
    """Return the only column of a frame; raise if there are others."""
    columns = [str(column) for column in frame.columns]
    if len(columns) != 1:
        raise UsageError(
            f"{name} are a frame with {len(columns)} columns: {', '.join(columns[:8])}. Pass the "
            f"column with the ids, such as frame[{(columns or ['user'])[0]!r}].",
            code="bad_ids",
        )
    return frame[frame.columns[0]]


def numbered(known_T: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count 0, 1, 2, … for those that are known, and -1 for others."""
    return np.where(known_T, np.cumsum(known_T) - 1, -1)


def labels(ids: Ids, asked: list[Any], index_T: NDArray[np.int64]) -> NDArray[Any]:
    """Name each in the answer: by the model's own id, or as it was asked for."""
    known = ids.at(index_T.clip(min=0)).tolist() if len(ids) else asked
    return _column(
        [
            own if at >= 0 else _as_integer(raw) if ids.kind != "text" else raw
            for own, raw, at in zip(known, asked, index_T.tolist(), strict=True)
        ]
    )


def _as_integer(raw: Any) -> Any:
    """Return an integer for its plain decimal spelling, and everything else as it is."""
    if isinstance(raw, str) and len(raw) < 20 and raw.isascii() and raw.lstrip("-").isdecimal():
        return int(raw) if str(int(raw)) == raw else raw
    return raw


def _by_field(fields: Fields | None, ids: list[Any]) -> dict[str, NDArray[Any]]:
    """Return the columns that say who was asked about: one, or one for each field."""
    if fields is None:
        return {"user": _column(ids)}
    rows = [json.loads(text) for text in ids]
    return {name: _column([row[f] for row in rows]) for f, name in enumerate(fields.names)}


def _column(values: list[Any]) -> NDArray[Any]:
    """Return ids as a column of one type: integers, or text if that is what all of them can be."""
    try:
        return held(values)
    except DataError:
        return held([str(value) for value in values])
