"""A saved model: from raw ids to ranked lists, without training code.

Lists are records, ``RankedLists``, or frames. Their ``basis`` is ``model``, ``popular``, or, for an
unknown id without a list, ``unknown``. A recommender may be shared between threads: it changes
nothing once it has built a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from sdgar.arguments import a_path, length, one_of
from sdgar.data.history import History
from sdgar.data.interactions import Interactions
from sdgar.data.read_options import USER
from sdgar.errors import ArtifactError, UsageError
from sdgar.models.factors import popularity
from sdgar.models.fold_in import NewContexts
from sdgar.models.model import Model, Side
from sdgar.ranking.index import FROM_ITEMS, LEAST_RECALL, ItemIndex, can_be_indexed
from sdgar.ranking.sweep import FROM_ITEMS as SWEEP_FROM
from sdgar.ranking.sweep import Sweep, can_be_swept, is_worth_it
from sdgar.ranking.topk import best_items
from sdgar.recommend import about, artifact, update
from sdgar.recommend.artifact import Artifact
from sdgar.recommend.indexed_model import IndexedModel
from sdgar.recommend.inputs import FALLBACKS, MARKS, Histories, One, Raw, find, labels, several
from sdgar.recommend.lists import Queries, RankedLists
from sdgar.recommend.methods import RecommenderMethods, RecommendOptions
from sdgar.recommend.ranking import (
    PIECE,
    BlockedItems,
    ListOptions,
    Part,
    rank,
    rank_in_pieces,
)
from sdgar.recommend.reasons import Reasons, explained
from sdgar.recommend.rules import Reranking, Rules, reranking_of
from sdgar.show.printed import Described
from sdgar.storage.remote import is_remote

BY = ("auto", "vectors", "weights")
"""The bases of similarity: vectors if there are any (auto), vectors, or item-item weights."""


class Recommender(IndexedModel, RecommenderMethods, Described):
    """A trained model that needs no data set.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.MostPopular().fit(data).recommender_
    >>> model.recommend([3], k=1)["item"].to_list()
    ['b']
    """

    def __init__(self, saved: Artifact) -> None:
        super().__init__(saved)
        self.index: ItemIndex | None = None
        """The index of a large catalogue that ``prepare`` has built; None for exact lists."""
        self._similarities: dict[tuple[Side, str], Model | None] = {}

    @property
    def _trained_model(self) -> Recommender:
        return self

    def with_model(self, model: Model, about: dict[str, Any]) -> Recommender:
        """Return a recommender of another model of the same users, items and histories."""
        return Recommender(replace(self.saved, model=model, about=about, version=""))

    def rows_with(self, data: Interactions) -> Interactions:
        """Return rows together with further rows that this model was trained on."""
        return update.with_rows_of(data, self.saved)

    def prepare(self, *, index_from: int | None = FROM_ITEMS) -> dict[str, Any]:
        """Build the tables for lists, so that the first is as quick as others; return their kind.

        A catalogue of ``index_from`` items or more gets an index, if the model has vectors and
        faiss is installed. Lists are then approximate, and ``recall`` is the share of exact lists
        that the index found for a sample of users. None builds no index.
        """
        known, model = self.known, self.model
        large = index_from is not None and len(self.items) >= index_from
        if self.index is None and large and can_be_indexed(model):
            index = ItemIndex.of(model, known)
            self.index = self.finder = index if index.recall >= LEAST_RECALL else None
        if self.finder is None and len(self.items) >= SWEEP_FROM and can_be_swept(model):
            self.finder = self._sweep
        for n in (1, 2) if len(self.users) else ():
            few_T = np.arange(min(n, len(self.users)))
            best_items(self.finder, model, few_T, 1, seen=known)
        if self.abilities["fold_in"] and len(self.items):
            new = NewContexts(History(np.arange(2), np.zeros(1, np.int32)), np.zeros(1, np.int64))
            best_items(self.finder, model.fold_in(new), np.zeros(1, np.int64), 1, seen=new.history)
        if self.index is None:
            return {"kind": "exact"}
        return {"kind": "faiss", "recall": self.index.recall}

    @cached_property
    def _sweep(self) -> Sweep:
        """The table of all items in small integers, for exact lists of many users."""
        return Sweep.of(self.model)

    @property
    def abilities(self) -> dict[str, bool]:
        """The further abilities of the model: folding in users, similar items, similar users."""
        return {
            "fold_in": self.model.rule is not None,
            "similar_items": self.similar_by("item") is not None,
            "similar_users": self.fields is None and self.similar_by("user") is not None,
        }

    def summary(self) -> list[str]:
        """Return the facts about the model, in at most four lines."""
        return about.summary(self)

    def facts(self, run: Path) -> dict[str, Any]:
        """Return the facts about a model that was loaded from this folder, as plain values."""
        return about.facts_of(run, self, self.abilities)

    def _lines(self) -> list[str]:
        folded = ", with users folded in" if self.about.get("folded_in") else ""
        return [f"Recommender of system {self.about.get('system')}{folded}", *self.summary()]

    def recommend_lists(
        self, users: Raw | None = None, k: int = 10, **options: Unpack[RecommendOptions]
    ) -> RankedLists:
        """Return the lists of ``recommend`` as a record, without a frame; ``.dicts()`` is for JSON.

        >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
        >>> model = sdgar.MostPopular().fit(data).recommender_
        >>> model.recommend_lists([3], k=1).dicts()
        [{'user': 3, 'items': [{'item': 'b', 'score': 2.0}], 'short': False, 'basis': 'model'}]
        """
        (lists,) = self.lists_in_pieces(users, k, rows=None, **options)
        return lists

    def recommend_in_pieces(
        self,
        users: Raw | None = None,
        k: int = 10,
        *,
        rows: int | None = PIECE,
        **options: Unpack[RecommendOptions],
    ) -> Iterator[Any]:
        """Return the frame of ``recommend`` as several of about ``rows`` rows, with whole lists.

        In this way the lists of all users need not fit into RAM together. There is at least one
        frame. The options are as in ``recommend``.
        """
        pieces = self.lists_in_pieces(users, k, rows=rows, **options)
        return (lists.frame(users) for lists in pieces)

    def lists_in_pieces(
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
        why: bool = False,
        rules: Rules | Reranking | None = None,
        rows: int | None = PIECE,
        part: Part = (0, 1),
    ) -> Iterator[RankedLists]:
        """Return the lists of ``recommend_in_pieces`` as records, without frames.

        ``part=(n, of)`` returns part n, from 0, of so many parts, which several processes can
        compute: in order, they are the lists of one process.
        """
        if (users is not None) + (history is not None) + (histories is not None) > 1:
            raise UsageError("pass users or a history, not both.", code="which_users")
        k = length("k", k)
        one_of("fallback", fallback, FALLBACKS)
        if history is not None:
            histories = {"new": several(history, "history")}
        queries = self.queries_of(users, histories, fallback=fallback).unless_skipped(fallback)
        if not exclude_seen:
            queries = queries.with_seen_items()
        blocked = BlockedItems(self.blocked(items, exclude, fallback=fallback))
        options = ListOptions(k, exclude_seen, blocked)
        if rules is not None:
            reranking = reranking_of(rules)
            options = replace(options, reranking=reranking, facts=self.facts_for(reranking))
        finder, n_items = self.finder, len(self.items)
        if finder is None and is_worth_it(len(queries), n_items) and can_be_swept(self.model):
            finder = self._sweep
        popular = None if queries.by_model_T.all() else self.popular
        pieces = rank_in_pieces(
            queries, options, self.items, rows, part, popular=popular, finder=finder, why=why
        )
        cold_I = self.cold_I
        return pieces if cold_I is None else (replace(one, cold_I=cold_I) for one in pieces)

    def explain_reasons(
        self,
        user: One | None = None,
        items: Raw | None = None,
        *,
        history: Iterable[Any] | None = None,
        k: int = 10,
        reasons: int = 3,
    ) -> Reasons:
        """Return the reasons of ``explain`` as a record; ``.dicts()`` is for JSON."""
        most, k = length("reasons", reasons), length("k", k)
        if (user is None) == (history is None):
            raise UsageError("pass a user or a history, and not both.", code="which_users")
        new = None if history is None else {"new": several(history, "history")}
        queries = self.queries_of(user, new, fallback="error")
        if len(queries) != 1:
            raise UsageError(
                f"explain takes one user at a time, got {len(queries)}.", code="which_users"
            )
        if not queries.by_model_T.all():
            raise UsageError(
                f"the model was not trained on user {user!r}, so there are no reasons. Pass the "
                "items of the user as a history.",
                code="no_reasons",
            )
        if items is None:
            best = rank(queries, ListOptions(k), self.items, finder=self.finder).items_TK[0]
            return explained(queries, best[best >= 0].astype(np.int64), most, self.items)
        index_T = find(self.items, several(items, "items"), "item", "error")
        distinct = list(dict.fromkeys(index_T.tolist()))
        return explained(queries, np.array(distinct, np.int64), most, self.items)

    def query_of_context(self, context: One) -> Queries | None:
        """Return the query for a user, or for a context of several fields; None if unknown."""
        try:
            found = self.queries_of([context], fallback="error")
        except UsageError as error:
            if error.code == "bad_context":
                raise
            return None
        return found if found.by_model_T.all() else None

    def similar_by(self, side: Side, by: str = "auto") -> str | None:
        """Return the basis of similarity, "vectors" or "weights"; None if there is none.

        ``by`` is as in ``similar_items``.
        """
        found = self._similarity(side, one_of("by", by, BY))
        return None if found is None else found.compares_by

    def _similarity(self, side: Side, by: str) -> Model | None:
        """Return the model that compares items or users; what is built is kept."""
        if by == "auto":
            kinds = (part.compares_by for part in self.model.parts())
            found = (self._similarity(side, kind) for kind in kinds)
            return next((one for one in found if one is not None), None)
        if (side, by) not in self._similarities:
            parts = (part for part in self.model.parts() if part.compares_by == by)
            found = (part.similarity(side) for part in parts)
            self._similarities[side, by] = next((one for one in found if one is not None), None)
        return self._similarities[side, by]

    def similar_lists(
        self, side: Side, ids: Raw, k: int = 10, *, by: str = "auto", fallback: str = "mark"
    ) -> RankedLists:
        """Return the lists of ``similar_items`` or ``similar_users`` as a record."""
        if side == "user" and self.fields is not None:
            raise UsageError(
                f"a context of this model is {', '.join(self.fields.names)}, so that a user has "
                "several vectors. Use a model whose context is the user alone.",
                code="no_vectors",
            )
        k = length("k", k)
        one_of("fallback", fallback, MARKS)
        model, system = self._similarity(side, one_of("by", by, BY)), self.about.get("system")
        if model is None:
            compared = "vectors" if by == "auto" else by
            raise UsageError(
                f"a {system or 'popularity'} model has no {side} {compared}, so no {side} is "
                "similar to another by them. Leave out by, or train a system such as bpr.",
                code="no_vectors",
            )
        known = self.items if side == "item" else self.users
        queried = several(ids, f"{side}s")
        index_T = find(known, queried, side, fallback)
        itself = History(np.arange(len(known) + 1), np.arange(len(known), dtype=np.int32))
        columns = {"like": labels(known, queried, index_T)}
        queries = Queries(model, itself, columns, index_T, itself).unless_skipped(fallback)
        return rank(queries, ListOptions(k), known, what=side, unknown="unknown")


def load(path: str | Path, *, mapped: bool = False, ram: int | None = None) -> Recommender:
    """Load a saved model; its files are verified first, and no code in them can run.

    With ``mapped`` the arrays of a large model stay in its files, and the system keeps as much of
    them in RAM as fits. Lists are the same. With ``ram`` this happens only if the model and its
    copies may take more than so many bytes. An address such as s3://bucket/run is fetched first.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> _ = sdgar.MostPopular().fit(data).save("popular")
    >>> sdgar.load("popular")
    Recommender of system popular
    3 users × 3 items, 5 known rows
    """
    if not is_remote(path):
        path = a_path("path", path)
    model = Recommender(artifact.load(path, mapped=mapped, ram=ram))
    n_values = 0 if model.fields is None else model.fields.n_values
    vectors = model.model.n_values
    if vectors is not None and vectors != n_values:
        raise ArtifactError(
            f"{path} is damaged: it has {vectors} vectors for {n_values} values of fields. "
            "Restore the folder from a copy, or train again.",
            code="damaged",
        )
    return model


def most_popular(model: Recommender) -> Recommender:
    """Return the baseline of a model: the same users, items and histories, by popularity."""
    factors = popularity(model.history, len(model.items), model.fields)
    context = model.about.get("context", list(USER))
    about = {"system": "popular", "context": context, "seen_by": model.seen_by}
    return Recommender(
        Artifact(factors, model.users, model.items, model.history, about, cold=model.cold_I)
    )
