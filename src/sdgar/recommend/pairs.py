"""Pairs of a user and an item, as they are asked about, and their scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import Ids, plain
from sdgar.errors import NumericalError, UsageError
from sdgar.models.model import Model
from sdgar.recommend.lists import table
from sdgar.recommend.questions import Questions, Raw, labels, several
from sdgar.recommend.unknown import index_of


def pairs_table(questions: Questions, ids: Ids, users: Raw, items: Raw, fallback: str) -> Any:
    """Return a frame with the score of each user for the item beside it."""
    whom, what = _paired(several(users, "users"), several(items, "items"), users, items)
    asked = questions.about_users(whom, fallback)
    items_T = index_of(ids, what, "item", fallback)
    known_T = (asked.index_T >= 0) & (items_T >= 0)
    scores = np.full(len(asked), None, dtype=object)
    scores[known_T] = _scores(asked.model, asked.index_T[known_T], items_T[known_T])
    columns = {
        **asked.columns,
        "item": labels(ids, what, items_T),
        "score": scores,
        "basis": np.where(known_T, "model", "unknown"),
    }
    shown_T = known_T if fallback == "skip" else np.ones_like(known_T)
    return table({name: values[shown_T] for name, values in columns.items()}, like=users)


def _paired(
    users: list[Any], items: list[Any], raw_users: Any, raw_items: Any
) -> tuple[list[Any], list[Any]]:
    """Return as many users as items; a single id stands beside all of the other side."""
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


def _scores(
    model: Model, users_P: NDArray[np.int64], items_P: NDArray[np.int64]
) -> NDArray[np.float64]:
    """s_P of each user for the item beside it, all of which the model knows."""
    found_P = model.score_pairs(users_P, items_P).astype(np.float64)
    if not np.isfinite(found_P).all():
        raise NumericalError(
            "a score is not a finite number. The model has diverged or its file is damaged: train "
            "again with a smaller learning rate, or load an earlier checkpoint.",
            code="non_finite_scores",
        )
    return found_P
