"""From a request to its answer: what the routes of the API call, without anything of HTTP."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sdgar.errors import UsageError
from sdgar.recommend.rules import RerankOptions
from sdgar.serve import schemas
from sdgar.serve.activity import ImpressionLog, RecentEvents
from sdgar.serve.batches import Batches
from sdgar.serve.catalogue import Blocked, Catalogue
from sdgar.serve.house import House
from sdgar.serve.snapshot import Best, Snapshot
from sdgar.serve.swap import ServedModels
from sdgar.serve.told import (
    Listed,
    by_variant,
    details,
    ids_of,
    in_order,
    nothing_known,
    numbers_of,
    own_id,
    popular_of,
    required,
    told,
    unknown_of,
    without,
)
from sdgar.serve.variants import Variant
from sdgar.serve.whom import Whom, by_history, by_user

if TYPE_CHECKING:
    from sdgar.serve.store import Entry

_MOST_DEPTH = 3_000
"""A list is taken from at most so many best items before the rest is filtered out here."""


_NO_DIALS = RerankOptions()


@dataclass(frozen=True)
class Kind:
    """Questions of one kind can be answered together."""

    snapshot: Snapshot
    """The model that answers."""
    form: str
    """Whether a question is the number of a user, a history, or a function to call."""
    unseen: bool = True
    """Whether what a user has is left out."""
    blocked: Blocked | None = None
    """The items that are left out for everyone."""


def answered(kind: Any, questions: Sequence[Any]) -> Sequence[Any]:
    """Answer questions of one kind, in the thread that computes."""
    if kind.form == "call":
        return [call() for call in questions]
    n = max(depth for _, depth in questions)
    who = [one for one, _ in questions]
    blocked_I = None if kind.blocked is None else kind.blocked.blocked_I
    best = kind.snapshot.best_of_users if kind.form == "users" else kind.snapshot.best_of_histories
    found: list[Best] = best(who, n, blocked_I, unseen=kind.unseen)
    return found


class Service:
    """All that the API answers, on models that may be swapped while it answers."""

    def __init__(
        self,
        models: ServedModels,
        catalogue: Catalogue,
        recent: RecentEvents,
        batches: Batches,
        impressions: ImpressionLog,
        house: House,
    ) -> None:
        self.models, self.catalogue, self.recent = models, catalogue, recent
        self.batches, self.impressions, self.house = batches, impressions, house

    async def recommend(
        self, asked: schemas.ForUsers | schemas.ForHistories | schemas.ForContexts
    ) -> dict[str, Any]:
        """Return the lists of users, histories or contexts; all by the models of this moment."""
        request = secrets.token_hex(8)
        variants = self.models.current
        unknown_users: list[Any] = []
        unknown_items: list[Any] = []
        tasks: list[Awaitable[dict[str, Any]]] = []
        if isinstance(asked, schemas.ForUsers):
            for name, of_variant in by_variant(variants, asked.users, asked.variant).items():
                variant = variants.by_name[name]
                numbers = variant.snapshot.users_of(of_variant)
                for user, at in zip(of_variant, numbers, strict=True):
                    whom = by_user(variant.snapshot, at, self.recent.of(str(user)))
                    if whom.basis == "popular":
                        unknown_users.append(user)
                    tasks.append(self._list(variant, own_id(variant, user, at), whom, asked))
        elif isinstance(asked, schemas.ForHistories):
            for history in asked.histories:
                whose = request if history.id is None else str(history.id)
                variant = variants.of(whose, asked.variant)
                whom, unknown = by_history(variant.snapshot, history.items)
                unknown_items += unknown
                tasks.append(self._list(variant, history.id, whom, asked))
        else:
            return await self._in_contexts(request, asked)
        lists = [await tasks[0]] if len(tasks) == 1 else await asyncio.gather(*tasks)
        if isinstance(asked, schemas.ForUsers):
            lists = in_order(lists, asked.users)
        self.impressions.add(request, lists)
        snapshot = variants.first.snapshot
        unknown_items += unknown_of(snapshot, [*(asked.items or ()), *(asked.exclude or ())])
        unknown_told = {"users": unknown_users, "items": list(dict.fromkeys(unknown_items))}
        return {"request": request, "lists": lists, "unknown": unknown_told}

    async def _list(
        self, variant: Variant, user: Any, whom: Whom, asked: schemas.Wishes
    ) -> dict[str, Any]:
        """Make one list."""
        snapshot = variant.snapshot
        out = whom.disliked | (whom.known if asked.exclude_seen else frozenset())
        out |= frozenset(numbers_of(snapshot, asked.exclude or ()))
        dials = _NO_DIALS
        if asked.diversity or asked.popularity or asked.exclude_categories:
            out_of = frozenset(asked.exclude_categories or ())
            dials = RerankOptions(asked.diversity, asked.popularity, out_of)

        async def candidates(depth: int) -> Listed:
            return without(await self._best(snapshot, whom, asked, out, depth), out, depth)

        if self.house.acts(dials):
            own = snapshot.model.known.of(whom.user).tolist() if whom.basis == "model" else ()
            never = out | frozenset(own if asked.exclude_seen else ())
            listed = await self.house.ranked(
                snapshot, whom, asked.k, dials, never, candidates, self.call
            )
        else:
            listed = await candidates(asked.k)
        entries: dict[str, Entry] = {}
        if asked.details:
            entries = await self.catalogue.entries(ids_of(snapshot, listed.items))
        because = await self._because(snapshot, whom, listed.items, asked.reasons)
        if asked.details and because is not None:
            named = [str(one["item"]) for reasons in because for one in reasons]
            entries |= await self.catalogue.entries(named)
        return {
            "user": user,
            "items": told(snapshot, listed, because, entries if asked.details else None),
            "short": len(listed.items) < asked.k,
            "basis": whom.basis,
            "model": snapshot.version,
            "variant": variant.name,
        }

    async def _best(
        self, snapshot: Snapshot, whom: Whom, asked: schemas.Wishes, out: frozenset[int], depth: int
    ) -> Best:
        """Return more than enough of the best items."""
        blocked = await self.house.blocked(snapshot)
        if asked.items is not None or asked.exclude_categories or len(out) > _MOST_DEPTH:
            blocked = await self._blocked(snapshot, asked, blocked, out)
        depth += len(out) if len(out) <= _MOST_DEPTH else 0
        if whom.basis == "popular":
            return popular_of(snapshot, depth, blocked)
        if whom.basis == "model":
            kind = Kind(snapshot, "users", asked.exclude_seen, blocked)
            found: Best = await self.batches.ask(kind, (whom.user, depth))
        else:
            kind = Kind(snapshot, "histories", asked.exclude_seen, blocked)
            found = await self.batches.ask(kind, (whom.history, depth))
        return found

    async def _blocked(
        self, snapshot: Snapshot, asked: schemas.Wishes, hidden: Blocked, out: frozenset[int]
    ) -> Blocked:
        """Return what may not be listed because of the request, and what is hidden anyway."""
        n_items = len(snapshot.model.items)
        blocked_I = np.zeros(n_items, bool)
        if asked.items is not None:
            blocked_I[:] = True
            blocked_I[numbers_of(snapshot, asked.items)] = False
        if asked.exclude_categories:
            blocked_I[await self.catalogue.in_categories(snapshot, asked.exclude_categories)] = True
        if hidden.blocked_I is not None:
            blocked_I |= hidden.blocked_I
        blocked_I[list(out)] = True
        return Blocked(blocked_I)

    async def _because(
        self, snapshot: Snapshot, whom: Whom, items: list[int], most: int
    ) -> list[list[dict[str, Any]]] | None:
        """Return the reasons for each entry; none for a list of what is popular."""
        if not most:
            return None
        if whom.basis == "popular" or not items:
            return [[] for _ in items]
        who = whom.user if whom.basis == "model" else whom.history
        items_B = np.array(items, np.int64)
        found = await self.call(snapshot, lambda: snapshot.reasons(who, items_B, most))
        return [one["because"] for one in found.dicts()]

    async def call(self, snapshot: Snapshot, function: Any) -> Any:
        """Call a function in the thread that computes."""
        return await self.batches.ask(Kind(snapshot, "call"), function)

    async def _in_contexts(self, request: str, asked: schemas.ForContexts) -> dict[str, Any]:
        """Return lists for contexts of several fields, as the library gives them."""
        if asked.reasons or asked.diversity or asked.popularity:
            raise UsageError(
                "lists for contexts have no reasons, diversity and popularity yet. Leave these "
                "out, or ask for users.",
                code="not_for_contexts",
            )
        lists = []
        for context in asked.contexts:
            variant = self.models.current.of(str(context.get("user", "")), asked.variant)
            snapshot = variant.snapshot
            hidden = await self.house.blocked(snapshot)
            out = frozenset(numbers_of(snapshot, asked.exclude or ()))
            blocked = await self._blocked(snapshot, asked, hidden, out)
            found = await self.call(snapshot, lambda c=context, s=snapshot, b=blocked: s.in_context(
                c, asked.k, b.blocked_I, unseen=asked.exclude_seen))  # fmt: skip
            best, basis = found
            listed = Listed(best.items_K.tolist(), best.scores_K.tolist())
            entries = {}
            if asked.details:
                entries = await self.catalogue.entries(ids_of(snapshot, listed.items))
            items = told(snapshot, listed, None, entries if asked.details else None)
            lists.append(
                {
                    "user": context.get("user"),
                    "context": context,
                    "items": items,
                    "short": len(items) < asked.k,
                    "basis": basis,
                    "model": snapshot.version,
                    "variant": variant.name,
                }
            )
        self.impressions.add(request, lists)
        return {"request": request, "lists": lists, "unknown": {"users": [], "items": []}}

    async def similar(self, asked: schemas.Similar) -> dict[str, Any]:
        """Return the items that are like each of some items."""
        snapshot = self.models.current.first.snapshot
        hidden = (await self.house.blocked(snapshot)).blocked_I
        more = 0 if hidden is None else int(min(hidden.sum(), _MOST_DEPTH))

        def find() -> list[tuple[Best, bool]]:
            return snapshot.like(asked.items, asked.k + more, asked.by, hidden)

        found = await self.call(snapshot, find)
        entries: dict[str, Entry] = {}
        if asked.details:
            numbers = [n for best, _ in found for n in best.items_K[: asked.k].tolist()]
            entries = await self.catalogue.entries(ids_of(snapshot, numbers))
        lists = []
        for item, (best, known) in zip(asked.items, found, strict=True):
            cut = Listed(best.items_K[: asked.k].tolist(), best.scores_K[: asked.k].tolist())
            similar = told(snapshot, cut, None, entries if asked.details else None)
            basis = "model" if known else "unknown"
            lists.append(
                {"item": item, "similar": similar, "short": len(similar) < asked.k, "basis": basis}
            )
        by = snapshot.model.similar_by("item", asked.by)
        return {"lists": lists, "by": by, "model": snapshot.version}

    async def explain(self, asked: schemas.WhyUser | schemas.WhyHistory) -> dict[str, Any]:
        """Return the reasons of scores, which add up."""
        if isinstance(asked, schemas.WhyUser):
            user: Any = asked.user
            variant = self.models.current.of(str(user))
            snapshot = variant.snapshot
            (at,) = snapshot.users_of([user])
            user = own_id(variant, user, at)
            whom = by_user(snapshot, at, self.recent.of(str(user)))
        else:
            user, snapshot = None, self.models.current.first.snapshot
            whom, _ = by_history(snapshot, asked.history)
        if whom.basis == "popular":
            raise nothing_known()
        if asked.items is not None:
            items = list(dict.fromkeys(required(snapshot, asked.items)))
        else:
            wishes = schemas.Wishes(k=asked.k)
            best = await self._best(snapshot, whom, wishes, whom.known | whom.disliked, asked.k)
            items = without(best, whom.known | whom.disliked, asked.k).items
        who = whom.user if whom.basis == "model" else whom.history
        items_B = np.array(items, np.int64)
        found = await self.call(snapshot, lambda: snapshot.reasons(who, items_B, asked.reasons))
        told_items = found.dicts()
        if asked.details:
            ids = [str(one["item"]) for e in told_items for one in (e, *e["because"])]
            entries = await self.catalogue.entries(ids)
            for one in (one for e in told_items for one in (e, *e["because"])):
                one.update(details(entries.get(str(one["item"]))))
        return {
            "user": user, "items": told_items, "model": snapshot.version, "basis": whom.basis,
        }  # fmt: skip

    async def popular(self, k: int, category: str | None) -> dict[str, Any]:
        """Return what most people have."""
        snapshot = self.models.current.first.snapshot
        blocked = await self.house.blocked(snapshot)
        if category is not None:
            among = await self.catalogue.in_categories(snapshot, [category])
            blocked_I = np.ones(len(snapshot.model.items), bool)
            blocked_I[among] = False
            if blocked.blocked_I is not None:
                blocked_I |= blocked.blocked_I
            blocked = Blocked(blocked_I)
        best = popular_of(snapshot, k, blocked)
        listed = Listed(best.items_K.tolist(), best.scores_K.tolist())
        entries = await self.catalogue.entries(ids_of(snapshot, listed.items))
        return {"items": told(snapshot, listed, None, entries)}
