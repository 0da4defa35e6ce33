"""From a saved model to recommendations: raw ids in, a frame out. No training code."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sdgar import artifact
from sdgar.arguments import a_path, length, of_kind
from sdgar.artifact import Artifact
from sdgar.contracts import Factors, ItemWeights, Model, Scorer
from sdgar.data.contexts import USER, Fields
from sdgar.data.held_out import HeldOut
from sdgar.data.ids import Ids, is_column, plain
from sdgar.data.interactions import History, Interactions
from sdgar.errors import ArtifactError, DataError, SdgarWarning, UsageError
from sdgar.evaluation.popularity import popularity
from sdgar.evaluation.report import Report
from sdgar.evaluation.report import evaluate as _evaluate
from sdgar.evaluation.topk import TopK, top_k
from sdgar.fold_in import fold_in
from sdgar.modules import ModuleScores
from sdgar.sparse import SparseMatrix

Raw = str | int | Mapping[str, Any] | Iterable[Any]
"""One raw id, or several; with contexts of several fields, mappings."""
Histories = Interactions | Mapping[Any, Iterable[Any]] | Iterable[Iterable[Any]]
"""What new users have: rows, lists of items by user, or lists only, of users 0, 1, 2, …"""


class Recommender:
    """A trained model that answers questions; it needs no data set."""

    def __init__(self, saved: Artifact) -> None:
        of_kind("saved", saved, Artifact, "Load a saved model with sdgar.load(path).")
        self._saved = saved

    @property
    def users(self) -> Ids:
        """Ids of the contexts."""
        return self._saved.users

    @property
    def items(self) -> Ids:
        """Ids of the items."""
        return self._saved.items

    @property
    def model(self) -> Model:
        """What gives the scores: vectors, or weights from item to item."""
        return self._saved.model

    @property
    def factors(self) -> Factors:
        """The scores as inner products, of a model that has vectors."""
        if not isinstance(self.model, Factors):
            weights = isinstance(self.model, ItemWeights)
            instead = "weights from item to item" if weights else "a network"
            raise UsageError(
                f"a model of system {self.about.get('system')} has {instead} and no vectors. Use "
                "`model`.",
                code="no_vectors",
            )
        return self.model

    @property
    def history(self) -> History:
        """What each context is known to have."""
        return self._saved.history

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

    @property
    def about(self) -> dict[str, Any]:
        """How the model was made."""
        return self._saved.about

    def recommend(
        self,
        users: Raw | None = None,
        k: int = 10,
        *,
        history: Iterable[Any] | None = None,
        items: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        exclude_seen: bool = True,
    ) -> Any:
        """The k best items of each user: a frame with user, rank (from 1), item, score, short.

        A context of several fields is a mapping: ``{"user": "ann", "daypart": "evening"}``; it need
        not have occurred in training, if each of its values has. The frame then has a column for
        each field.

        ``users=None`` means all; ``history`` instead is one new user, named "new", who has these
        items. ``items`` allows only these, ``exclude`` leaves these out. A user with fewer than k
        items to choose from gets fewer rows, all flagged ``short``; one with none gets a single
        row without an item.
        """
        if users is not None and history is not None:
            raise UsageError("give users or a history, not both.", code="whom")
        k = length("k", k)
        asked = None if users is None else _several(users, "users")
        if asked and self.fields is not None:
            return self._in_contexts(asked).recommend(
                k=k, items=items, exclude=exclude, exclude_seen=exclude_seen
            )
        if history is not None:
            new = self.fold_in({"new": _several(history, "history")})
            return new.recommend(k=k, items=items, exclude=exclude, exclude_seen=exclude_seen)
        index_T = np.arange(len(self.users)) if asked is None else self._users_of(asked)
        top = top_k(
            self.model,
            index_T,
            min(k, self.model.n_items),
            seen=self.history if exclude_seen else None,
            blocked_I=self._blocked(items, exclude),
        )
        return self._frame("user", self.users.at(index_T), top, k, like=users)

    def fold_in(self, histories: Histories, *, skip_unknown: bool = False) -> Recommender:
        """A model of the same items for new users, from what they have; nothing is trained.

        Items the model does not know are refused, or with ``skip_unknown`` left out; a user must
        have at least one that it knows. A model of sequences looks at their order: that of the
        list, or of the times of ``Interactions``. Weights of rows play no part.
        """
        rows = _rows_of(histories)
        if not skip_unknown:
            self._items_of(rows.items.values)
        new = _history_of(rows, rows.users, self.items)
        empty = np.flatnonzero(np.diff(new.indptr_U1) == 0)
        if len(empty):
            raise UsageError(
                f"{len(empty):,} new users have no item that the model knows, the first are "
                f"{rows.users.at(empty[:5]).tolist()!r}. Leave them out, and give them what is "
                "most popular.",
                code="empty_history",
            )
        in_order_E = _in_order(rows, self.items)
        model = fold_in(self.model, self.about, self.history, new, in_order_E)
        about = {**self.about, "context": list(USER), "folded_in": True}
        return Recommender(Artifact(model, rows.users, self.items, new, about))

    def similar_items(self, items: Raw, k: int = 10) -> Any:
        """The k items with the most similar vectors (cosine), the item itself left out.

        Where there are weights from item to item, the k items that the item speaks for most.
        """
        k = length("k", k)
        index_T = self._items_of(_several(items, "items"))
        itself = History(np.arange(len(index_T) + 1), index_T.astype(np.int32))
        top = top_k(
            self._similarity(itself),
            np.arange(len(index_T)),
            min(k, self.model.n_items),
            seen=itself,
        )
        return self._frame("like", self.items.at(index_T), top, k, like=items)

    def evaluate(
        self,
        test: Interactions,
        *,
        ks: tuple[int, ...] = (10, 20, 50),
        seen: Interactions | None = None,
    ) -> Report:
        """Rank the whole catalogue for every test user and compare with the test rows.

        Items a user is known to have are left out of the list: the model's own training
        rows, or ``seen`` if it is given.
        """
        require_rows("test", test)
        if seen is not None:
            require_rows("seen", seen)
        known = self.history if seen is None else _history_of(seen, self.users, self.items)
        report = _evaluate(self.model, HeldOut.of(test, self), seen=known, ks=ks)
        if report.warning:
            warnings.warn(report.warning, SdgarWarning, stacklevel=2)
        return report

    def save(
        self,
        path: str | Path,
        *,
        overwrite: bool = False,
        attachments: Mapping[str, bytes] | None = None,
    ) -> Path:
        """Write the model as a folder, with other files beside it if wanted."""
        target = a_path("path", path)
        return artifact.save(self._saved, target, overwrite=overwrite, attachments=attachments)

    def _in_contexts(self, asked: list[Any]) -> Recommender:
        """The same model for these contexts, seen or not, in this order."""
        assert self.fields is not None
        keys, vectors, known = [], [], []
        for context in asked:
            if not isinstance(context, Mapping):
                raise UsageError(
                    f"a context of this model has the fields {', '.join(self.fields.names)}: "
                    f"give a mapping with these, got {context!r}.",
                    code="bad_context",
                )
            places_F = self.fields.places(context)
            keys.append(self.fields.key(context))
            at = int(self.users.index_of([keys[-1]])[0])
            if at < 0 and getattr(self.model, "field_VD", None) is None:
                raise UsageError(
                    f"{dict(context)!r} did not occur in training, and a model of system "
                    f"{self.about.get('system')} knows only contexts that did.",
                    code="unknown_context",
                )
            vectors.append((at, places_F))
            known.append(self.history.of(at) if at >= 0 else np.zeros(0, np.int32))
        indptr_T1 = np.cumsum([0, *map(len, known)], dtype=np.int64)
        history = History(indptr_T1, np.concatenate([*known, np.zeros(0, np.int32)]))
        ids = Ids(np.array([*keys, None], dtype=object)[:-1])
        return Recommender(Artifact(self._rows(vectors), ids, self.items, history, self.about))

    def _rows(self, rows: list[tuple[int, NDArray[np.int64]]]) -> Model:
        """The model with these contexts alone: known by number, or made up of their fields."""
        model, at_T = self.model, torch.tensor([at for at, _ in rows])
        if isinstance(model, ItemWeights):
            return ItemWeights(model.history.rows(at_T), model.weight_II)
        if isinstance(model, ModuleScores):
            return replace(model, only_T=at_T)
        user_TD = model.user_UD[at_T.to(model.device)]
        new_T = torch.nonzero(at_T < 0)[:, 0]
        if len(new_T):
            places_XF = np.stack([rows[place][1] for place in new_T.tolist()])
            user_TD[new_T] = model.contexts(torch.from_numpy(places_XF).to(model.device))
        return replace(model, user_UD=user_TD)

    def _users_of(self, asked: list[Any]) -> NDArray[np.int64]:
        if any(isinstance(one, Mapping) for one in asked):
            raise UsageError(
                "the context of this model is the user alone: ask for user ids, without other "
                "fields. To have more in it, train with --context user,FIELD.",
                code="bad_context",
            )
        return _indices(self.users, asked, "user")

    def _items_of(self, items: Iterable[Any]) -> NDArray[np.int64]:
        return _indices(self.items, items, "item")

    def _similarity(self, asked: History) -> Scorer:
        """Scores all items for someone who has nothing but the item asked for."""
        if isinstance(self.model, ItemWeights):
            n_items, device = self.model.n_items, self.model.device
            has = SparseMatrix.of(asked.indptr_U1, asked.items_E, n_items, device=device)
            return ItemWeights(has, self.model.weight_II)
        vectors = self.factors.item_ID
        if vectors.shape[1] == 0:
            raise UsageError(
                f"a {self.about.get('system', 'popularity')} model has no item vectors, so no item "
                "is similar to another. Train a learning system, such as bpr.",
                code="no_vectors",
            )
        unit_ID = torch.nn.functional.normalize(vectors, dim=1)
        zero_I = torch.zeros(len(unit_ID), device=vectors.device)
        return Factors(unit_ID[torch.from_numpy(asked.items_E)], unit_ID, zero_I)

    def _asked(self, key: str, ids: list[Any]) -> dict[str, list[Any]]:
        """The columns that say who or what was asked about: one, or one a field."""
        if key != "user" or self.fields is None:
            return {key: ids}
        if not ids:
            return {name: [] for name in self.fields.names}
        values = zip(*(json.loads(text) for text in ids), strict=True)
        return dict(zip(self.fields.names, map(list, values), strict=True))

    def _blocked(
        self, allow: Iterable[Any] | None, exclude: Iterable[Any] | None
    ) -> NDArray[np.bool_] | None:
        if allow is None and exclude is None:
            return None
        blocked_I = np.zeros(self.model.n_items, bool)
        if allow is not None:
            blocked_I[:] = True
            blocked_I[self._items_of(_several(allow, "items"))] = False
        if exclude is not None:
            blocked_I[self._items_of(_several(exclude, "exclude"))] = True
        return blocked_I

    def _frame(self, key: str, asked_T: NDArray[Any], top: TopK, k: int, *, like: object) -> Any:
        from sdgar.data.tables import to_table

        found_TK = top.items_TK >= 0
        n_T = found_TK.sum(axis=1)
        # Who has nothing to be recommended still shows: one row without an item.
        shown_TK = found_TK.copy()
        shown_TK[:, 0] = True
        row_R, place_R = np.nonzero(shown_TK)
        has_R = found_TK[row_R, place_R]
        items_R = self.items.at(top.items_TK[row_R, place_R].clip(min=0)).tolist()
        scores_R = top.scores_TK[row_R, place_R].tolist()
        return to_table(
            {
                **self._asked(key, asked_T[row_R].tolist()),
                "rank": [
                    p + 1 if h else None for p, h in zip(place_R.tolist(), has_R, strict=True)
                ],
                "item": [i if h else None for i, h in zip(items_R, has_R, strict=True)],
                "score": [s if h else None for s, h in zip(scores_R, has_R, strict=True)],
                "short": (n_T < k)[row_R].tolist(),
            },
            like=like,
        )


def load(path: str | Path) -> Recommender:
    """Load a saved model; its files are verified first, and no code in them can run."""
    loaded = Recommender(artifact.load(a_path("path", path)))
    n_values = 0 if loaded.fields is None else loaded.fields.n_values
    vectors = getattr(loaded.model, "field_VD", None)
    if vectors is not None and len(vectors) != n_values:
        raise ArtifactError(
            f"{path} is damaged: it has {len(vectors)} vectors for {n_values} values of fields. "
            "Restore the folder from a copy, or train again.",
            code="damaged",
        )
    return loaded


def require_rows(name: str, rows: Any) -> None:
    """Refuse what is no ``Interactions``."""
    of_kind(name, rows, Interactions, "Read files and frames with sdgar.read(source).")


def most_popular(model: Recommender) -> Recommender:
    """The yardstick of a model: the same users, items and histories, ranked by popularity."""
    factors = popularity(model.history, len(model.items), model.fields)
    about = {"system": "popular", "context": model.about.get("context", list(USER))}
    return Recommender(Artifact(factors, model.users, model.items, model.history, about))


def _rows_of(histories: Histories) -> Interactions:
    """One row for every item of every new user."""
    if isinstance(histories, Interactions):
        if histories.weight_E is not None:
            _warn_of_weights()
        return histories
    lists = _lists_of(histories)
    bare = [user for user, items in lists.items() if not items]
    if bare or not lists:
        raise UsageError(
            f"{len(bare):,} histories are empty, the first are {bare[:5]!r}. Nothing can be said "
            "of a user who has nothing: give them what is most popular."
            if lists
            else "there is no history to fold in.",
            code="empty_history",
        )
    users = [user for user, items in lists.items() for _ in items]
    items = [item for items in lists.values() for item in items]
    return Interactions.from_arrays(users, items, time=np.arange(len(items)))


def _lists_of(histories: Any) -> dict[Any, list[Any]]:
    """The items of each new user, in their order."""
    if not isinstance(histories, Mapping):
        if not is_column(histories):
            raise _bad_history(histories)
        if hasattr(histories, "columns"):
            raise UsageError(
                "histories are a frame, whose rows say nothing of their order here. Give "
                "sdgar.read(frame), which has one row for each user and item.",
                code="bad_history",
            )
        histories = dict(enumerate(histories))
    lists = {}
    for user, items in histories.items():
        if not is_column(items):
            raise _bad_history(items)
        if isinstance(items, Mapping):
            _warn_of_weights()
        lists[plain(user)] = [plain(item) for item in items]
        for one in (plain(user), *lists[plain(user)]):
            if isinstance(one, bool) or not isinstance(one, str | int):
                raise UsageError(
                    f"an id is text or an integer, got {one!r} in the histories.",
                    code="bad_history",
                )
    return lists


def _bad_history(found: Any) -> UsageError:
    what = "this is text" if isinstance(found, str | bytes) else f"this is {found!r:.60}"
    return UsageError(
        f"a history is a list of items, and {what}: say [['a', 'b']] for one user, or "
        "{'ann': ['a', 'b']}.",
        code="bad_history",
    )


def _warn_of_weights() -> None:
    warnings.warn(
        "fold_in does not use the weights of rows: every item of a history counts alike.",
        SdgarWarning,
        stacklevel=4,
    )


def _history_of(seen: Interactions, users: Ids, items: Ids) -> History:
    """Known rows in the indices of a model; rows it has no index for cannot be recommended."""
    users_E = users.index_of(seen.users.values)[seen.users_E]
    items_E = items.index_of(seen.items.values)[seen.items_E]
    known = (users_E >= 0) & (items_E >= 0)
    order = np.lexsort((items_E[known], users_E[known]))
    counts = np.bincount(users_E[known], minlength=len(users))
    return History(np.concatenate(([0], np.cumsum(counts))), items_E[known][order].astype(np.int32))


def _in_order(rows: Interactions, items: Ids) -> NDArray[np.int64] | None:
    """The items a model knows, user by user in the order of time; None where there is none."""
    if rows.time_E is None:
        return None
    items_E = items.index_of(rows.items.values)[rows.items_E]
    items_E = items_E[np.lexsort((rows.time_E, rows.users_E))]
    return items_E[items_E >= 0]


def _several(raw: Raw, name: str) -> list[Any]:
    """The ids that were given, alone or several: as plain Python has them."""
    if isinstance(raw, np.ndarray) and raw.ndim == 0:
        raw = raw.item()
    raw = plain(raw)
    if isinstance(raw, str | int | Mapping):
        return [raw]
    if is_column(raw):
        ids = [plain(one) for one in raw]
        if all(isinstance(one, str | int | Mapping) for one in ids):
            return ids
    raise UsageError(
        f"{name} must be ids, each a text or an integer, got {raw!r:.60}.", code="bad_ids"
    )


def _indices(ids: Ids, raw: Iterable[Any], what: str) -> NDArray[np.int64]:
    wanted = list(raw)
    index = ids.index_of(wanted)
    if (index < 0).any():
        unknown = [wanted[i] for i in np.flatnonzero(index < 0)[:5]]
        raise UsageError(
            f"{int((index < 0).sum()):,} {what} ids are unknown to the model, the first are "
            f"{unknown!r}. It knows {len(ids):,} {what}s with ids such as "
            f"{ids.values[:3].tolist()!r}.",
            code=f"unknown_{what}",
        )
    return index
