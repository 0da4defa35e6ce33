"""Explain the scores of items for one user, or for someone new with a history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sdgar.arguments import length
from sdgar.data.ids import Ids
from sdgar.errors import UsageError
from sdgar.ranking.topk import Finder
from sdgar.recommend.histories import rows_of
from sdgar.recommend.questions import Asked, Questions, Raw, several
from sdgar.recommend.ranking import ranked
from sdgar.recommend.reasons import Reasons, explained
from sdgar.recommend.unknown import index_of

One = str | int | Mapping[str, Any]
"""The id of one user, or a context of several fields."""


def explain(
    questions: Questions,
    ids: Ids,
    user: One | None,
    items: Raw | None,
    history: Iterable[Any] | None,
    k: int,
    reasons: int,
    index: Finder | None = None,
) -> Reasons:
    """Return the reasons for these items, or for the k best ones."""
    most, k = length("reasons", reasons), length("k", k)
    asked = _asked(questions, user, history)
    if items is None:
        best_K = ranked(asked, k, ids, index=index).items_TK[0]
        return explained(asked, best_K[best_K >= 0].astype(np.int64), most, ids)
    index_T = index_of(ids, several(items, "items"), "item", "error")
    each_once = list(dict.fromkeys(index_T.tolist()))
    return explained(asked, np.array(each_once, np.int64), most, ids)


def _asked(questions: Questions, user: One | None, history: Iterable[Any] | None) -> Asked:
    """Find the one who is asked about; an unknown one is refused."""
    if (user is None) == (history is None):
        raise UsageError("give a user or a history, and not both.", code="whom")
    if history is not None:
        new = rows_of({"new": several(history, "history")})
        return questions.about_histories(new, "error")
    asked = questions.about_users(user, "error")
    if len(asked) != 1:
        raise UsageError(f"explain answers for one user at a time, got {len(asked)}.", code="whom")
    if not asked.by_model_T.all():
        raise UsageError(
            f"the model has learned nothing of user {user!r}, so it has no reasons. Give the items "
            "that the user likes as a history.",
            code="no_reasons",
        )
    return asked
