"""From a saved model to recommendations: raw ids in, lists out. There is no training code here.

Answers come as ``Lists``, or as frames for those who work with frames. Their ``basis`` says what
each answer rests on: the ``model``, what is ``popular``, or nothing, because the id is ``unknown``.
A recommender may be shared between threads: it changes nothing once it has built a table.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import a_path, length, of_kind, one_of
from sdgar.data.contexts import Fields
from sdgar.data.features import Features
from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.data.read_options import USER, SeenBy
from sdgar.errors import SdgarWarning, UsageError
from sdgar.evaluation.report import Report
from sdgar.models.factors import Factors, popularity
from sdgar.models.fold_in import NewContexts
from sdgar.models.model import Model, Side
from sdgar.ranking.index import FROM_ITEMS, LEAST_RECALL, ItemIndex, can_be_indexed
from sdgar.ranking.sweep import FROM_ITEMS as SWEEP_FROM
from sdgar.ranking.sweep import Sweep, can_be_swept, is_worth_it
from sdgar.ranking.topk import Finder, best_items
from sdgar.recommend import artifact
from sdgar.recommend.adding import Events, grown
from sdgar.recommend.artifact import Artifact
from sdgar.recommend.explain import One, explain
from sdgar.recommend.histories import Histories, rows_of
from sdgar.recommend.lists import Lists
from sdgar.recommend.measuring import Beside, measured
from sdgar.recommend.pairs import pairs_table
from sdgar.recommend.questions import Asked, Options, Questions, Raw, several
from sdgar.recommend.ranking import Part, ranked_in_pieces
from sdgar.recommend.reasons import Reasons
from sdgar.recommend.reranked import facts_of, reranked_in_pieces
from sdgar.recommend.rules import Reranking, Rules
from sdgar.recommend.similar import BY, Kept, Likeness
from sdgar.recommend.summary import summary
from sdgar.recommend.unknown import FALLBACKS, MARKS
from sdgar.recommend.update import knowing, lacks, updated, with_rows_of
from sdgar.settings import KS
from sdgar.show.printed import Described
from sdgar.storage.remote import is_remote

if TYPE_CHECKING:
    from typing import Unpack

PIECE = 1 << 17
"""How many rows of a table are made at once."""


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
        self._questions = Questions(saved)
        self._likenesses: dict[tuple[Side, str], Likeness | None] = {}
        self._compared: Kept = {}
        self._finder: Finder | None = None

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
        """The model that gives the scores: vectors, weights from item to item, or a network."""
        return self._saved.model

    @property
    def factors(self) -> Factors:
        """The vectors of a model that has some; a memory beside them is not part of them."""
        factors = self.model.factors()
        if factors is None:
            raise UsageError(
                f"a model of system {self.about.get('system')} has {self.model.holds} and no "
                "vectors. Use `model`.",
                code="no_vectors",
            )
        return factors

    @property
    def history(self) -> History:
        """The items that each context is known to have."""
        return self._saved.history

    @property
    def seen_by(self) -> SeenBy:
        """Whether what a user has is left out in all of their contexts, or only where they have it.

        Models of earlier days do not say so: they had the latter.
        """
        return self._questions.seen_by

    @property
    def fields(self) -> Fields | None:
        """The fields of contexts, if they have several."""
        return self._questions.fields

    @property
    def about(self) -> dict[str, Any]:
        """How the model was made."""
        return self._saved.about

    @property
    def version(self) -> str:
        """The name of exactly this model; empty if it was not loaded from a folder."""
        return self._saved.version

    @property
    def cold_I(self) -> NDArray[np.bool_] | None:
        """Whether each item is cold, known by its features alone; None if there is no such item."""
        return self._saved.cold

    @property
    def cold_items(self) -> NDArray[Any]:
        """The ids of items that the model knows by their features alone."""
        return self.items.values[:0] if self.cold_I is None else self.items.values[self.cold_I]

    @property
    def popularity_I(self) -> NDArray[np.float32]:
        """How many contexts have each item."""
        return self._popular.bias_I

    def with_model(self, model: Model, about: dict[str, Any]) -> Recommender:
        """Return a recommender of another model of the same users, items and histories."""
        return Recommender(replace(self._saved, model=model, about=about, version=""))

    @cached_property
    def _popular(self) -> Factors:
        """The scores for everyone of whom the model knows nothing."""
        return popularity(self.history, self.model.n_items)

    @property
    def index(self) -> ItemIndex | None:
        """The index of a large catalogue, once ``prepare`` has built one; None for exact lists."""
        return self._finder if isinstance(self._finder, ItemIndex) else None

    @property
    def finder(self) -> Finder | None:
        """What finds the best items, once ``prepare`` has built it; None if nothing is faster."""
        return self._finder

    @property
    def known(self) -> History:
        """All that lists leave out: what a user has, and what they saw and do not like."""
        return self._questions.known

    def prepare(self, *, index_from: int | None = FROM_ITEMS) -> dict[str, Any]:
        """Build what answers need, so that the first is as quick as others; say how they are found.

        A catalogue of ``index_from`` items or more gets an index, if the model has vectors and
        faiss is installed: lists are then approximate, and the share of exact lists that was found
        for a sample of users is told as ``recall``. None stands for no index.
        """
        known, model = self.known, self.model
        if (
            self.index is None
            and index_from is not None
            and len(self.items) >= index_from
            and can_be_indexed(model)
        ):
            index = ItemIndex.of(model, known)
            self._finder = index if index.recall >= LEAST_RECALL else None
        if self._finder is None and len(self.items) >= SWEEP_FROM and can_be_swept(model):
            self._finder = self._swept
        for n in (1, 2) if len(self.users) else ():
            few_T = np.arange(min(n, len(self.users)))
            best_items(self._finder, model, few_T, 1, seen=known)
        if self.abilities["fold_in"] and len(self.items):
            new = NewContexts(History(np.arange(2), np.zeros(1, np.int32)), np.zeros(1, np.int64))
            best_items(self._finder, model.fold_in(new), np.zeros(1, np.int64), 1, seen=new.history)
        if self.index is None:
            return {"kind": "exact"}
        return {"kind": "faiss", "recall": self.index.recall}

    def _sweep(self, n_users: int) -> Sweep | None:
        """Return what finds exact lists of many users faster, if there is such a thing."""
        worth = is_worth_it(n_users, len(self.items)) and can_be_swept(self.model)
        return self._swept if worth else None

    @cached_property
    def _swept(self) -> Sweep:
        """The table of all items in small integers."""
        return Sweep.of(self.model)

    @property
    def abilities(self) -> dict[str, bool]:
        """Which questions the model can answer, beside recommending to users that it knows."""
        rule = self.model.rule
        return {
            "fold_in": rule is not None,
            "similar_items": self._likeness("item", "auto") is not None,
            "similar_users": self.fields is None and self._likeness("user", "auto") is not None,
        }

    def summary(self) -> list[str]:
        """Tell what is known of the model, in at most four lines."""
        names = None if self.fields is None else self.fields.names
        sizes = len(self.users), len(self.items), len(self.history.items_E)
        return summary(self.about, sizes, names)

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
        why: bool = False,
        rules: Rules | Reranking | None = None,
    ) -> Any:
        """Return the k best items of each user: a frame with user, rank, item, score, short, basis.

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

        ``why=True`` adds the column ``because``: the item of the history that speaks most for each
        entry; ``explain`` says more.

        ``rules`` re-rank each list: ``sdgar.Rules.read("rules.toml")``, alone or with facts of
        items and options, as ``rules.using(facts, diversity=0.3)``. The column ``rules`` says which
        of them acted on each entry. Scores stay those of the model.
        """
        return self.recommend_lists(
            users, k, history=history, histories=histories, items=items, exclude=exclude,
            exclude_seen=exclude_seen, fallback=fallback, why=why, rules=rules,
        ).frame(users)  # fmt: skip

    def recommend_lists(
        self, users: Raw | None = None, k: int = 10, **options: Unpack[Options]
    ) -> Lists:
        """Return what ``recommend`` gives as a record, without a frame: ``.dicts()`` is for JSON.

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
        **options: Unpack[Options],
    ) -> Iterator[Any]:
        """Return the frame of ``recommend`` as several of about ``rows`` rows; none cuts a list.

        In this way the lists of all users need not fit into memory together. There is at least one
        frame. The options are those of ``recommend``.
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
    ) -> Iterator[Lists]:
        """Return what ``recommend_in_pieces`` gives as records, without frames.

        ``part=(n, of)`` gives part n, from 0, of so many parts, which several processes can make:
        one after the other they are what one process gives.
        """
        if (users is not None) + (history is not None) + (histories is not None) > 1:
            raise UsageError("give users or a history, not both.", code="whom")
        k = length("k", k)
        one_of("fallback", fallback, FALLBACKS)
        if history is not None:
            histories = {"new": several(history, "history")}
        asked = (
            self._questions.about_users(users, fallback)
            if histories is None
            else self._questions.about_histories(rows_of(histories), fallback)
        ).unless(fallback)
        if not exclude_seen:
            asked = asked.unseen()
        blocked_I = self._questions.blocked(items, exclude, strict=fallback == "error")
        index = self._finder or self._sweep(len(asked))
        popular = None if asked.by_model_T.all() else self._popular
        if rules is not None:
            own = Reranking.from_any(rules)
            facts = facts_of(own, self.model, self.history, self.items)
            pieces = reranked_in_pieces(
                asked, k, self.items, rows, own, facts, blocked_I=blocked_I, popular=popular,
                why=why, part=part,
            )  # fmt: skip
        else:
            pieces = ranked_in_pieces(
                asked, k, self.items, rows, blocked_I=blocked_I, popular=popular, why=why,
                index=index, part=part,
            )  # fmt: skip
        cold_I = self.cold_I
        return pieces if cold_I is None else (replace(one, cold_I=cold_I) for one in pieces)

    def explain(
        self,
        user: One | None = None,
        items: Raw | None = None,
        *,
        history: Iterable[Any] | None = None,
        k: int = 10,
        reasons: int = 3,
    ) -> Any:
        """Return which items of the history speak for each item: a frame whose shares add up.

        ``items`` are explained, or the ``k`` best ones. The columns are user, item, score, place,
        because, share, by_weights and by_vectors. Each item has a row for each of its ``reasons``,
        the largest share first, and one for the rest of its score, without ``because``. Shares by
        weights between items are exact. Those by vectors are not: they say how well the vector of
        an item of the history stands for that of the user, times its inner product with the item.

        >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
        >>> model = sdgar.LocalEASE(l2=1.0).fit(data)
        >>> model.explain(3, "b", reasons=1)["because"].to_list()
        ['a', None]
        """
        return self.explain_reasons(user, items, history=history, k=k, reasons=reasons).frame(items)

    def explain_reasons(
        self,
        user: One | None = None,
        items: Raw | None = None,
        *,
        history: Iterable[Any] | None = None,
        k: int = 10,
        reasons: int = 3,
    ) -> Reasons:
        """Return what ``explain`` gives as a record, without a frame: ``.dicts()`` is for JSON."""
        return explain(self._questions, self.items, user, items, history, k, reasons, self._finder)

    def asked(self, context: One) -> Asked | None:
        """Find a user, or a context of several fields; None if the model knows nothing of it."""
        try:
            found = self._questions.about_users([context], "error")
        except UsageError as error:
            if error.code == "bad_context":
                raise
            return None
        return found if found.by_model_T.all() else None

    def fold_in(self, histories: Histories, *, skip_unknown: bool = False) -> Recommender:
        """Return a model of the same items for new users, from their histories, without training.

        Items the model does not know are refused, or with ``skip_unknown`` left out; a user must
        have at least one that it knows. A model of sequences looks at their order: that of the
        list, or of the times of ``Interactions``. Weights of rows play no part: training divides
        them by their mean over all rows, and there is no such mean for those who are new. What new
        users know and do not like is not recommended to them.
        """
        rows = rows_of(histories)
        model, new = self._questions.folded(rows, skip_unknown=skip_unknown)
        about = {**self.about, "context": list(USER), "folded_in": True}
        seen, neutral_E = self._questions.unliked(rows)
        return Recommender(
            Artifact(model, rows.users, self.items, new, about, seen, neutral_E, self.cold_I)
        )

    def add_items(
        self,
        events: Events | None = None,
        *,
        features: Features | None = None,
        skip_unknown: bool = False,
    ) -> Recommender:
        """Return a model that knows new items too, without training; users stay as they are.

        ``events`` say who had to do with each new item: ``sdgar.read(file)``, or lists of users by
        item. The item then gets the vector and the bias that suit the objective of the model, and
        its weights from and to other items, and it belongs to the histories of its users. Users
        whom the model does not know are refused, or with ``skip_unknown`` left out.

        ``features`` are those of known items and of new ones, in one table. New items without
        events are cold: their vectors are predicted from their features, and lists mark them.
        Where a cold item gets events, now or later, both count: n events n / (n + κ), and the
        prediction the rest.

        >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
        >>> model = sdgar.IALS(dim=2).fit(data).add_items({"new": [1, 2]})
        >>> model.recommend([3], k=1, items=["new"])["item"].to_list()
        ['new']
        """
        return Recommender(grown(self._saved, events, features, skip_unknown=skip_unknown))

    def update(self, events: Histories, *, skip_unknown: bool = False) -> Recommender:
        """Return a model that knows of new events, without training; ``save`` keeps it.

        Events are rows, as ``sdgar.read`` gives them, or lists of items by user. The histories of
        users grow by them, and users who are new are known afterwards. Whoever has a new item is
        folded in from all that they have; a model that cannot fold in keeps the vectors of its
        users and refuses new ones. What users dislike of the events leaves their history. Items
        that the model does not know are refused, or with ``skip_unknown`` left out: only training
        brings new items in.

        >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
        >>> model = sdgar.LocalEASE(l2=1.0).fit(data).recommender_
        >>> model = model.update({3: ["b"], 4: ["c"]})
        >>> model.recommend([3, 4], k=1)["item"].to_list()
        ['c', 'b']
        """
        return Recommender(updated(self._saved, events, skip_unknown=skip_unknown))

    def knowing(self, data: Interactions) -> Recommender:
        """Return a model that knows these rows of its users, whose vectors stay as they are."""
        return Recommender(knowing(self._saved, data))

    def rows_with(self, data: Interactions) -> Interactions:
        """Return rows together with those that this model was trained on and they lack."""
        return with_rows_of(data, self._saved)

    def lacks(self, data: Interactions) -> NDArray[np.bool_]:
        """Say of each row whether this model does not have it."""
        return lacks(self._saved, data)

    def similar_items(
        self, items: Raw, k: int = 10, *, by: str = "auto", fallback: str = "mark"
    ) -> Any:
        """Return the k items with the most similar vectors, by cosine, the item itself left out.

        The columns are like, rank, item, score, short and basis. Where there are no vectors but
        weights from item to item, these are the k items that the item speaks for most. A model with
        both has either: ``by="vectors"``, the default, or ``by="weights"``; ``similar_by`` says
        which it is. An item that the model does not know gets a row without another item, whose
        ``basis`` is "unknown"; ``fallback="skip"`` leaves it out, and "error" refuses it.
        """
        return self.similar_lists("item", items, k, by=by, fallback=fallback).frame(items)

    def similar_users(self, users: Raw, k: int = 10, *, fallback: str = "mark") -> Any:
        """Return the k users with the most similar vectors, by cosine, the user left out.

        The columns are like, rank, user, score, short and basis; ``fallback`` does what it does in
        ``similar_items``.
        """
        return self.similar_lists("user", users, k, fallback=fallback).frame(users)

    def similar_by(self, side: Side, by: str = "auto") -> str | None:
        """Say what similarity goes by, "vectors" or "weights"; None if there is nothing to go by.

        ``by`` is as in ``similar_items``.
        """
        like = self._likeness(side, by)
        return None if like is None else like.by

    def _likeness(self, side: Side, by: str) -> Likeness | None:
        asked = side, one_of("by", by, BY)
        if asked not in self._likenesses:
            ids = self.items if side == "item" else self.users
            self._likenesses[asked] = Likeness.of(self.model, side, ids, by, self._compared)
        return self._likenesses[asked]

    def similar_lists(
        self, side: Side, asked: Raw, k: int = 10, *, by: str = "auto", fallback: str = "mark"
    ) -> Lists:
        """Return what ``similar_items`` or ``similar_users`` gives as a record, without a frame."""
        if side == "user" and self.fields is not None:
            raise UsageError(
                f"a context of this model is {', '.join(self.fields.names)}, so that a user has "
                "several vectors. Models whose context is the user alone know similar users.",
                code="no_vectors",
            )
        k = length("k", k)
        one_of("fallback", fallback, MARKS)
        like = self._likeness(side, by)
        if like is None and by != "auto":
            raise UsageError(
                f"a {self.about.get('system')} model has no {by} of {side}s to compare. Leave out "
                "by, or use a model with a memory.",
                code="no_vectors",
            )
        if like is None:
            self.factors  # noqa: B018 - a model without vectors says so in its own words
            raise UsageError(
                f"a {self.about.get('system', 'popularity')} model has no {side} vectors, so no "
                f"{side} is similar to another. Train a learning system, such as bpr.",
                code="no_vectors",
            )
        return like.lists(asked, k, fallback)

    def score_pairs(self, users: Raw, items: Raw, *, fallback: str = "mark") -> Any:
        """Return the score of each user for the item beside it: user, item, score, basis.

        A single id stands beside all of the other side. A pair that the model does not know has no
        score, and its ``basis`` is "unknown"; ``fallback="skip"`` leaves it out, and "error"
        refuses it.
        """
        one_of("fallback", fallback, MARKS)
        return pairs_table(self._questions, self.items, users, items, fallback)

    def evaluate(
        self,
        test: Interactions,
        *,
        ks: tuple[int, ...] = KS,
        seen: Interactions | None = None,
        histories: Interactions | None = None,
        among: Iterable[Any] | None = None,
        metrics: Sequence[str] | None = None,
        **beside: Unpack[Beside],
    ) -> Report:
        """Rank the whole catalogue for every test user and compare with the test rows.

        Items a user is known to have are left out of the list: the model's own training
        rows, or ``seen`` if it is given. With ``histories`` the test users are new ones, who are
        folded in from these rows, which are then what they are known to have. With ``among``, such
        as ``model.cold_items``, only these items are ranked, and only their test rows count.

        ``metrics`` names what is measured, such as ``["ndcg@20", "coverage@10"]``; docs/metrics.md
        has them all, and a name without @ is measured at each of ``ks``. Without it, all metrics of
        accuracy are. ``facts`` are fields of items by id, as ``sdgar.read_facts`` gives them, for
        ``calibration@10`` and ``diversity:genres@10``; ``new_items`` are ids for ``new_hit@10``,
        if the times of ``seen`` do not tell; ``vectors`` are used for ``diversity@10`` instead of
        those of the model. With ``among``, coverage and gini are of these items alone; how popular
        an item is follows from all.

        >>> train, test = sdgar.split(sdgar.synthetic("demo"))
        >>> report = sdgar.MostPopular().fit(train).evaluate(test, metrics=["coverage@10"])
        >>> 0 < report.means()["coverage@10"] < 0.5
        True
        """
        report = measured(
            self,
            test,
            ks=ks,
            seen=seen,
            histories=histories,
            among=among,
            metrics=metrics,
            **beside,
        )
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


def load(path: str | Path, *, mapped: bool = False, ram: int | None = None) -> Recommender:
    """Load a saved model; its files are verified first, and no code in them can run.

    With ``mapped`` the arrays of a large model stay in its files, of which the system keeps as much
    in memory as there is room for. Answers are the same. With ``ram`` this happens only if the
    model and its copies may take more than so many bytes. An address such as s3://bucket/run is
    fetched first.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> _ = sdgar.MostPopular().fit(data).save("popular")
    >>> sdgar.load("popular")
    Recommender of system popular
    3 users × 3 items, 5 known rows
    """
    if not is_remote(path):
        path = a_path("path", path)
    loaded = Recommender(artifact.load(path, mapped=mapped, ram=ram))
    loaded._questions.require_fields_of(path)
    return loaded


def most_popular(model: Recommender) -> Recommender:
    """Return the yardstick of a model: the same users, items and histories, by popularity."""
    factors = popularity(model.history, len(model.items), model.fields)
    context = model.about.get("context", list(USER))
    about = {"system": "popular", "context": context, "seen_by": model.seen_by}
    return Recommender(
        Artifact(factors, model.users, model.items, model.history, about, cold=model.cold_I)
    )
