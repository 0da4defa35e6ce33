"""The lists of those who are asked about, ranked by a model or by popularity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import Ids
from sdgar.models.factors import Factors
from sdgar.models.model import Model
from sdgar.ranking.topk import Finder, best_items
from sdgar.recommend.lists import Lists
from sdgar.recommend.questions import Asked
from sdgar.recommend.reasons import first_reasons

Part = tuple[int, int]
"""The number of a part, from 0, and how many there are."""


def ranked(
    asked: Asked,
    k: int,
    ids: Ids,
    *,
    what: str = "item",
    unknown: str = "popular",
    blocked_I: NDArray[np.bool_] | None = None,
    popular: Factors | None = None,
    why: bool = False,
    index: Finder | None = None,
) -> Lists:
    """Rank by the model those that it knows; others get the most popular items, or nothing.

    ``unknown`` is the basis of the lists that the model does not rank; with ``why`` each entry
    has the item of the history that speaks most for it. An ``index`` finds the items of the model
    that it serves.
    """
    n = min(k, len(ids))
    by_model_T = asked.by_model_T
    if by_model_T.all():  # the usual case, without copies
        top = best_items(index, asked.model, asked.index_T, n, seen=asked.seen, blocked_I=blocked_I)
        items_TK, scores_TK = top.items_TK, top.scores_TK
        basis_T = np.full(len(asked), "model")
    else:
        items_TK = np.full((len(asked), n), -1, np.int32)
        scores_TK = np.full((len(asked), n), -np.inf, np.float32)
        basis_T = np.where(by_model_T, "model", unknown)

        def rank(rows_T: NDArray[np.bool_], scorer: Model, users_T: Any, seen: Any) -> None:
            if rows_T.any():
                part = best_items(index, scorer, users_T, n, seen=seen, blocked_I=blocked_I)
                items_TK[rows_T], scores_TK[rows_T] = part.items_TK, part.scores_TK

        rank(by_model_T, asked.model, asked.index_T[by_model_T], asked.seen)
        if popular is not None:
            known_T = asked.index_T >= 0
            rank(~known_T, popular, np.zeros(1, np.int64), None)  # one list for all of them
            untrained_T = known_T & ~by_model_T
            rank(untrained_T, popular, asked.index_T[untrained_T], asked.seen)
    why_TK = first_reasons(asked, items_TK) if why else None
    return Lists(asked.columns, items_TK, scores_TK, basis_T, k, ids, what, why_TK)


def pieces_of(count: int, rows: int | None, each: int, part: Part) -> Iterator[slice]:
    """Give the pieces of one part of so many lists, each with about ``rows`` entries; None is all.

    Where pieces begin does not depend on how many parts there are. A part has at least one piece,
    which may be empty.
    """
    step = max(1, count if rows is None else rows // each)
    total, (number, of) = -(-count // step), part
    first, last = total * number // of, total * (number + 1) // of
    for piece in range(first, max(last, first + 1)):
        yield slice(piece * step, (piece + 1) * step if piece < last else piece * step)


def ranked_in_pieces(
    asked: Asked,
    k: int,
    ids: Ids,
    rows: int | None,
    *,
    blocked_I: NDArray[np.bool_] | None,
    popular: Factors | None,
    why: bool,
    index: Finder | None,
    part: Part = (0, 1),
) -> Iterator[Lists]:
    """Rank one piece after the other, each with about ``rows`` entries; None means all at once."""
    for piece in pieces_of(len(asked), rows, min(k, len(ids)), part):
        lists = asked.rows(piece)
        yield ranked(lists, k, ids, blocked_I=blocked_I, popular=popular, why=why, index=index)
