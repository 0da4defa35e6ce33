"""From a request to its answer: what the routes of the API call, without anything of HTTP.

A request for lists becomes queries, which the computing thread answers by one call into the
library, and the ranked items become JSON by one function.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.errors import UsageError
from sdgar.recommend.by_index import Query, RankedItems, explain_query, rank_queries
from sdgar.recommend.inputs import find
from sdgar.recommend.lists import RankedLists
from sdgar.recommend.ranking import BlockedItems, ListOptions
from sdgar.recommend.rules import Rules
from sdgar.serve import schemas
from sdgar.serve.activity import ImpressionLog, RecentEvents
from sdgar.serve.batches import Batches
from sdgar.serve.catalogue import EntryCache, details_of
from sdgar.serve.snapshot import Snapshot
from sdgar.serve.swap import ServedModels, Variant

_MOST_MORE = 3_000
"""The maximum number of further similar items that are looked up because some are blocked."""


@dataclass(frozen=True)
class BatchKind:
    """Queries of one kind can be answered together."""

    snapshot: Snapshot
    """The model that answers."""
    options: ListOptions | None = None
    """The options of ranked lists; None for a function to call."""


def answer_batch(kind: Any, queries: Sequence[Any]) -> Sequence[Any]:
    """Return the answers to queries of one kind; called in the computing thread.

    A query is a list of ``Query`` (one request), or a function.
    """
    if kind.options is None:
        return [call() for call in queries]
    every = [one for query in queries for one in query]
    found = iter(rank_queries(kind.snapshot.model, kind.options, every))
    return [[next(found) for _ in query] for query in queries]


@dataclass(frozen=True, slots=True)
class _Request:
    """One list of a request: who it is for, and the query for it."""

    variant: Variant
    head: dict[str, Any]
    """The user, or the context, as the answer names it."""
    query: Query


class Service:
    """All answers of the API, on models that may be swapped meanwhile."""

    def __init__(
        self,
        models: ServedModels,
        catalogue: EntryCache,
        recent: RecentEvents,
        batches: Batches,
        impressions: ImpressionLog,
        rules: Rules,
    ) -> None:
        self.models, self.catalogue, self.recent = models, catalogue, recent
        self.batches, self.impressions, self._rules = batches, impressions, rules

    async def recommend(self, body: schemas.RecommendBody) -> dict[str, Any]:
        """Return the lists of users, histories or contexts; all by the models of this moment."""
        id = secrets.token_hex(8)
        first = self.models.current.first.snapshot
        unknown: dict[str, list[Any]] = {"users": [], "items": []}
        requests = list(getattr(self, f"_of_{body.form}")(id, body, unknown))
        found: dict[int, dict[str, Any]] = {}
        for variant in dict.fromkeys(one.variant for one in requests):
            places = [at for at, one in enumerate(requests) if one.variant is variant]
            some = [requests[at] for at in places]
            found |= zip(places, await self._lists(variant, some, body), strict=True)
        lists = [found[at] for at in range(len(requests))]
        self.impressions.add(id, lists)
        if body.form != "contexts":
            named = [*(body.items or ()), *(body.exclude or ())]
            unknown["items"] += first.unknown_items(named)
        unknown["items"] = list(dict.fromkeys(unknown["items"]))
        return {"request": id, "lists": lists, "unknown": unknown}

    def _of_users(
        self, id: str, body: schemas.RecommendBody, unknown: dict[str, list[Any]]
    ) -> Iterator[_Request]:
        variants = self.models.current
        for user in body.users:
            variant = variants.of(str(user), body.variant)
            snapshot = variant.snapshot
            (at,) = snapshot.users_of([user])
            query = snapshot.query_of_user(at, self.recent.of(str(user)))
            if query.basis == "popular":
                unknown["users"].append(user)
            yield _Request(variant, {"user": snapshot.user_id(at, user)}, query)

    def _of_histories(
        self, id: str, body: schemas.RecommendBody, unknown: dict[str, list[Any]]
    ) -> Iterator[_Request]:
        variants = self.models.current
        for history in body.histories:
            variant = variants.of(id if history.id is None else str(history.id), body.variant)
            unknown["items"] += variant.snapshot.unknown_items(history.items)
            query = variant.snapshot.query_of_history(history.items)
            yield _Request(variant, {"user": history.id}, query)

    def _of_contexts(
        self, id: str, body: schemas.RecommendBody, unknown: dict[str, list[Any]]
    ) -> Iterator[_Request]:
        if body.reasons or body.diversity or body.popularity:
            raise UsageError(
                "lists for contexts do not support reasons, diversity and popularity yet. Leave "
                "these out, or query users.",
                code="not_for_contexts",
            )
        variants = self.models.current
        for context in body.contexts:
            variant = variants.of(str(context.get("user", "")), body.variant)
            head = {"user": context.get("user"), "context": context}
            yield _Request(variant, head, variant.snapshot.query_of_context(context))

    async def _lists(
        self, variant: Variant, requests: Sequence[_Request], body: schemas.RecommendBody
    ) -> list[dict[str, Any]]:
        """Return the lists of one variant as JSON."""
        snapshot = variant.snapshot
        rules = body.form != "contexts"
        options = await self._options(snapshot, body, rules=rules)
        queries = [one.query for one in requests]
        found: list[RankedItems] = await self.batches.ask(BatchKind(snapshot, options), queries)
        lists = await self._rendered(snapshot, found, details=body.details)
        return [
            {
                **one.head,
                "items": entries,
                "short": len(entries) < body.k,
                "basis": one.query.basis,
                "model": snapshot.version,
                "variant": variant.name,
            }
            for one, entries in zip(requests, lists, strict=True)
        ]

    async def _options(
        self, snapshot: Snapshot, body: schemas.RankingBody, *, rules: bool = True
    ) -> ListOptions:
        """Return the options of the lists of a request."""
        blocked = await self.catalogue.blocked(snapshot)
        if body.items is not None or body.exclude or body.exclude_categories:
            blocked_I = snapshot.blocked(body.exclude or ())
            if blocked.blocked_I is not None:
                blocked_I |= blocked.blocked_I
            if body.items is not None:
                blocked_I |= ~snapshot.blocked(body.items)
            if body.exclude_categories:
                in_I = await self.catalogue.in_categories(snapshot, body.exclude_categories)
                blocked_I[in_I] = True
            blocked = BlockedItems(blocked_I)
        reranking = facts = None
        if rules and (self._rules or body.diversity or body.popularity):
            excluded = tuple(body.exclude_categories or ())
            reranking = self._rules.using(
                diversity=body.diversity, popularity=body.popularity, exclude_categories=excluded
            )
            facts = await self.catalogue.facts(snapshot)
        return ListOptions(body.k, body.exclude_seen, blocked, body.reasons, reranking, facts)

    async def _rendered(
        self, snapshot: Snapshot, found: Sequence[RankedItems], *, details: bool
    ) -> list[list[dict[str, Any]]]:
        """Return the entries of ranked lists as JSON, with names and pictures if requested."""
        lists = [_entries(snapshot, one) for one in found]
        if details:
            await self._add_details([entry for own in lists for entry in own])
        return lists

    async def _add_details(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add the name, picture and categories of each item, reasons included."""
        shown = [one for entry in rows for one in (entry, *entry.get("because", ()))]
        entries = await self.catalogue.entries(str(one["item"]) for one in shown)
        for one in shown:
            one.update(details_of(entries.get(str(one["item"]))))

    async def similar(self, body: schemas.SimilarBody) -> dict[str, Any]:
        """Return the items that are similar to each of some items."""
        snapshot = self.models.current.first.snapshot
        model = snapshot.model
        blocked_I = (await self.catalogue.blocked(snapshot)).blocked_I
        by = model.similar_by("item", body.by)
        index_T = model.items.index_of(body.items)
        known = [item for item, at in zip(body.items, index_T, strict=True) if at >= 0]
        more = 0 if blocked_I is None else int(min(blocked_I.sum(), _MOST_MORE))
        similar: dict[int, list[dict[str, Any]]] = {}
        if known:
            lists = await self.batches.ask(
                BatchKind(snapshot),
                lambda: model.similar_lists("item", known, body.k + more, by=body.by),
            )
            ranked = _unblocked(lists, blocked_I, body.k)
            rendered = await self._rendered(snapshot, ranked, details=body.details)
            similar = dict(zip(np.flatnonzero(index_T >= 0).tolist(), rendered, strict=True))
        answers = [
            {
                "item": item,
                "similar": similar.get(place, []),
                "short": len(similar.get(place, [])) < body.k,
                "basis": "model" if place in similar else "unknown",
            }
            for place, item in enumerate(body.items)
        ]
        return {"lists": answers, "by": by, "model": snapshot.version}

    async def explain(self, body: schemas.ExplainBody) -> dict[str, Any]:
        """Return the contributions of the history's items to scores; they add up."""
        if body.form == "user":
            snapshot = self.models.current.of(str(body.user)).snapshot
            (at,) = snapshot.users_of([body.user])
            user = snapshot.user_id(at, body.user)
            query = snapshot.query_of_user(at, self.recent.of(str(user)))
        else:
            user, snapshot = None, self.models.current.first.snapshot
            query = snapshot.query_of_history(body.history)
        if query.basis == "popular":
            raise UsageError(
                "this user is unknown to the model, so there are no reasons. Give a history.",
                code="unknown_user",
            )
        items: list[int] | None = None
        if body.items is not None:
            at_T = find(snapshot.model.items, list(body.items), "item", "error")
            items = list(dict.fromkeys(at_T.tolist()))
        options = await self._options(snapshot, schemas.RankingBody(k=body.k), rules=False)
        found = await self.batches.ask(
            BatchKind(snapshot),
            lambda: explain_query(snapshot.model, options, query, items, body.reasons),
        )
        if body.details:
            await self._add_details(found)
        return {"user": user, "items": found, "model": snapshot.version, "basis": query.basis}

    async def popular(self, k: int, category: str | None) -> dict[str, Any]:
        """Return the most popular items, of all or of one category."""
        snapshot = self.models.current.first.snapshot
        options = await self._options(snapshot, schemas.RankingBody(k=k), rules=False)
        if category is not None:
            blocked_I = np.ones(len(snapshot.model.items), bool)
            blocked_I[await self.catalogue.in_categories(snapshot, [category])] = False
            if options.blocked.blocked_I is not None:
                blocked_I |= options.blocked.blocked_I
            options = ListOptions(k, blocked=BlockedItems(blocked_I))
        found = await self.batches.ask(BatchKind(snapshot, options), [Query("popular")])
        (entries,) = await self._rendered(snapshot, found, details=True)
        return {"items": entries}


def _unblocked(
    lists: RankedLists, blocked_I: NDArray[np.bool_] | None, k: int
) -> list[RankedItems]:
    """Return the first k items of each list that are not blocked."""
    found = []
    for items_K, scores_K in zip(lists.items_TK, lists.scores_TK, strict=True):
        kept_K = items_K >= 0
        if blocked_I is not None:
            kept_K &= ~blocked_I[items_K]
        found.append(RankedItems(items_K[kept_K][:k].tolist(), scores_K[kept_K][:k].tolist()))
    return found


def _entries(snapshot: Snapshot, found: RankedItems) -> list[dict[str, Any]]:
    """Return the entries of a ranked list as JSON."""
    cold_I = snapshot.model.cold_I
    rows: list[dict[str, Any]] = []
    for place, (item, score) in enumerate(
        zip(snapshot.item_ids(found.items), found.scores, strict=True)
    ):
        row: dict[str, Any] = {"item": item, "score": score, "rank": place + 1}
        if cold_I is not None and cold_I[found.items[place]]:
            row["cold"] = True
        if found.because is not None:
            row["because"] = found.because[place]
        if found.notes is not None and found.notes[place]:
            row["rules"] = list(found.notes[place])
        rows.append(row)
    return rows
