"""The methods of a trained model, for saved models and for fitted systems alike.

This module is quick to import: the code of a method is imported when it is first called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from sdgar.settings import KS

if TYPE_CHECKING:
    from sdgar.data.features import Features
    from sdgar.data.interactions import Interactions
    from sdgar.evaluation.report import Report
    from sdgar.recommend.evaluating import ItemInputs
    from sdgar.recommend.inputs import Histories, One, Raw
    from sdgar.recommend.new_items import Events
    from sdgar.recommend.recommender import Recommender
    from sdgar.recommend.rules import Reranking, Rules


class RecommendOptions(TypedDict, total=False):
    """The options of ``Recommender.recommend``, which documents each of them."""

    history: Iterable[Any] | None
    histories: Histories | None
    items: Iterable[Any] | None
    exclude: Iterable[Any] | None
    exclude_seen: bool
    fallback: str
    why: bool
    rules: Rules | Reranking | None


class RecommenderMethods:
    """Recommendations, explanations, measures and changes of a trained model."""

    @property
    def _trained_model(self) -> Recommender:
        """The trained model; raise if there is none."""
        raise NotImplementedError

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

        ``users`` are ids, or None for all users. A context of several fields is a mapping, such as
        ``{"user": "ann", "daypart": "evening"}``; it may be a new combination of known values. The
        frame then has a column for each field. ``history`` instead is one new user, named "new",
        with these items, and ``histories`` are several, as in ``fold_in``.

        ``items`` allows only these, and ``exclude`` leaves these out. Ranks count from 1. A user
        with fewer than k candidates gets fewer rows, all flagged ``short``; a user without any gets
        a single row without an item.

        An unknown user gets the most popular items: ``basis`` is "popular", and the score is the
        number of contexts that have the item. ``fallback="skip"`` leaves unknown users out, and
        "error" refuses them. Unknown items that are allowed, excluded or in a history are left
        out, or refused with "error". A warning names what is unknown.

        ``why=True`` adds the column ``because``: the item of the history that contributes most to
        each entry; ``explain`` returns more.

        ``rules`` re-rank each list: ``sdgar.Rules.read("rules.toml")``, alone or with facts of
        items and options, as ``rules.using(facts, diversity=0.3)``. The column ``rules`` has the
        rules that acted on each entry. Scores stay the scores of the model.
        """
        return self._trained_model.recommend_lists(
            users, k, history=history, histories=histories, items=items, exclude=exclude,
            exclude_seen=exclude_seen, fallback=fallback, why=why, rules=rules,
        ).frame(users)  # fmt: skip

    def explain(
        self,
        user: One | None = None,
        items: Raw | None = None,
        *,
        history: Iterable[Any] | None = None,
        k: int = 10,
        reasons: int = 3,
    ) -> Any:
        """Return how much each item of the history contributes to each score, as a frame.

        ``items`` are explained, or the ``k`` best ones. The columns are user, item, score, place,
        because, share, by_weights and by_vectors. Each item has a row for each of its ``reasons``,
        the largest share first, and one for the rest of its score, without ``because``; the shares
        add up to the score. Shares by weights between items are exact. Shares by vectors are
        estimates: the part of the user's vector that least squares attribute to an item of the
        history, times the vector of the explained item.

        >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
        >>> model = sdgar.LocalEASE(l2=1.0).fit(data)
        >>> model.explain(3, "b", reasons=1)["because"].to_list()
        ['a', None]
        """
        found = self._trained_model.explain_reasons(
            user, items, history=history, k=k, reasons=reasons
        )
        return found.frame(items)

    def fold_in(self, histories: Histories, *, skip_unknown: bool = False) -> Recommender:
        """Return a model of the same items for new users, from their histories, without training.

        Unknown items are refused, or with ``skip_unknown`` left out; a user must have at least one
        known item. Models of sequences use the order of items: the order of the list, or of the
        times of ``Interactions``. Weights of rows are not used: training divides them by their mean
        over all rows, and new users have no such mean. Items that new users disliked are not
        recommended to them.
        """
        from sdgar.recommend.recommender import Recommender
        from sdgar.recommend.update import with_new_users

        model = self._trained_model
        return Recommender(with_new_users(model, histories, skip_unknown=skip_unknown))

    def update(self, events: Histories, *, skip_unknown: bool = False) -> Recommender:
        """Return a model that includes new events, without training; ``save`` keeps it.

        Events are rows, as ``sdgar.read`` returns them, or items by user. They are added to the
        histories of users, and new users become known. A user with a new item is folded in from
        all items of the history; a model that cannot fold in keeps the vectors of its users and
        refuses new ones. Disliked items leave the history. Unknown items are refused, or with
        ``skip_unknown`` left out: ``add_items`` or training adds them.

        >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
        >>> model = sdgar.LocalEASE(l2=1.0).fit(data)
        >>> model = model.update({3: ["b"], 4: ["c"]})
        >>> model.recommend([3, 4], k=1)["item"].to_list()
        ['c', 'b']
        """
        from sdgar.recommend.recommender import Recommender
        from sdgar.recommend.update import updated

        saved = self._trained_model.saved
        return Recommender(updated(saved, events, skip_unknown=skip_unknown))

    def add_items(
        self,
        events: Events | None = None,
        *,
        features: Features | None = None,
        skip_unknown: bool = False,
    ) -> Recommender:
        """Return a model that includes new items, without training; users stay as they are.

        ``events`` are rows, as ``sdgar.read`` returns them, or the users of each new item. An item
        gets the vector and the bias that suit the objective of the model, and its weights from and
        to other items, and it becomes part of the histories of its users. Unknown users are
        refused, or with ``skip_unknown`` left out.

        ``features`` are the features of known and new items, in one table. New items without
        events are cold: their vectors are predicted from their features, and lists mark them. Once
        a cold item gets events, both count: n events n / (n + κ), and the prediction the rest.

        >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
        >>> model = sdgar.IALS(dim=2).fit(data).add_items({"new": [1, 2]})
        >>> model.recommend([3], k=1, items=["new"])["item"].to_list()
        ['new']
        """
        from sdgar.recommend.new_items import grown
        from sdgar.recommend.recommender import Recommender

        saved = self._trained_model.saved
        return Recommender(grown(saved, events, features, skip_unknown=skip_unknown))

    def similar_items(
        self, items: Raw, k: int = 10, *, by: str = "auto", fallback: str = "mark"
    ) -> Any:
        """Return the k most similar items by the cosine of vectors, without the item itself.

        The columns are like, rank, item, score, short and basis. A model with item-item weights
        alone returns the k items with the largest weights. A model with both compares by vectors,
        or by weights with ``by="weights"``; ``similar_by`` returns which it is. An unknown item
        gets a row without another item, whose ``basis`` is "unknown"; ``fallback="skip"`` leaves it
        out, and "error" refuses it.
        """
        model = self._trained_model
        return model.similar_lists("item", items, k, by=by, fallback=fallback).frame(items)

    def similar_users(self, users: Raw, k: int = 10, *, fallback: str = "mark") -> Any:
        """Return the k users with the most similar vectors, by cosine, without the user.

        The columns are like, rank, user, score, short and basis; ``fallback`` is as in
        ``similar_items``.
        """
        return self._trained_model.similar_lists("user", users, k, fallback=fallback).frame(users)

    def score_pairs(self, users: Raw, items: Raw, *, fallback: str = "mark") -> Any:
        """Return the score of each pair of a user and an item: user, item, score, basis.

        A single id is paired with every id of the other side. A pair with an unknown id has no
        score, and its ``basis`` is "unknown"; ``fallback="skip"`` leaves it out, and "error"
        refuses it.
        """
        from sdgar.recommend.scores import score_pairs

        return score_pairs(self._trained_model, users, items, fallback)

    def evaluate(
        self,
        test: Interactions,
        *,
        ks: tuple[int, ...] = KS,
        seen: Interactions | None = None,
        histories: Interactions | None = None,
        among: Iterable[Any] | None = None,
        metrics: Sequence[str] | None = None,
        **inputs: Unpack[ItemInputs],
    ) -> Report:
        """Rank the whole catalogue for every test user and compare with the test rows.

        Lists leave out known items of a user: the training rows of the model, or ``seen`` if it is
        given. With ``histories`` the test users are new ones, who are folded in from these rows,
        which lists then leave out. With ``among``, such as ``model.cold_items``, only these items
        are ranked, and only their test rows count.

        ``metrics`` are names such as ``["ndcg@20", "coverage@10"]``; docs/metrics.md has them all,
        and a name without @ is measured at each of ``ks``. By default all metrics of accuracy are
        measured. ``facts`` are fields of items by id, as ``sdgar.read_facts`` returns them, for
        ``calibration@10`` and ``diversity:genres@10``; ``new_items`` are ids for ``new_hit@10``,
        which otherwise follow from the times of ``seen``; ``vectors`` replace the vectors of the
        model for ``diversity@10``. With ``among``, coverage and gini are of these items alone; the
        popularity of an item is always among all items.

        >>> train, test = sdgar.split(sdgar.synthetic("demo"))
        >>> report = sdgar.MostPopular().fit(train).evaluate(test, metrics=["coverage@10"])
        >>> 0 < report.means()["coverage@10"] < 0.5
        True
        """
        import warnings

        from sdgar.errors import SdgarWarning
        from sdgar.recommend.evaluating import measured

        report = measured(
            self._trained_model, test, ks=ks, seen=seen, histories=histories, among=among,
            metrics=metrics, **inputs,
        )  # fmt: skip
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
        """Write the model as a folder; ``attachments`` are further files by name."""
        from sdgar.arguments import a_path
        from sdgar.recommend import artifact

        return artifact.save(
            self._trained_model.saved,
            a_path("path", path),
            overwrite=overwrite,
            attachments=attachments,
        )
