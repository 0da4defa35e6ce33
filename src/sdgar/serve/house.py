"""The rules of the house and the dials of a request, on the lists that are served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from sdgar.recommend.rules import Reranked, RerankOptions, Rules
from sdgar.serve.catalogue import Blocked, Catalogue
from sdgar.serve.snapshot import Items, Snapshot
from sdgar.serve.told import Listed
from sdgar.serve.whom import Whom

_MORE = 8
"""How many times as many candidates are asked for where the rules leave too few."""

Candidates = Callable[[int], Awaitable[Listed]]
"""Returns so many of the best items that may be listed."""
Call = Callable[[Snapshot, Callable[[], Any]], Awaitable[Any]]
"""Calls a function in the thread that computes."""


class House:
    """Rules, and what they know of items."""

    def __init__(self, rules: Rules, catalogue: Catalogue) -> None:
        self._rules, self._catalogue = rules, catalogue
        self._blocked: tuple[object, Blocked, Blocked] | None = None

    def acts(self, dials: RerankOptions) -> bool:
        """Tell whether lists must be ranked again."""
        return bool(self._rules) or bool(dials.diversity) or bool(dials.popularity)

    async def blocked(self, snapshot: Snapshot) -> Blocked:
        """Return the items that nobody is shown: hidden ones, and those that the rules block."""
        hidden = self._catalogue.blocked(snapshot)
        if not self._rules:
            return hidden
        facts = await self._catalogue.facts(snapshot)
        kept = self._blocked
        if kept is None or kept[0] is not facts or kept[1] is not hidden:
            by_rules_I = await asyncio.to_thread(self._rules.blocked, facts)
            both = hidden
            if by_rules_I is not None:
                hidden_I = hidden.blocked_I
                both = Blocked(by_rules_I if hidden_I is None else by_rules_I | hidden_I)
            kept = self._blocked = (facts, hidden, both)
        return kept[2]

    async def ranked(
        self,
        snapshot: Snapshot,
        whom: Whom,
        k: int,
        dials: RerankOptions,
        out: frozenset[int],
        candidates: Candidates,
        call: Call,
    ) -> Listed:
        """Rank candidates again; where rules leave too few of them, more are looked at."""
        facts = await self._catalogue.facts(snapshot)
        blocked_I = (await self.blocked(snapshot)).blocked_I
        who, history_H = _who(snapshot, whom)

        def score_of(items_B: Items) -> Any:
            scores_B = snapshot.scores(who, items_B)
            for place, item in enumerate(items_B.tolist()):
                if item in out or (blocked_I is not None and blocked_I[item]):
                    scores_B[place] = -np.inf
            return scores_B

        depth = self._rules.depth(k, dials)
        while True:
            listed = await candidates(depth)
            items_N = np.array(listed.items, np.int64)
            scores_N = np.array(listed.scores, np.float64)

            def apply(items_N: Any = items_N, scores_N: Any = scores_N) -> Reranked:
                return self._rules.apply(
                    items_N, scores_N, k, facts, dials, score_of=score_of, history_H=history_H
                )

            done = await call(snapshot, apply)
            if len(done.items_K) == k or len(items_N) < depth:
                return Listed(done.items_K.tolist(), done.scores_K.tolist(), done.notes)
            depth *= _MORE


def _who(snapshot: Snapshot, whom: Whom) -> tuple[int | Items | None, Items]:
    """Return whose scores are asked for, and the items that they have."""
    if whom.basis == "model":
        return whom.user, snapshot.model.history.of(whom.user).astype(np.int64)
    if whom.basis == "popular":
        return None, np.array(sorted(whom.known), np.int64)
    return whom.history, whom.history
