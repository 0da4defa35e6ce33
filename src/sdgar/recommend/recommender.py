"""From a saved model to recommendations: raw ids in, a frame out. No training code.

A question about an id that the model does not know never fails its neighbours. The column
``basis`` says what each answer rests on: the ``model``, what is ``popular``, or nothing, because
the id is ``unknown``.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.arguments import a_path, length, of_kind, one_of
from sdgar.contracts import Factors, ItemWeights, Model, Scorer
from sdgar.data.contexts import USER, Fields, SeenBy, left_out
from sdgar.data.held_out import HeldOut
from sdgar.data.ids import Ids, held, is_column, plain
from sdgar.data.interactions import History, Interactions
from sdgar.errors import (
    ArtifactError,
    DataError,
    NumericalError,
    SdgarWarning,
    UsageError,
)
from sdgar.evaluation.popularity import popularity
from sdgar.evaluation.report import Report
from sdgar.evaluation.report import evaluate as _evaluate
from sdgar.evaluation.topk import TopK, block_rows, checked, top_k
from sdgar.fold_in import fold_in
from sdgar.maths.sparse import SparseMatrix
from sdgar.modules import ModuleScores
from sdgar.recommend import artifact
from sdgar.recommend.artifact import Artifact
from sdgar.settings import KS
from sdgar.show.printed import Described

Raw = str | int | Mapping[str, Any] | Iterable[Any]
"""One raw id, or several; with contexts of several fields, mappings."""
Histories = Interactions | Mapping[Any, Iterable[Any]] | Iterable[Iterable[Any]]
"""What new users have: rows, lists of items by user, or lists only, of users 0, 1, 2, …"""
FALLBACKS = ("popular", "skip", "error")
"""Whom the model does not know gets what is most popular, or nothing, or is refused."""
MARKS = ("mark", "skip", "error")
"""The same where nothing can stand for an answer: the id is marked, left out, or refused."""
_INSTEAD = {
    "popular": "They get what is most popular.",
    "skip": "They are left out.",
    "mark": "They are marked as unknown.",
}
_PIECE = 1 << 17
"""Rows of a table that are made at once."""
_PAIRS = 1 << 16
"""Pairs whose vectors are held at once."""
_SCORES_BYTES = 128 << 20
"""Memory for a block of scores of which some are picked."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """Who or what is asked about, and what scores the answers."""

    scorer: Scorer
    seen: History
    """What each of those that the scorer knows has already."""
    columns: dict[str, NDArray[Any]]
    """What the answer calls each, in one column or one a field."""
    index_T: NDArray[np.int64]
    """Their numbers for the scorer, -1 where they are unknown."""
    taught_T: NDArray[np.bool_] | None = None
    """Whether the scorer learned anything of each, as it did not of users who rated all of theirs
    low; None if it did of all that it knows."""

    @property
    def by_model_T(self) -> NDArray[np.bool_]:
        """Whom the model answers; the others get what is popular, or nothing."""
        known_T = self.index_T >= 0
        return known_T if self.taught_T is None else known_T & self.taught_T

    def __len__(self) -> int:
        return len(self.index_T)

    def rows(self, part: slice | NDArray[Any]) -> _Asked:
        """Some of them."""
        columns = {name: values[part] for name, values in self.columns.items()}
        taught_T = None if self.taught_T is None else self.taught_T[part]
        return replace(self, columns=columns, index_T=self.index_T[part], taught_T=taught_T)

    def unless(self, fallback: str) -> _Asked:
        """All of them, or without those that are unknown if these are to be skipped."""
        return self.rows(self.index_T >= 0) if fallback == "skip" else self


class Recommender(Described):
    """A trained model that answers questions; it needs no data set.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.MostPopular().fit(data).recommender_
    >>> model.recommend([3], k=1)["item"].to_list()
    ['b']
    """

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

    @property
    def seen_by(self) -> SeenBy:
        """Whether what a user has is left out in all of their contexts, or only where they have it.

        Models of earlier days do not say so: they had the latter.
        """
        return "user" if self.about.get("seen_by") == "user" else "context"

    @cached_property
    def _known(self) -> History:
        """All that is left out of a list: what a user has, and what they saw and do not like."""
        return left_out(self.history.union(self._saved.seen), self.fields, self.seen_by)

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

    def summary(self) -> list[str]:
        """What is known of the model, in at most four lines."""
        about, settings = self.about, _said_under(self.about.get("hyper_parameters"))
        report = _said_under(about.get("report"))
        whom = "users" if self.fields is None else "contexts"
        sizes = f"{len(self.users):,} {whom} × {len(self.items):,} items"
        found = {
            "dim": settings.get("dim"),
            "best epoch": about.get("best_epoch"),
            "seed": about.get("seed"),
            "seconds": _said_under(report.get("seconds")).get("total"),
            "engine": _said_under(about.get("engine")).get("name") or about.get("computed_by"),
        }
        facts = " · ".join(f"{name} {value}" for name, value in found.items() if value is not None)
        measured = _beside(_said_under(report.get("test")), "on test rows")
        beside = _beside(_said_under(report.get("most_popular")), "for most popular")
        valid = _beside(_said_under(about.get("valid")), "on validation rows")
        said = ", ".join(filter(None, (measured, beside if measured else "", valid)))
        lines = [f"{sizes}, {len(self.history.items_E):,} known rows", facts, said]
        if self.fields is not None:
            lines.append(f"a context is {', '.join(self.fields.names)}")
        return [line for line in lines if line]

    def _lines(self) -> list[str]:
        folded = ", with users folded in" if self.about.get("folded_in") else ""
        return [f"Recommender of system {self.about.get('system')}{folded}", *self.summary()]

    def recommend(
        self,
        users: Raw | None = None,
        k: int = 10,
        *,
        history: Iterable[Any] | None = None,
        histories: Histories | None = None,
        items: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        exclude_seen: bool = True,
        fallback: str = "popular",
    ) -> Any:
        """The k best items of each user: a frame with user, rank, item, score, short, basis.

        A context of several fields is a mapping: ``{"user": "ann", "daypart": "evening"}``; it need
        not have occurred in training, if each of its values has. The frame then has a column for
        each field.

        ``users=None`` means all; ``history`` instead is one new user, named "new", who has these
        items, and ``histories`` are several, as ``fold_in`` takes them. ``items`` allows only
        these, ``exclude`` leaves these out. Ranks count from 1. A user with fewer than k items to
        choose from gets fewer rows, all flagged ``short``; one with none gets a single row without
        an item.

        A user whom the model does not know gets what is most popular: ``basis`` is "popular", and
        the score is the number of contexts that have the item. ``fallback="skip"`` leaves such a
        user out, and "error" refuses. Unknown items that are allowed, excluded or part of a
        history are left out, or refused with "error". A warning tells of all that is unknown.
        """
        (frame,) = self.recommend_in_pieces(
            users, k, history=history, histories=histories, items=items, exclude=exclude,
            exclude_seen=exclude_seen, fallback=fallback, rows=None,
        )  # fmt: skip
        return frame

    def recommend_in_pieces(
        self,
        users: Raw | None = None,
        k: int = 10,
        *,
        history: Iterable[Any] | None = None,
        histories: Histories | None = None,
        items: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        exclude_seen: bool = True,
        fallback: str = "popular",
        rows: int | None = _PIECE,
    ) -> Iterator[Any]:
        """The frame of ``recommend`` as several of about ``rows`` rows, none of which cuts a list.

        In this way the lists of all users need not fit into memory together. There is at least one
        frame.
        """
        if (users is not None) + (history is not None) + (histories is not None) > 1:
            raise UsageError("give users or a history, not both.", code="whom")
        k = length("k", k)
        one_of("fallback", fallback, FALLBACKS)
        if history is not None:
            histories = {"new": _several(history, "history")}
        asked = (
            self._whom(users, fallback)
            if histories is None
            else self._strangers(_rows_of(histories), fallback)
        ).unless(fallback)
        if not exclude_seen:
            nothing = np.zeros(asked.seen.n_users + 1, np.int64)
            asked = replace(asked, seen=History(nothing, np.zeros(0, np.int32)))
        blocked_I = self._blocked(items, exclude, strict=fallback == "error")
        return self._pieces(asked, k, blocked_I, rows, like=users)

    def _pieces(
        self,
        asked: _Asked,
        k: int,
        blocked_I: NDArray[np.bool_] | None,
        rows: int | None,
        *,
        like: object,
    ) -> Iterator[Any]:
        n = min(k, self.model.n_items)
        step = max(1, len(asked) if rows is None else rows // n)
        popular = None if asked.by_model_T.all() else popularity(self.history, self.model.n_items)
        for start in range(0, max(1, len(asked)), step):
            part = asked.rows(slice(start, start + step))
            top = _best(part, n, blocked_I=blocked_I, popular=popular)
            yield _frame(part, top, "item", self.items, k, unknown="popular", like=like)

    def fold_in(self, histories: Histories, *, skip_unknown: bool = False) -> Recommender:
        """A model of the same items for new users, from what they have; nothing is trained.

        Items the model does not know are refused, or with ``skip_unknown`` left out; a user must
        have at least one that it knows. A model of sequences looks at their order: that of the
        list, or of the times of ``Interactions``. Weights of rows play no part: training divides
        them by their mean over all rows, and there is no such mean for those who are new.
        """
        rows = _rows_of(histories)
        if not skip_unknown:
            self._index_of(self.items, rows.items.values.tolist(), "item", "error")
        new = _history_of(rows, rows.users, self.items)
        empty = np.flatnonzero(np.diff(new.indptr_U1) == 0)
        if len(empty):
            raise UsageError(
                f"{_without_items(rows.users.at(empty))} Leave them out, and give them what is "
                "most popular.",
                code="empty_history",
            )
        in_order_E = _in_order(rows, self.items)
        model = fold_in(self.model, self.about, self.history, new, in_order_E)
        about = {**self.about, "context": list(USER), "folded_in": True}
        return Recommender(Artifact(model, rows.users, self.items, new, about))

    def similar_items(self, items: Raw, k: int = 10, *, fallback: str = "mark") -> Any:
        """The k items with the most similar vectors, by cosine, the item itself left out.

        The columns are like, rank, item, score, short and basis. Where there are weights from item
        to item, these are the k items that the item speaks for most. An item that the model does
        not know gets a row without another item, whose ``basis`` is "unknown";
        ``fallback="skip"`` leaves it out, and "error" refuses it.
        """
        return self._similar("item", self.items, items, k, self._item_likeness, fallback)

    def similar_users(self, users: Raw, k: int = 10, *, fallback: str = "mark") -> Any:
        """The k users with the most similar vectors, by cosine, the user left out.

        The columns are like, rank, user, score, short and basis; ``fallback`` does what it does in
        ``similar_items``.
        """
        if self.fields is not None:
            raise UsageError(
                f"a context of this model is {', '.join(self.fields.names)}, so that a user has "
                "several vectors. Models whose context is the user alone know similar users.",
                code="no_vectors",
            )
        return self._similar("user", self.users, users, k, self._user_likeness, fallback)

    def score_pairs(self, users: Raw, items: Raw, *, fallback: str = "mark") -> Any:
        """The score of each user for the item beside it, had or not: user, item, score, basis.

        A single id stands beside all of the other side. A pair that the model does not know has no
        score, and its ``basis`` is "unknown"; ``fallback="skip"`` leaves it out, and "error"
        refuses it.
        """
        one_of("fallback", fallback, MARKS)
        whom, what = _paired(_several(users, "users"), _several(items, "items"), users, items)
        asked = self._whom(whom, fallback)
        items_T = self._index_of(self.items, what, "item", fallback)
        known_T = (asked.index_T >= 0) & (items_T >= 0)
        scores = np.full(len(asked), None, dtype=object)
        scores[known_T] = _pair_scores(asked.scorer, asked.index_T[known_T], items_T[known_T])
        columns = {
            **asked.columns,
            "item": _labels(self.items, what, items_T),
            "score": scores,
            "basis": np.where(known_T, "model", "unknown"),
        }
        shown_T = known_T if fallback == "skip" else np.ones_like(known_T)
        return _table({name: values[shown_T] for name, values in columns.items()}, like=users)

    def evaluate(
        self,
        test: Interactions,
        *,
        ks: tuple[int, ...] = KS,
        seen: Interactions | None = None,
        histories: Interactions | None = None,
    ) -> Report:
        """Rank the whole catalogue for every test user and compare with the test rows.

        Items a user is known to have are left out of the list: the model's own training
        rows, or ``seen`` if it is given. With ``histories`` the test users are new ones, who are
        folded in from these rows, which are then what they are known to have.
        """
        require_rows("test", test)
        if histories is not None:
            if seen is not None:
                raise UsageError(
                    "histories are what new users have, and seen are rows of users that the model "
                    "knows. Give one of them.",
                    code="whom",
                )
            report = self._folded(histories).evaluate(test, ks=ks)
            return replace(report, counts=replace(report.counts, folded_in=len(report.users_T)))
        if seen is not None:
            require_rows("seen", seen)
        known = self.history if seen is None else _history_of(seen, self.users, self.items)
        held_out = HeldOut.of(test, self)
        report = _evaluate(self.model, held_out, seen=held_out.left_out(self, known), ks=ks)
        if report.warning:
            warnings.warn(report.warning, SdgarWarning, stacklevel=2)
        return report

    def _folded(self, histories: Interactions) -> Recommender:
        """A model for all of these users who have an item that it knows."""
        require_rows("histories", histories)
        known_E = (self.items.index_of(histories.items.values) >= 0)[histories.items_E]
        if known_E.all():
            return self.fold_in(histories)
        lost = f"{int((~known_E).sum()):,} of {len(histories):,} rows of histories"
        if not known_E.any():
            raise DataError(
                f"the model knows no item of the histories, whose items are such as "
                f"{histories.items.values[:3].tolist()!r}. Are both of the same data?",
                code="no_common_items",
            )
        _warn(f"{lost} hold items that the model does not know, and are left out.")
        return self.fold_in(histories.subset(known_E, "unknown_items"))

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

    def _whom(self, users: Raw | None, fallback: str) -> _Asked:
        """Those users, or all; a warning tells of those that the model does not know."""
        if users is None:
            columns = _by_field(self.fields, self.users.values.tolist())
            everyone_T = np.arange(len(self.users))
            taught_T = self._taught(everyone_T)
            return _Asked(self.model, self._known, columns, everyone_T, taught_T)
        asked = _several(users, "users")
        if self.fields is not None and asked:
            return self._in_contexts(self.fields, asked, fallback)
        if any(isinstance(one, Mapping) for one in asked):
            raise UsageError(
                "the context of this model is the user alone: ask for user ids, without other "
                "fields. To have more in it, train with --context user,FIELD.",
                code="bad_context",
            )
        index_T = self._index_of(self.users, asked, "user", fallback)
        columns = {"user": _labels(self.users, asked, index_T)}
        if self.fields is not None:
            columns = _by_field(self.fields, [])
        return _Asked(self.model, self._known, columns, index_T, self._taught(index_T))

    def _taught(self, index_T: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these users have a row that was learned from."""
        indptr_U1 = self.history.indptr_U1
        taught_T: NDArray[np.bool_] = indptr_U1[index_T + 1] > indptr_U1[index_T]
        return taught_T

    def _strangers(self, rows: Interactions, fallback: str) -> _Asked:
        """New users, folded in; those without any item that the model knows are unknown."""
        known_U = np.ones(rows.n_users, bool)
        if fallback != "error":
            known_I = self.items.index_of(rows.items.values) >= 0
            _tell(rows.items.values[~known_I].tolist(), self.items, "item", "skip")
            known_U = np.bincount(rows.users_E[known_I[rows.items_E]], minlength=rows.n_users) > 0
        columns = {"user": rows.users.values}
        if known_U.all():
            folded = self.fold_in(rows, skip_unknown=fallback != "error")
        else:
            _warn(f"{_without_items(rows.users.values[~known_U])} {_INSTEAD[fallback]}")
            if not known_U.any():
                return _Asked(self.model, self._known, columns, _numbered(known_U))
            some = rows.subset(known_U[rows.users_E], "unknown_items")
            folded = self.fold_in(some, skip_unknown=True)
        return _Asked(folded.model, folded.history, columns, _numbered(known_U))

    def _in_contexts(self, fields: Fields, asked: list[Any], fallback: str) -> _Asked:
        """Contexts, seen or not: the model made up of those that can be known, in this order."""
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
            _warn(
                f"{len(reasons):,} contexts are unknown to the model. The first: {reasons[0]} "
                f"{_INSTEAD[fallback]}"
            )
        known = [place for place in found if place is not None]
        place_TF = np.array([places_F for _, places_F in known], np.int64)
        same_T = fields.same_seen(place_TF.reshape(-1, len(fields.names)), self.seen_by)
        at_T = np.array([at for at, _ in known], np.int64)
        columns = [_column(list(values)) for values in zip(*names, strict=True)]
        return _Asked(
            self._rows(known),
            self._known.rows(np.where(at_T >= 0, at_T, same_T)),
            dict(zip(fields.names, columns, strict=True)),
            _numbered(np.array([place is not None for place in found], bool)),
        )

    def _place(self, fields: Fields, context: Mapping[str, Any]) -> tuple[int, NDArray[np.int64]]:
        """The number of a context, -1 if it is new, and the values of its fields."""
        places_F = fields.places(context)
        at = int(self.users.index_of([fields.key(context)])[0])
        if at < 0 and getattr(self.model, "field_VD", None) is None:
            raise UsageError(
                f"{dict(context)!r} did not occur in training, and a model of system "
                f"{self.about.get('system')} knows only contexts that did.",
                code="unknown_context",
            )
        return at, places_F

    def _rows(self, rows: list[tuple[int, NDArray[np.int64]]]) -> Model:
        """The model with these contexts alone: known by number, or made up of their fields."""
        model, at_T = self.model, torch.tensor([at for at, _ in rows], dtype=torch.long)
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

    def _index_of(self, ids: Ids, asked: list[Any], what: str, fallback: str) -> NDArray[np.int64]:
        """The number of each id, -1 for those that are unknown, which are told of or refused."""
        index_T = ids.index_of(asked)
        _tell([asked[place] for place in np.flatnonzero(index_T < 0)], ids, what, fallback)
        return index_T

    def _similar(
        self,
        key: str,
        ids: Ids,
        raw: Raw,
        k: int,
        likeness: Callable[[History], Scorer],
        fallback: str,
    ) -> Any:
        k = length("k", k)
        one_of("fallback", fallback, MARKS)
        asked = _several(raw, f"{key}s")
        index_T = self._index_of(ids, asked, key, fallback)
        known_T = index_T >= 0
        itself = History(np.arange(known_T.sum() + 1), index_T[known_T].astype(np.int32))
        labels = {"like": _labels(ids, asked, index_T)}
        about = _Asked(likeness(itself), itself, labels, _numbered(known_T)).unless(fallback)
        top = _best(about, min(k, len(ids)))
        return _frame(about, top, key, ids, k, unknown="unknown", like=raw)

    def _item_likeness(self, asked: History) -> Scorer:
        """Scores all items for someone who has nothing but the item asked for."""
        if isinstance(self.model, ItemWeights):
            n_items, device = self.model.n_items, self.model.device
            has = SparseMatrix.of(asked.indptr_U1, asked.items_E, n_items, device=device)
            return ItemWeights(has, self.model.weight_II)
        return self._cosines(self.factors.item_ID, asked, "item")

    def _user_likeness(self, asked: History) -> Scorer:
        """Scores all users by how near their vectors are to that of the user asked for."""
        return self._cosines(self.factors.user_UD, asked, "user")

    def _cosines(self, vectors_RD: Tensor, asked: History, what: str) -> Scorer:
        if vectors_RD.shape[1] == 0:
            raise UsageError(
                f"a {self.about.get('system', 'popularity')} model has no {what} vectors, so no "
                f"{what} is similar to another. Train a learning system, such as bpr.",
                code="no_vectors",
            )
        unit_RD = torch.nn.functional.normalize(vectors_RD, dim=1)
        zero_R = torch.zeros(len(unit_RD), device=unit_RD.device)
        return Factors(unit_RD[torch.from_numpy(asked.items_E)], unit_RD, zero_R)

    def _blocked(
        self, allow: Iterable[Any] | None, exclude: Iterable[Any] | None, *, strict: bool
    ) -> NDArray[np.bool_] | None:
        """Which items may not be listed; unknown ones are told of, or refused if ``strict``."""
        if allow is None and exclude is None:
            return None
        fallback = "error" if strict else "skip"
        blocked_I = np.zeros(self.model.n_items, bool)
        if allow is not None:
            wanted = _several(allow, "items")
            index_T = self.items.index_of(wanted)
            none = len(wanted) > 0 and bool((index_T < 0).all())
            index_T = self._index_of(self.items, wanted, "item", "error" if none else fallback)
            blocked_I[:] = True
            blocked_I[index_T[index_T >= 0]] = False
        if exclude is not None:
            index_T = self._index_of(self.items, _several(exclude, "exclude"), "item", fallback)
            blocked_I[index_T[index_T >= 0]] = True
        return blocked_I


def _best(
    asked: _Asked,
    k: int,
    *,
    blocked_I: NDArray[np.bool_] | None = None,
    popular: Factors | None = None,
) -> TopK:
    """The k best of each by the scorer; the others get the most popular items, or an empty list."""
    items_TK = np.full((len(asked), k), -1, np.int32)
    scores_TK = np.full((len(asked), k), -np.inf, np.float32)

    def rank(who_T: NDArray[np.bool_], scorer: Scorer, users_T: Any, seen: History | None) -> None:
        if who_T.any():
            top = top_k(scorer, users_T, k, seen=seen, blocked_I=blocked_I)
            items_TK[who_T], scores_TK[who_T] = top.items_TK, top.scores_TK

    by_model_T, known_T = asked.by_model_T, asked.index_T >= 0
    rank(by_model_T, asked.scorer, asked.index_T[by_model_T], asked.seen)
    if popular is not None:
        rank(~known_T, popular, np.zeros(1, np.int64), None)  # one list for all of them
        untaught_T = known_T & ~by_model_T
        rank(untaught_T, popular, asked.index_T[untaught_T], asked.seen)
    return TopK(items_TK, scores_TK)


def _frame(
    asked: _Asked, top: TopK, key: str, ids: Ids, k: int, *, unknown: str, like: object
) -> Any:
    found_TK = top.items_TK >= 0
    n_T = found_TK.sum(axis=1)
    # Who has nothing to be recommended still shows: one row without an item.
    shown_TK = found_TK.copy()
    shown_TK[:, 0] = True
    row_R, place_R = np.nonzero(shown_TK)
    has_R = found_TK[row_R, place_R]
    found_R = ids.at(top.items_TK[row_R, place_R].clip(min=0))
    return _table(
        {
            **{name: values[row_R] for name, values in asked.columns.items()},
            "rank": _where(has_R, place_R + 1),
            key: _where(has_R, found_R),
            "score": _where(has_R, top.scores_TK[row_R, place_R]),
            "short": (n_T < k)[row_R],
            "basis": np.where(asked.by_model_T[row_R], "model", unknown),
        },
        {"rank": "int64", key: ids.kind},
        like=like,
    )


def _table(
    columns: dict[str, NDArray[Any]], types: Mapping[str, str] | None = None, *, like: object
) -> Any:
    """A frame whose columns have the same types however many rows there are."""
    from sdgar.data.tables import to_table

    said = {"score": "float64", "short": "bool", "basis": "text", **(types or {})}
    return to_table(
        {name: values.tolist() for name, values in columns.items()},
        types={name: said.get(name) or _kind(values) for name, values in columns.items()},
        like=like,
    )


def _kind(values: NDArray[Any]) -> str:
    return {"i": "int64", "u": "uint64"}.get(values.dtype.kind, "text")


def _where(has_R: NDArray[np.bool_], values_R: NDArray[Any]) -> NDArray[Any]:
    """The values, and None where there is none."""
    column_R = np.full(len(has_R), None, dtype=object)
    column_R[has_R] = values_R[has_R].tolist()
    return column_R


def _numbered(known_T: NDArray[np.bool_]) -> NDArray[np.int64]:
    """0, 1, 2, … for those that are known, -1 for others."""
    return np.where(known_T, np.cumsum(known_T) - 1, -1)


def _by_field(fields: Fields | None, ids: list[Any]) -> dict[str, NDArray[Any]]:
    """The columns that say who was asked about: one, or one a field."""
    if fields is None:
        return {"user": _column(ids)}
    rows = [json.loads(text) for text in ids]
    return {name: _column([row[f] for row in rows]) for f, name in enumerate(fields.names)}


def _labels(ids: Ids, asked: list[Any], index_T: NDArray[np.int64]) -> NDArray[Any]:
    """What the answer calls each: by the model's own id, or as it was asked for."""
    known = ids.at(index_T.clip(min=0)).tolist() if len(ids) else asked
    return _column(
        [
            own if at >= 0 else _as_integer(raw) if ids.kind != "text" else raw
            for own, raw, at in zip(known, asked, index_T.tolist(), strict=True)
        ]
    )


def _as_integer(raw: Any) -> Any:
    """An integer for its plain decimal spelling; everything else as it is."""
    if isinstance(raw, str) and len(raw) < 20 and raw.isascii() and raw.lstrip("-").isdecimal():
        return int(raw) if str(int(raw)) == raw else raw
    return raw


def _column(values: list[Any]) -> NDArray[Any]:
    """Ids as a column of one type: integers, or text if that is what all of them can be."""
    try:
        return held(values)
    except DataError:
        return held([str(value) for value in values])


def _paired(
    users: list[Any], items: list[Any], raw_users: Any, raw_items: Any
) -> tuple[list[Any], list[Any]]:
    """As many users as items; a single id stands beside all of the other side."""
    if _is_one(raw_users):
        users = users * len(items)
    elif _is_one(raw_items):
        items = items * len(users)
    if len(users) != len(items):
        raise UsageError(
            f"a pair is a user and an item, and there are {len(users):,} users and "
            f"{len(items):,} items. Give as many of both.",
            code="bad_pairs",
        )
    return users, items


def _is_one(raw: Any) -> bool:
    return isinstance(plain(raw), str | int | Mapping)


def _pair_scores(
    scorer: Scorer, users_P: NDArray[np.int64], items_P: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The score of each pair, with no more than a block of others."""
    found_P = np.zeros(len(users_P))
    with torch.no_grad():
        if isinstance(scorer, Factors):
            for start in range(0, len(users_P), _PAIRS):
                part = slice(start, start + _PAIRS)
                users_B, items_B = (
                    torch.tensor(one[part], device=scorer.device) for one in (users_P, items_P)
                )
                found_P[part] = scorer.score(users_B, items_B[:, None])[:, 0].cpu().numpy()
        else:
            users_X, which_P = np.unique(users_P, return_inverse=True)
            step = block_rows(scorer.n_items, memory_bytes=_SCORES_BYTES, compiled=False)
            for start in range(0, len(users_X), step):
                users_B = torch.tensor(users_X[start : start + step], device=scorer.device)
                scores_BI = checked(scorer.score_all(users_B), len(users_B), scorer.n_items)
                here_P = np.flatnonzero((which_P >= start) & (which_P < start + len(users_B)))
                row_P, item_P = which_P[here_P] - start, items_P[here_P]
                found_P[here_P] = scores_BI.cpu().numpy()[row_P, item_P]
    if isinstance(scorer, ItemWeights):
        # Where nothing speaks for an item, the sum of what does is nothing.
        found_P[np.isneginf(found_P)] = 0.0
    if not np.isfinite(found_P).all():
        raise NumericalError(
            "a score is not a finite number. The model has diverged or its file is damaged: train "
            "again with a smaller learning rate, or load an earlier checkpoint.",
            code="non_finite_scores",
        )
    return found_P


def load(path: str | Path) -> Recommender:
    """Load a saved model; its files are verified first, and no code in them can run.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> _ = sdgar.MostPopular().fit(data).save("popular")
    >>> sdgar.load("popular")
    Recommender of system popular
    3 users × 3 items, 5 known rows
    """
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


def _said_under(value: Any) -> dict[str, Any]:
    """What a saved model says under a name, if it is a table."""
    return value if isinstance(value, dict) else {}


def _beside(metrics: dict[str, Any], what: str) -> str:
    value = metrics.get("ndcg@50")
    return f"NDCG@50 {value:.4f} {what}" if isinstance(value, float) else ""


def require_rows(name: str, rows: Any) -> None:
    """Refuse what is no ``Interactions``."""
    of_kind(name, rows, Interactions, "Read files and frames with sdgar.read(source).")


def most_popular(model: Recommender) -> Recommender:
    """The yardstick of a model: the same users, items and histories, ranked by popularity."""
    factors = popularity(model.history, len(model.items), model.fields)
    context = model.about.get("context", list(USER))
    about = {"system": "popular", "context": context, "seen_by": model.seen_by}
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
    return History.of_pairs(users_E[known], items_E[known], len(users))


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
    if isinstance(raw, str | int | Mapping) and not isinstance(raw, bool):
        return [raw]
    if not isinstance(raw, int) and is_column(raw):
        ids = [plain(one) for one in raw]
        if all(isinstance(i, str | int | Mapping) and not isinstance(i, bool) for i in ids):
            return ids
    raise UsageError(
        f"{name} must be ids, each a text or an integer, got {raw!r:.60}.", code="bad_ids"
    )


def _tell(unknown: list[Any], ids: Ids, what: str, fallback: str) -> None:
    """Warn of ids that the model does not know, or refuse them; those it knows are no matter."""
    if not unknown:
        return
    said = (
        f"{_counted(unknown, f'{what} id is', f'{what} ids are')} unknown to the model: "
        f"{_some(unknown)}. It knows {len(ids):,} {what}s with ids such as {_some(ids.values[:3])}."
    )
    if fallback == "error":
        raise UsageError(said, code=f"unknown_{what}")
    _warn(f"{said} {_INSTEAD[fallback]}")


def _without_items(users: NDArray[Any]) -> str:
    who = _counted(users, "new user has", "new users have")
    return f"{who} no item that the model knows: {_some(users)}."


def _counted(ids: Sized, one: str, several: str) -> str:
    return f"1 {one}" if len(ids) == 1 else f"{len(ids):,} {several}"


def _some(ids: Sequence[Any] | NDArray[Any]) -> str:
    """The first few ids of a list."""
    shown = ", ".join(repr(plain(one)) for one in ids[:5])
    return f"{shown} and others" if len(ids) > 5 else shown


def _warn(text: str) -> None:
    warnings.warn(text, SdgarWarning, stacklevel=4)
