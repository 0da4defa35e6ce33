"""Vectors of items that have no events, from their features.

A ridge regression predicts vectors and biases from features; it is trained on items with events.
Its parameters are chosen on items that play cold: a fifth of the trained items, whose vectors are
predicted by a regression on the others.

    λ   the strength of the regression, by the squared error of vectors, and of biases
    κ   the number of events that a prediction is worth, next to a vector by n events:
        v = (n v_own + κ v_predicted) / (n + κ)
    δ   the number by which the bias of cold items is lowered

δ decides how often cold items are listed. Some users are folded in without a fifth of their rows,
which are then to be found. The bias of items that play cold is lowered by the δ for which the
NDCG@20 of all these rows is best, among the values with which the rows of the other items keep
99.5 % of the NDCG@20 that they have without any cold item.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from sdgar.data.features import Features
from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.errors import DataError
from sdgar.maths.rng import Stream, sort_keys
from sdgar.models.factors import Factors
from sdgar.models.fold_in import NewContexts, VectorRule
from sdgar.models.model import Floats as Floats32
from sdgar.models.model import Indices, Model

Floats = NDArray[np.float64]
LEAST = 20
"""The fewest trained items with features for a regression."""
_STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
"""The values of λ that are tried."""
_SURE = 10.0
"""An item with n events counts n / (n + 10), as vectors by more events are more exact."""
_MOST_FEATURES = 4096
"""The most features of a regression: the most common ones of the trained items."""
_PLAY_COLD = 5
"""One of so many trained items plays cold."""
_EVENTS = 5
"""The number of events by which κ is chosen."""
_USERS, _SCORES = 1000, 1 << 25
"""The most users and scores by which δ is chosen."""
_ROWS = 5
"""The fewest rows of a user by which δ is chosen; one of so many rows is to be found."""
_STEPS = (-4.0, -3.0, -2.0, -1.5, -1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0,
          3.0, 4.0)  # fmt: skip
"""The values of δ that are tried, in units of the deviation of a user's scores."""
_AT_ONCE = 1 << 23
"""The most scores that are compared at once."""
_KEPT = 0.995
_K = 20


def predicted(
    model: Model, history: History, items: Ids, trained_I: NDArray[np.bool_], features: Features
) -> tuple[Floats, Floats, dict[str, Any]]:
    """Return vectors and biases, lowered by δ, of all items that are not trained.

    The chosen parameters are the last value: ``l2`` of vectors and of biases, ``kappa`` and
    ``offset``. ``history`` has the trained items of each context of the model.
    """
    factors = model.factors()
    assert factors is not None
    n_I = np.bincount(history.items_E, minlength=len(items)).astype(np.float64)
    learned_R = np.flatnonzero(trained_I & (features.ids.index_of(items.values) >= 0))
    require_enough(len(learned_R), items, features)
    x_IF = features.matrix(items.values)
    common_F = np.bincount(x_IF[learned_R].indices, minlength=features.n_features)
    most_F = np.argsort(-common_F, kind="stable")[:_MOST_FEATURES]
    x_IF = x_IF[:, np.sort(most_F[common_F[most_F] > 1])]
    if not x_IF.shape[1]:
        raise DataError(
            "no two trained items have a feature in common, so that features predict nothing. "
            f"Features are such as {', '.join(features.names[:3])}. Use columns that items share, "
            "and read titles and the like as texts (--feature-kinds title=text).",
            code="few_features",
        )
    y_IT = np.column_stack([t.astype(np.float64) for t in (factors.item_ID, factors.bias_I)])
    weight_I = n_I / (n_I + _SURE)
    order_R = np.argsort(sort_keys(0, Stream.CALIBRATE, 0, learned_R), kind="stable")
    n_play = len(learned_R) // _PLAY_COLD
    at_H, at_R = np.sort(learned_R[order_R[:n_play]]), np.sort(learned_R[order_R[n_play:]])

    tried = ridges(x_IF[at_R], y_IT[at_R], weight_I[at_R], _STRENGTHS)
    guess = [one(x_IF[at_H]) for one in tried]
    wrong = [np.square(y_HT - y_IT[at_H]) * weight_I[at_H, None] for y_HT in guess]
    of_v = int(np.argmin([one[:, :-1].sum() for one in wrong]))
    of_b = int(np.argmin([one[:, -1].sum() for one in wrong]))
    y_HT = np.column_stack((guess[of_v][:, :-1], guess[of_b][:, -1]))
    strengths = _STRENGTHS[of_v], _STRENGTHS[of_b]
    by_v, by_b = ridges(x_IF[learned_R], y_IT[learned_R], weight_I[learned_R], strengths)
    cold_N = np.flatnonzero(~trained_I)
    some_H = np.unique(np.linspace(0, n_play - 1, min(n_play, len(cold_N))).astype(np.int64))
    offset = offset_of(model, history, trained_I, at_H[some_H], y_HT[some_H])
    about = {
        "learned_from": len(learned_R),
        "features": x_IF.shape[1],
        "l2": list(strengths),
        "kappa": _worth(factors, history, at_H, y_HT, y_IT),
        "offset": offset,
    }
    return by_v(x_IF[cold_N])[:, :-1], by_b(x_IF[cold_N])[:, -1] - offset, about


def ridges(
    x_RF: Any, y_RT: Floats, weight_R: Floats, l2s: Sequence[float]
) -> list[Callable[[Any], Floats]]:
    """Return for each λ the function from sparse rows x to y = a + x B.

    Σ_r w_r ‖y_r - a - x_r B‖² + λ ‖B‖²   is least for
    B = (X̄' W X̄ + λ I)^-1 X̄' W Ȳ,   a = y̅ - x̅ B,   with X̄ and Ȳ less their weighted means
    """
    from scipy.linalg import cho_factor, cho_solve

    total = weight_R.sum()
    x_F, y_T = (weight_R @ x_RF) / total, (weight_R @ y_RT) / total
    weighted_FR = (x_RF * weight_R[:, None]).T
    left_FF = (weighted_FR @ x_RF).toarray() - total * np.outer(x_F, x_F)
    right_FT = weighted_FR @ (y_RT - y_T)

    def solved(l2: float) -> Callable[[Any], Floats]:
        system_FF = left_FF + l2 * np.eye(len(left_FF))
        slope_FT = cho_solve(cho_factor(system_FF, lower=True), right_FT)
        return lambda rows_RF: rows_RF @ slope_FT + (y_T - x_F @ slope_FT)

    return [solved(l2) for l2 in l2s]


def require_enough(learned: int, items: Ids, features: Features) -> None:
    """Raise if too few trained items have features."""
    if learned < LEAST:
        raise DataError(
            f"{learned} items of the model have features, and at least {LEAST} are needed. Items "
            f"of the model are such as {items.values[:3].tolist()!r}, items with features such as "
            f"{features.ids.values[:3].tolist()!r}. Put known items into the table of new ones.",
            code="no_common_ids" if not learned else "few_features",
        )


def _worth(factors: Factors, history: History, at_H: Indices, y_HT: Floats, y_IT: Floats) -> float:
    """κ by least squares: the share of a vector by n events in the true one is n / (n + κ)."""
    rule = cast("VectorRule", factors.rule)
    wanted_E = np.flatnonzero(np.isin(history.items_E, at_H))
    key_E = sort_keys(0, Stream.CALIBRATE, 1, wanted_E)
    item_E, user_E = history.items_E[wanted_E], history.users_E[wanted_E]
    order_E = np.lexsort((key_E, item_E))
    item_E, user_E = item_E[order_E], user_E[order_E]
    start_E = np.searchsorted(item_E, item_E)
    n_E = np.bincount(item_E, minlength=len(y_IT))[item_E]
    few_E = (np.arange(len(item_E)) - start_E < _EVENTS) & (n_E > _EVENTS)
    at_N = np.unique(item_E[few_E])
    if not len(at_N):
        return float(_EVENTS)
    indptr_N1 = np.arange(0, _EVENTS * len(at_N) + 1, _EVENTS)
    known = History(indptr_N1, user_E[few_E].astype(np.int32))
    own_ND = rule.items(factors, known, np.diff(history.indptr_U1))[0].astype(np.float64)
    true_ND, guess_ND = y_IT[at_N, :-1], y_HT[np.searchsorted(at_H, at_N), :-1]
    way_ND = own_ND - guess_ND
    share = ((true_ND - guess_ND) * way_ND).sum() / max(np.square(way_ND).sum(), 1e-30)
    share = min(max(share, 0.01), 0.99)
    return float(_EVENTS * (1 - share) / share)


def offset_of(
    model: Model,
    history: History,
    trained_I: NDArray[np.bool_],
    at_H: NDArray[np.int64],
    y_HT: Floats,
) -> float:
    """Return δ, by trained items that play cold and have predicted vectors and biases."""
    rows = _Rows.of(history, at_H, most=max(1, min(_USERS, _SCORES // model.n_items)))
    if rows is None or not len(at_H):
        return 0.0
    folded = model.fold_in(NewContexts(rows.kept))
    factors = folded.factors()
    assert factors is not None
    scores_TI = folded.score_all(np.arange(rows.kept.n_users))
    spread = float(scores_TI[:, trained_I].std(axis=1, ddof=1).mean())
    out_I = ~trained_I
    out_I[at_H] = True
    scores_TI[:, out_I] = -np.inf
    scores_TI[rows.kept.users_E, rows.kept.items_E] = -np.inf
    guess_HT = y_HT.astype(np.float32)
    cold_TH = factors.user_UD @ guess_HT[:, :-1].T + guess_HT[:, -1]
    warm_E, cold_E = rows.warm, rows.cold
    own_E, own_cold_E = scores_TI[warm_E], cold_TH[cold_E]
    ahead_E = _ahead(scores_TI, warm_E[0], own_E)
    ahead_cold_E = _ahead(cold_TH, cold_E[0], own_cold_E)
    without = _ndcg(warm_E[0], ahead_E, rows.kept.n_users)
    best, chosen = -1.0, _STEPS[-1]
    for step in _STEPS:
        delta = step * spread
        of_warm_E = ahead_E + _ahead(cold_TH - delta, warm_E[0], own_E)
        if _ndcg(warm_E[0], of_warm_E, rows.kept.n_users) < _KEPT * without:
            continue
        of_cold_E = ahead_cold_E + _ahead(scores_TI, cold_E[0], own_cold_E - delta)
        both = np.append(warm_E[0], cold_E[0]), np.append(of_warm_E, of_cold_E)
        found = _ndcg(*both, rows.kept.n_users)
        if found > best:
            best, chosen = found, step
    return chosen * spread


class _Rows(NamedTuple):
    """The rows of some users: known rows, and rows to be found of warm and of cold items."""

    kept: History
    warm: tuple[Indices, Indices]
    cold: tuple[Indices, Indices]

    @classmethod
    def of(cls, history: History, at_H: NDArray[np.int64], *, most: int) -> _Rows | None:
        """Choose users at random, and the rows to be found; None if nobody has enough rows."""
        can_be = np.flatnonzero(np.diff(history.indptr_U1) >= _ROWS)
        order = np.argsort(sort_keys(0, Stream.CALIBRATE, 2, can_be), kind="stable")
        some = history.rows(np.sort(can_be[order[:most]]))
        if not some.n_users:
            return None
        row_E, item_E = some.users_E, some.items_E.astype(np.int64)
        place_E = np.searchsorted(at_H, item_E).clip(max=max(len(at_H) - 1, 0))
        cold_E = at_H[place_E] == item_E if len(at_H) else np.zeros(len(item_E), bool)
        found_E = sort_keys(0, Stream.CALIBRATE, 3, np.arange(len(row_E))) % _ROWS == 0
        kept_E, warm_E = ~found_E & ~cold_E, found_E & ~cold_E
        # A user without any known row has no vector, and is left out.
        able_E = np.bincount(row_E[kept_E], minlength=some.n_users)[row_E] > 0
        users_T, row_E = np.unique(row_E[able_E], return_inverse=True)
        kept_E, warm_E, cold_E, item_E, place_E, found_E = (
            one[able_E] for one in (kept_E, warm_E, cold_E, item_E, place_E, found_E)
        )
        if not warm_E.any():
            return None
        cold_E &= found_E

        return cls(
            History.of_pairs(row_E[kept_E], item_E[kept_E], len(users_T)),
            (row_E[warm_E], item_E[warm_E]),
            (row_E[cold_E], place_E[cold_E]),
        )


def _ahead(scores_TN: Floats32, row_E: Indices, own_E: Floats32) -> Indices:
    """Count the scores of a row that are above a score."""
    at_once = max(1, _AT_ONCE // max(1, scores_TN.shape[1]))
    ahead_E = np.empty(len(row_E), np.int64)
    for first in range(0, len(row_E), at_once):
        part = slice(first, first + at_once)
        ahead_E[part] = (scores_TN[row_E[part]] > own_E[part, None]).sum(axis=1)
    return ahead_E


def _ndcg(row_E: Indices, ahead_E: Indices, n_users: int) -> float:
    """Return the mean NDCG@20 over users, of rows with so many items ahead of theirs."""
    gain_E = np.where(ahead_E < _K, 1 / np.log2(ahead_E + 2.0), 0.0)
    n_T = np.bincount(row_E, minlength=n_users)
    gain_T = np.bincount(row_E, gain_E, n_users)
    ideal_K = np.cumsum(1 / np.log2(np.arange(2.0, _K + 2)))
    return float((gain_T / ideal_K[n_T.clip(1, _K) - 1])[n_T > 0].mean())
