"""How much room cold items get in lists: as much as does good, and no more than others can spare.

Some trained items play cold: they have predicted vectors and biases, and no part in histories. Some
users are folded in without a fifth of their rows, which are then to be found. The bias of cold
items is lowered by the δ for which the NDCG@20 of all these rows is best, among those with which
the rows of the other items keep 99.5 % of the NDCG@20 that they have without any cold item.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.maths.ridge import Floats
from sdgar.maths.rng import Stream, sort_keys
from sdgar.models.fold_in import NewContexts
from sdgar.models.model import Floats as Floats32
from sdgar.models.model import Indices, Model

_USERS, _SCORES = 1000, 1 << 25
"""The most users, and the most scores, that are looked at."""
_ROWS = 5
"""The fewest rows of a user who is looked at; one of so many is to be found."""
_STEPS = (-4.0, -3.0, -2.0, -1.5, -1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0,
          3.0, 4.0)  # fmt: skip
"""The values of δ that are tried, in units of the deviation of a user's scores."""
_AT_ONCE = 1 << 23
"""The most scores that are compared at once."""
_KEPT = 0.995
_K = 20


def offset_of(
    model: Model,
    history: History,
    trained_I: NDArray[np.bool_],
    at_H: NDArray[np.int64],
    y_HT: Floats,
) -> float:
    """Return δ, by trained items that play cold, with their vectors and biases as predicted."""
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


class _Rows:
    """The rows of some users: those that are known, and those that are to be found."""

    def __init__(
        self, kept: History, warm: tuple[Indices, Indices], cold: tuple[Indices, Indices]
    ) -> None:
        self.kept, self.warm, self.cold = kept, warm, cold

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
    """Return the mean NDCG@20 over users, of rows that have so many items ahead of theirs."""
    gain_E = np.where(ahead_E < _K, 1 / np.log2(ahead_E + 2.0), 0.0)
    n_T = np.bincount(row_E, minlength=n_users)
    gain_T = np.bincount(row_E, gain_E, n_users)
    ideal_K = np.cumsum(1 / np.log2(np.arange(2.0, _K + 2)))
    return float((gain_T / ideal_K[n_T.clip(1, _K) - 1])[n_T > 0].mean())
