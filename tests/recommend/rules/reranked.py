"""Rules applied to a few candidates in any order, as to the best items of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sdgar.data.ids import Ids
from sdgar.recommend.rules import Facts, Rules


class Reranked(NamedTuple):
    """The columns of a re-ranked list."""

    items_K: np.ndarray
    scores_K: np.ndarray
    notes: tuple[tuple[str, ...], ...]


def facts_of(entries: Mapping[int, Mapping[str, Any]] | None = None, **columns: Any) -> Facts:
    """Return facts by index, with indices as the ids of items."""
    n_items = min(map(len, columns.values()), default=120)
    return Facts(entries or {}, Ids(np.arange(n_items)), **columns)


def reranked(
    rules: Rules, items: Any, scores: Any, k: int, facts: Facts | None = None, **how: Any
) -> Reranked:
    """Apply rules to the candidates that they do not block, the best first.

    ``options`` go to ``Rules.using``, and the others to ``Reranking.apply``.
    """
    facts = facts or facts_of()
    using = rules.using(**how.pop("options", {}))
    blocked_I = using.blocked(facts)
    best: dict[int, float] = {}
    for item, score in zip(np.asarray(items).tolist(), np.asarray(scores).tolist(), strict=True):
        if item >= 0 and np.isfinite(score) and (blocked_I is None or not blocked_I[item]):
            best[item] = max(score, best.get(item, score))
    order = sorted(best, key=lambda item: (-best[item], item))
    items_N, scores_N = np.array(order, np.int64), np.array([best[item] for item in order])
    found = using.apply(items_N, scores_N.astype(np.float64), k, facts, **how)
    items, scores, notes = zip(*found, strict=True) if found else ((), (), ())
    return Reranked(np.array(items, np.int64), np.array(scores, np.float64), notes)
