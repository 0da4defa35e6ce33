"""The one way from queries in the indices of a model to ranked lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import Ids
from sdgar.errors import ResourceError
from sdgar.machine import cores
from sdgar.maths.rng import Stream, sort_keys
from sdgar.models.factors import Factors
from sdgar.models.model import Model
from sdgar.ranking.sweep import is_worth_it
from sdgar.ranking.topk import best_items
from sdgar.recommend.lists import Queries, RankedLists
from sdgar.recommend.reasons import first_reasons
from sdgar.recommend.rules import Facts, Reranking

if TYPE_CHECKING:
    from sdgar.ranking.topk import Finder

Part = tuple[int, int]
"""The number of a part, from 0, and the number of parts."""
Best = tuple[NDArray[np.int32], NDArray[np.float32]]
"""The indices of the best items of each query, -1 after the last, and their scores."""
PIECE = 1 << 17
"""The number of rows of a table that are made at once."""
_DEEPER = 8
"""The factor by which more candidates are ranked for a list that rules left short."""


@dataclass(frozen=True, eq=False)
class BlockedItems:
    """The items that may not be listed; compared by identity, so that it can be part of a key."""

    blocked_I: NDArray[np.bool_] | None = None
    """Whether each item is blocked; None if none is."""


@dataclass(frozen=True)
class ListOptions:
    """The options of ranked lists; queries with equal options can be answered together."""

    k: int
    """The number of items of a list."""
    exclude_seen: bool = True
    """Whether items that the user has are left out."""
    blocked: BlockedItems = BlockedItems()
    """The items that are left out for everyone."""
    reasons: int = 0
    """The number of reasons for each entry; lists themselves name the first reason at most."""
    reranking: Reranking | None = None
    """The rules and options that re-rank the lists, if there are any."""
    facts: Facts | None = None
    """The facts about items that rules need."""

    def depth(self, n_items: int) -> int:
        """Return the number of candidates that are ranked for a list."""
        return min(self.k if self.reranking is None else self.reranking.depth(self.k), n_items)


def rank(
    queries: Queries,
    options: ListOptions,
    ids: Ids,
    *,
    what: str = "item",
    unknown: str = "popular",
    popular: Factors | None = None,
    finder: Finder | None = None,
    why: bool = False,
) -> RankedLists:
    """Return the ranked list of each query: by the model, by popularity, or empty.

    ``unknown`` is the basis of lists that are not by the model. With ``why`` each entry has the
    item of the history that contributes most to it. Rules act on exact lists, without a ``finder``.
    """
    n, blocked_I, notes = min(options.k, len(ids)), options.blocked.blocked_I, None
    if options.reranking is None:
        items_TK, scores_TK = _best(queries, n, blocked_I, popular, finder)
    else:
        (items_TK, scores_TK), notes = _reranked(queries, options, len(ids), popular)
    by_model_T = queries.by_model_T
    all_by_model = by_model_T.all()  # the usual case, which needs no comparison of texts
    basis_T = (
        np.full(len(queries), "model") if all_by_model else np.where(by_model_T, "model", unknown)
    )
    why_TK = first_reasons(queries, items_TK) if why else None
    return RankedLists(
        queries.columns, items_TK, scores_TK, basis_T, options.k, ids, what, why_TK, notes
    )


def rank_in_pieces(
    queries: Queries, options: ListOptions, ids: Ids, rows: int | None, part: Part, **how: Any
) -> Iterator[RankedLists]:
    """Yield the lists of ``rank`` in pieces of about ``rows`` candidates; None is one piece."""
    for piece in pieces_of(len(queries), rows, options.depth(len(ids)), part):
        yield rank(queries.rows(piece), options, ids, **how)


def pieces_of(count: int, rows: int | None, each: int, part: Part) -> Iterator[slice]:
    """Yield the pieces of one part of so many lists, each with about ``rows`` entries; None is all.

    The pieces do not depend on the number of parts. A part has at least one piece, which may be
    empty.
    """
    step = max(1, count if rows is None else rows // each)
    total, (number, of) = -(-count // step), part
    first, last = total * number // of, total * (number + 1) // of
    for piece in range(first, max(last, first + 1)):
        yield slice(piece * step, (piece + 1) * step if piece < last else piece * step)


def _best(
    queries: Queries,
    n: int,
    blocked_I: NDArray[np.bool_] | None,
    popular: Factors | None,
    finder: Finder | None,
) -> Best:
    """Return the n best items of each query, before any rules."""
    by_model_T, model, index_T = queries.by_model_T, queries.model, queries.index_T
    if by_model_T.all():  # the usual case, without copies
        top = best_items(finder, model, index_T, n, seen=queries.seen, blocked_I=blocked_I)
        return top.items_TK, top.scores_TK
    items_TK, scores_TK = _empty(len(queries), n)

    def fill(rows_T: NDArray[np.bool_], scorer: Model, users_T: Any, seen: Any) -> None:
        if rows_T.any():
            top = best_items(finder, scorer, users_T, n, seen=seen, blocked_I=blocked_I)
            items_TK[rows_T], scores_TK[rows_T] = top.items_TK, top.scores_TK

    fill(by_model_T, model, index_T[by_model_T], queries.seen)
    if popular is not None:
        known_T = index_T >= 0
        fill(~known_T, popular, np.zeros(1, np.int64), None)  # one list for all of them
        untrained_T = known_T & ~by_model_T
        fill(untrained_T, popular, index_T[untrained_T], queries.seen)
    return items_TK, scores_TK


def _empty(n_lists: int, n: int) -> Best:
    return np.full((n_lists, n), -1, np.int32), np.full((n_lists, n), -np.inf, np.float32)


def _reranked(
    queries: Queries, options: ListOptions, n_items: int, popular: Factors | None
) -> tuple[Best, tuple[tuple[tuple[str, ...], ...], ...]]:
    """Return lists of at most k items after the rules, and the notes of the rules on each entry.

    A list that comes out short is ranked again, with more candidates.
    """
    reranking, facts, blocked_I = options.reranking, options.facts, options.blocked.blocked_I
    assert reranking is not None
    assert facts is not None
    by_rules_I = reranking.blocked(facts)
    if by_rules_I is not None:
        blocked_I = by_rules_I if blocked_I is None else blocked_I | by_rules_I
    items_TK, scores_TK = _empty(len(queries), min(options.k, n_items))
    notes: list[tuple[tuple[str, ...], ...]] = [()] * len(queries)
    pins_P, seed = reranking.pinned(facts), reranking.own_seed()
    waiting_T, depth = np.arange(len(queries)), options.depth(n_items)
    while len(waiting_T):
        part = queries.rows(waiting_T)
        candidates_TN, candidate_scores_TN = _best(part, depth, blocked_I, popular, None)
        pin_scores_TP = _pin_scores(part, pins_P, blocked_I, popular)
        seeds_T = None
        if seed is not None:  # one for each query, so that not all users explore the same items
            seeds_T = sort_keys(seed, Stream.EXPLORE, 1, part.index_T.clip(min=0)).tolist()
        short: list[int] = []
        for t, at in enumerate(waiting_T.tolist()):
            index, there_N = int(part.index_T[t]), candidates_TN[t] >= 0
            entries = reranking.apply(
                candidates_TN[t, there_N].astype(np.int64),
                candidate_scores_TN[t, there_N].astype(np.float64),
                items_TK.shape[1],
                facts,
                pin_scores=dict(zip(pins_P.tolist(), pin_scores_TP[t].tolist(), strict=True)),
                seed=None if seeds_T is None else seeds_T[t],
                history_H=part.own.of(index).astype(np.int64) if index >= 0 else None,
            )
            full = len(entries)
            items_TK[at], scores_TK[at] = -1, -np.inf
            items_TK[at, :full] = [item for item, _, _ in entries]
            scores_TK[at, :full] = [score for _, score, _ in entries]
            notes[at] = tuple(own for _, _, own in entries)
            if full < items_TK.shape[1] and there_N[-1]:
                short.append(at)
        waiting_T = np.array(short if depth < n_items else [], np.int64)
        depth = min(depth * _DEEPER, n_items)
    return (items_TK, scores_TK), tuple(notes)


def _pin_scores(
    queries: Queries,
    pins_P: NDArray[np.int64],
    blocked_I: NDArray[np.bool_] | None,
    popular: Factors | None,
) -> NDArray[np.float64]:
    """s_TP of the pinned items; -inf for items that a list may not have."""
    scores_TP = np.full((len(queries), len(pins_P)), -np.inf)
    if not len(pins_P):
        return scores_TP
    by_model_T = queries.by_model_T
    users_P = np.repeat(queries.index_T[by_model_T], len(pins_P))
    if len(users_P):
        items_P = np.tile(pins_P, int(by_model_T.sum()))
        own_P = queries.model.score_pairs(users_P, items_P).astype(np.float64)
        scores_TP[by_model_T] = own_P.reshape(-1, len(pins_P))
    if popular is not None:
        scores_TP[~by_model_T] = popular.bias_I[pins_P]
    if blocked_I is not None:
        scores_TP[:, blocked_I[pins_P]] = -np.inf
    if queries.seen is not None:
        for t in np.flatnonzero(queries.index_T >= 0).tolist():
            seen_H = queries.seen.of(int(queries.index_T[t]))
            scores_TP[t, np.isin(pins_P, seen_H)] = -np.inf
    return scores_TP


def require_ram(ram: int, users: Ids, items: Ids, n_users: int, k: int) -> None:
    """Raise if the lists of some users take more bytes of RAM than may be used.

    Mapped files of the model are not counted, as the system can drop them from RAM.
    """
    needed = 400 << 20  # the interpreter and the libraries
    needed += sum(len(ids) * (160 if ids.kind == "text" else 16) for ids in (users, items))
    needed += 100 * min(n_users, len(users))
    needed += 1_000 * min(PIECE, n_users * min(k, len(items)))  # a row as values and in two tables
    if is_worth_it(n_users, len(items)):  # a table of small integers, and item memory by thread
        needed += (150 + 4 * cores.threads()) * len(items)
    else:
        needed += cores.threads() << 27  # blocks of scores
    if needed > ram:
        raise ResourceError(
            f"the lists of {n_users:,} users take about {needed / 2**20:,.0f} MiB of memory, and "
            f"--ram allows {ram / 2**20:,.0f}. Allow more, or set OMP_NUM_THREADS to fewer "
            "threads.",
            code="out_of_memory",
        )
