"""The lists of a model after the rules of the house have acted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.maths.rng import Stream, sort_keys
from sdgar.models.factors import Factors
from sdgar.models.model import Model
from sdgar.recommend.lists import Lists
from sdgar.recommend.questions import Asked
from sdgar.recommend.ranking import Part, pieces_of, ranked
from sdgar.recommend.reasons import first_reasons
from sdgar.recommend.rules import Facts, Reranking
from sdgar.recommend.unknown import warn

_DEEPER = 8
"""How many times more candidates are ranked for a list that came out short."""


def facts_of(reranking: Reranking, model: Model, history: History, ids: Ids) -> Facts:
    """Return what is known of the items of a model; what was made last for it is kept."""
    if reranking.made and reranking.made[0][0] is model:
        return reranking.made[0][1]
    facts = Facts.of(
        reranking.table,
        ids,
        n_items=model.n_items,
        popularity_I=np.bincount(history.items_E, minlength=model.n_items),
        item_ID=model.item_vectors(),
    )
    for complaint in reranking.rules.complaints(facts):
        warn(complaint[0].upper() + complaint[1:])
    reranking.made[:] = [(model, facts)]
    return facts


def reranked_in_pieces(
    asked: Asked,
    k: int,
    ids: Ids,
    rows: int | None,
    reranking: Reranking,
    facts: Facts,
    *,
    blocked_I: NDArray[np.bool_] | None,
    popular: Factors | None,
    why: bool,
    part: Part = (0, 1),
) -> Iterator[Lists]:
    """Rank and re-rank one piece after the other, each with about ``rows`` candidates."""
    depth = min(reranking.rules.depth(k, reranking.options), len(ids))
    own_I = reranking.rules.blocked(facts, reranking.options)
    if own_I is not None:
        blocked_I = own_I if blocked_I is None else blocked_I | own_I
    pieces = _Pieces(k, ids, reranking, facts, blocked_I, popular)
    for piece in pieces_of(len(asked), rows, depth, part):
        yield pieces.lists(asked.rows(piece), depth, why=why)


class _Pieces:
    """Re-ranks the lists of those who are asked about together."""

    def __init__(
        self,
        k: int,
        ids: Ids,
        reranking: Reranking,
        facts: Facts,
        blocked_I: NDArray[np.bool_] | None,
        popular: Factors | None,
    ) -> None:
        self._k, self._ids, self._facts = k, ids, facts
        self._reranking, self._blocked_I, self._popular = reranking, blocked_I, popular

    def lists(self, asked: Asked, depth: int, *, why: bool) -> Lists:
        """Return the lists of at most k entries, with notes of the rules."""
        n = min(self._k, len(self._ids))
        items_TK = np.full((len(asked), n), -1, np.int32)
        scores_TK = np.full((len(asked), n), -np.inf, np.float32)
        notes: list[tuple[tuple[str, ...], ...]] = [()] * len(asked)
        self._fill(asked, np.arange(len(asked)), depth, items_TK, scores_TK, notes)
        basis_T = np.where(asked.by_model_T, "model", "popular")
        why_TK = first_reasons(asked, items_TK) if why else None
        return Lists(
            asked.columns, items_TK, scores_TK, basis_T, self._k, self._ids, why_TK=why_TK,
            notes=tuple(notes),
        )  # fmt: skip

    def _fill(
        self,
        asked: Asked,
        at_T: NDArray[np.int64],
        depth: int,
        items_TK: NDArray[np.int32],
        scores_TK: NDArray[np.float32],
        notes: list[Any],
    ) -> None:
        """Fill in the lists at some places; what comes out short is ranked deeper."""
        part = asked.rows(at_T)
        found = ranked(part, depth, self._ids, blocked_I=self._blocked_I, popular=self._popular)
        pins_P = self._reranking.rules.pinned(self._facts)
        pin_scores_TP = self._pin_scores(part, pins_P)
        seeds_T = self._seeds(part)
        short: list[int] = []
        for t, to in enumerate(at_T.tolist()):
            index = int(part.index_T[t])
            one = self._reranking.rules.apply(
                found.items_TK[t],
                found.scores_TK[t],
                items_TK.shape[1],
                self._facts,
                self._reranking.options,
                score_of=partial(_looked_up, pins_P, pin_scores_TP[t]),
                seed=None if seeds_T is None else int(seeds_T[t]),
                history_H=part.own.of(index) if index >= 0 else None,
            )
            full = len(one.items_K)
            items_TK[to], scores_TK[to] = -1, -np.inf
            items_TK[to, :full], scores_TK[to, :full] = one.items_K, one.scores_K
            notes[to] = one.notes
            if full < items_TK.shape[1] and found.items_TK[t, -1] >= 0:
                short.append(to)
        if short and depth < len(self._ids):
            deeper = min(depth * _DEEPER, len(self._ids))
            self._fill(asked, np.array(short), deeper, items_TK, scores_TK, notes)

    def _seeds(self, part: Asked) -> NDArray[np.int64] | None:
        """Return a seed for each user, so that not all of them explore the same items."""
        seed = self._reranking.rules.seed if self._reranking.seed is None else self._reranking.seed
        if seed is None:
            return None
        keys_T: NDArray[np.int64] = sort_keys(seed, Stream.EXPLORE, 1, part.index_T.clip(min=0))
        return keys_T

    def _pin_scores(self, part: Asked, pins_P: NDArray[np.int64]) -> NDArray[np.float64]:
        """s_TP of the pinned items; -inf for those that a list may not have."""
        scores_TP = np.full((len(part), len(pins_P)), -np.inf)
        if not len(pins_P):
            return scores_TP
        by_model_T = part.by_model_T
        users_P = np.repeat(part.index_T[by_model_T], len(pins_P))
        items_P = np.tile(pins_P, int(by_model_T.sum()))
        if len(users_P):
            own_P = part.model.score_pairs(users_P, items_P).astype(np.float64)
            scores_TP[by_model_T] = own_P.reshape(-1, len(pins_P))
        if self._popular is not None:
            scores_TP[~by_model_T] = self._popular.bias_I[pins_P]
        if self._blocked_I is not None:
            scores_TP[:, self._blocked_I[pins_P]] = -np.inf
        for t in np.flatnonzero(part.index_T >= 0).tolist():
            scores_TP[t, np.isin(pins_P, part.seen.of(int(part.index_T[t])))] = -np.inf
        return scores_TP


def _looked_up(
    pins_P: NDArray[np.int64], scores_P: NDArray[np.float64], items_B: NDArray[np.int64]
) -> NDArray[np.float64]:
    """s_B of pinned items, whose numbers ascend."""
    return scores_P[np.searchsorted(pins_P, items_B)]
