"""Vectors of items that have no events, from their features.

A ridge regression learns vectors and biases from the features of items that were trained. Nobody
has had to do with a cold item yet, so what is not known of it is found on items that play cold: a
fifth of the trained ones, whose vectors are predicted by a regression on the others.

    λ   the strength of the regression, by the squared error of their vectors, and of their biases
    κ   how many events a prediction is worth, where n events give a vector of their own:
        v = (n v_own + κ v_predicted) / (n + κ)
    δ   what the bias of a cold item is lowered by, so that other items lose nothing;
        see ``exposure.py``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.features import Features
from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.errors import DataError
from sdgar.maths.ridge import Floats, ridges
from sdgar.maths.rng import Stream, sort_keys
from sdgar.models.factors import Factors
from sdgar.models.fold_in import VectorRule
from sdgar.models.model import Model
from sdgar.recommend.exposure import offset_of

LEAST = 20
"""The fewest trained items with features that a regression is learned from."""
_STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
"""The values of λ that are tried."""
_SURE = 10.0
"""An item with n events counts n / (n + 10): its vector is known the better, the more it has."""
_MOST_FEATURES = 4096
"""The most features that a regression looks at: those that the most trained items have."""
_PLAY_COLD = 5
"""One of so many trained items plays cold."""
_EVENTS = 5
"""The number of events by which κ is chosen."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """What features say of items without events."""

    v_ND: Floats
    """The predicted vectors."""
    b_N: Floats
    """The predicted biases, lowered by δ."""
    about: dict[str, Any]
    """What was chosen: ``l2`` of vectors and of biases, ``kappa`` and ``offset``."""


@dataclass(frozen=True, slots=True)
class _Play:
    """Trained items that play cold, and what is predicted of them."""

    at_H: NDArray[np.int64]
    """Their numbers."""
    y_HT: Floats
    """Their predicted vectors, and biases in the last column."""


def predicted(
    model: Model, history: History, items: Ids, trained_I: NDArray[np.bool_], features: Features
) -> Predicted:
    """Predict the vectors of all items that are not trained; all that is chosen is chosen here.

    ``history`` is that of the contexts of the model, who have trained items alone.
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
            "no two trained items have a feature in common, so that features say nothing of new "
            f"ones. Features are such as {', '.join(features.names[:3])}. Give columns that items "
            "share, and let titles and the like be texts (--feature-kinds title=text).",
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
    play = _Play(at_H, np.column_stack((guess[of_v][:, :-1], guess[of_b][:, -1])))
    strengths = _STRENGTHS[of_v], _STRENGTHS[of_b]
    by_v, by_b = ridges(x_IF[learned_R], y_IT[learned_R], weight_I[learned_R], strengths)
    cold_N = np.flatnonzero(~trained_I)
    some_H = np.unique(np.linspace(0, n_play - 1, min(n_play, len(cold_N))).astype(np.int64))
    offset = offset_of(model, history, trained_I, at_H[some_H], play.y_HT[some_H])
    return Predicted(
        by_v(x_IF[cold_N])[:, :-1],
        by_b(x_IF[cold_N])[:, -1] - offset,
        {
            "learned_from": len(learned_R),
            "features": x_IF.shape[1],
            "l2": list(strengths),
            "kappa": _worth(factors, history, play, y_IT),
            "offset": offset,
        },
    )


def require_enough(learned: int, items: Ids, features: Features) -> None:
    """Raise if so few trained items have features that nothing can be learned from them."""
    if learned >= LEAST:
        return
    raise DataError(
        f"the features are those of {learned} items that the model was trained with, and "
        f"{LEAST} are the fewest to learn from. Items of the model are such as "
        f"{items.values[:3].tolist()!r}, of the features {features.ids.values[:3].tolist()!r}. "
        "Give the features of known items too, in one table with those of new ones.",
        code="no_common_ids" if not learned else "few_features",
    )


def _worth(factors: Factors, history: History, play: _Play, y_IT: Floats) -> float:
    """κ: least squares say which share w = n / (n + κ) a vector of n events has in the true one."""
    rule = factors.rule
    assert isinstance(rule, VectorRule)
    wanted_E = np.flatnonzero(np.isin(history.items_E, play.at_H))
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
    true_ND, guess_ND = y_IT[at_N, :-1], play.y_HT[np.searchsorted(play.at_H, at_N), :-1]
    way_ND = own_ND - guess_ND
    share = ((true_ND - guess_ND) * way_ND).sum() / max(np.square(way_ND).sum(), 1e-30)
    share = min(max(share, 0.01), 0.99)
    return float(_EVENTS * (1 - share) / share)
