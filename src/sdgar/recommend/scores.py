"""Scores of pairs of users and items."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdgar.data.ids import plain
from sdgar.errors import UsageError
from sdgar.ranking.blocks import not_finite
from sdgar.recommend.indexed_model import IndexedModel
from sdgar.recommend.inputs import Raw, find, is_one_id, labels, several
from sdgar.recommend.lists import table


def score_pairs(model: IndexedModel, users: Raw, items: Raw, fallback: str) -> Any:
    """Return a frame with the score of each pair; see ``Recommender.score_pairs``."""
    user_ids, item_ids = several(users, "users"), several(items, "items")
    if is_one_id(plain(users)):
        user_ids = user_ids * len(item_ids)
    elif is_one_id(plain(items)):
        item_ids = item_ids * len(user_ids)
    if len(user_ids) != len(item_ids):
        raise UsageError(
            f"a pair is a user and an item, and there are {len(user_ids):,} users and "
            f"{len(item_ids):,} items. Pass as many of both.",
            code="bad_pairs",
        )
    queries = model.queries_of(user_ids, fallback=fallback)
    items_T = find(model.items, item_ids, "item", fallback)
    known_T = (queries.index_T >= 0) & (items_T >= 0)
    scores = np.full(len(queries), None, dtype=object)
    found_P = queries.model.score_pairs(queries.index_T[known_T], items_T[known_T])
    if not np.isfinite(found_P).all():
        raise not_finite("a score is not a finite number")
    scores[known_T] = found_P.astype(np.float64)
    columns = {
        **queries.columns,
        "item": labels(model.items, item_ids, items_T),
        "score": scores,
        "basis": np.where(known_T, "model", "unknown"),
    }
    shown_T = known_T if fallback == "skip" else np.ones_like(known_T)
    return table({name: values[shown_T] for name, values in columns.items()}, like=users)
