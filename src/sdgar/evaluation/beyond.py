"""Metrics beyond accuracy, of each list or of all lists together, and the data that they need.

A value is NaN if a metric is not defined for a user; means leave such users out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.held_out import HeldOut
from sdgar.data.history import Coded, History
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.errors import UsageError
from sdgar.evaluation.metrics import hits, per_user

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


CATEGORY = "category"
"""The name of the column that items are compared by, if no other is named."""
_NEW = 0.1
"""The share of the training rows, by time, in which items are new."""
_POPULAR, _HEAD = 0.1, 0.2
"""The shares of the items that count as popular, and that are not the long tail."""
EASED = 0.01
"""The weight α of the history's shares in a list's shares, so that no share is 0 (Steck, 2018)."""
_AT_ONCE = 1 << 22
"""The number of values that are computed at once."""

Items = NDArray[np.integer[Any]]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Known:
    """The data on items and users that metrics beyond accuracy need."""

    n_items: int
    """The number of items in the catalogue."""
    history: History
    """The training rows, by which items are popular."""
    own: History
    """The items of each measured user, by the index of the user."""
    item_ID: NDArray[np.floating] | None = None
    """The vectors by which items are compared; None if there are none."""
    coded: Callable[[str], Coded] | None = None
    """The function that gives the values of items in a column; None without a table of items."""
    new_I: NDArray[np.bool_] | None = None
    """Whether each item is new; None if that is unknown."""
    items: Ids | None = None
    """The ids of the items; None if they go by number."""
    blocked_I: NDArray[np.bool_] | None = None
    """Whether each item was not ranked, so that no list has it; None if all items were."""

    @property
    def n_ranked(self) -> int:
        """The number of items that lists could have."""
        return self.n_items if self.blocked_I is None else int((~self.blocked_I).sum())

    @cached_property
    def count_I(self) -> NDArray[np.int64]:
        """The number of users who have each item in the training rows."""
        return np.bincount(self.history.items_E, minlength=self.n_items)

    @cached_property
    def n_users(self) -> int:
        """The number of users with training rows."""
        return int((np.diff(self.history.indptr_U1) > 0).sum())

    def top(self, share: float) -> NDArray[np.bool_]:
        """Return whether each item is among this share of items with the most users."""
        top_I = np.zeros(self.n_items, bool)
        most = max(1, round(share * self.n_items))
        top_I[np.argsort(-self.count_I, kind="stable")[:most]] = True
        return top_I

    def own_of(self, users_T: NDArray[np.int64]) -> History:
        """Return the histories of some users; those beyond the table have none."""
        return self.own.rows(np.where(users_T < self.own.n_users, users_T, -1))

    def values(self, kind: str, column: str | None) -> csr_matrix:
        """Return [i has g] for the values g of a column; the metric of this kind needs it."""
        column = CATEGORY if column is None else column
        found = None if self.coded is None else self.coded(column)
        if found is None or not found.names:
            raise UsageError(
                f"{kind} needs the column {column!r} of items, and "
                + ("there is no table of items" if found is None else "no item has a value there")
                + ". Pass a table with --item-facts TABLE (facts=sdgar.read_facts(table) in "
                f"Python), and name a column of it, as in {kind}:genres@10.",
                code="nothing_to_go_by",
            )
        return found.matrix(self.n_items)

    def is_new(self) -> NDArray[np.bool_]:
        """Return whether each item is new; raise if that is unknown."""
        if self.new_I is None:
            raise UsageError(
                "new_hit needs to know which items are new. Pass the training events with their "
                "times as --train FILE (seen=train in Python), or new_items=[ids].",
                code="nothing_to_go_by",
            )
        new_I: NDArray[np.bool_] = self.new_I | (self.count_I == 0)
        return new_I


def newest(rows: Interactions) -> NDArray[np.bool_] | None:
    """Return whether the first event of each item is in the last tenth of rows; None without times.

    t_i > the moment by which nine tenths of all rows had happened
    """
    if rows.time_E is None or not len(rows):
        return None
    first_I = np.full(rows.n_items, np.iinfo(np.int64).max)
    np.minimum.at(first_I, rows.items_E, rows.time_E)
    before = np.quantile(rows.time_E, 1 - _NEW, method="inverted_cdf")
    return first_I > before


@dataclass(frozen=True, slots=True)
class Lists:
    """The first k items of ranked lists; row t is the list of ``held_out.users_T[t]``."""

    items_TK: Items
    """The items, best first; -1 is no item."""
    k: int
    """The length of the lists, which may be more than K."""
    by: str | None
    """The column that items are compared by; None for the default of the metric."""
    held_out: HeldOut
    """The held-out rows that the lists should contain."""
    known: Known
    """The data on users and items."""


def coverage(lists: Lists) -> float:
    """|∪_u L_u| / |I|."""
    return float((_shown(lists) > 0).sum() / lists.known.n_ranked)


def gini(lists: Lists) -> float:
    """Σ_j (2j - |I| - 1) x_(j) / (|I| Σ_j x_j), with x_i the number of lists that have item i."""
    return gini_of(_shown(lists))


def gini_of(count_I: NDArray[Any]) -> float:
    """Σ_j (2j - n - 1) x_(j) / (n Σ_j x_j), x ascending; NaN if all are 0.

    It is 0 if all of the n numbers x are equal, and near 1 if one of them is all.

    >>> round(gini_of(np.array([0, 0, 0, 1])), 2)
    0.75
    """
    x_I, n = np.sort(count_I).astype(np.float64), len(count_I)
    weight_I = 2.0 * np.arange(1, n + 1) - (n + 1)
    total = n * x_I.sum()
    return float((weight_I * x_I).sum() / total) if total else float("nan")


def _shown(lists: Lists) -> NDArray[np.int64]:
    """Return the number of lists that have each item that was ranked."""
    items_TK, known = lists.items_TK, lists.known
    shown_I = np.bincount(items_TK[items_TK >= 0], minlength=known.n_items)
    return shown_I if known.blocked_I is None else shown_I[~known.blocked_I]


def popularity(lists: Lists) -> Values:
    """Σ_{i ∈ L} n_i / |L|."""
    return _mean_of(lists.known.count_I.astype(np.float64), lists.items_TK)


def popular(lists: Lists) -> Values:
    """|{i ∈ L : i among the tenth of all items that most users have}| / |L|."""
    return _mean_of(lists.known.top(_POPULAR).astype(np.float64), lists.items_TK)


def tail(lists: Lists) -> Values:
    """1 - |{i ∈ L : i among the fifth of all items that most users have}| / |L|."""
    return 1.0 - _mean_of(lists.known.top(_HEAD).astype(np.float64), lists.items_TK)


def novelty(lists: Lists) -> Values:
    """-Σ_{i ∈ L} log2(max(n_i, 1) / n) / |L|."""
    share_I = np.maximum(lists.known.count_I, 1) / max(1, lists.known.n_users)
    return _mean_of(-np.log2(share_I), lists.items_TK)


def _mean_of(value_I: Values, items_TK: Items) -> Values:
    """Return the mean value of the items of each list; NaN for an empty list."""
    listed_TK = items_TK >= 0
    sum_T = np.where(listed_TK, value_I[items_TK.clip(min=0)], 0.0).sum(axis=1)
    return _ratio(sum_T, listed_TK.sum(axis=1))


def serendipity(lists: Lists) -> Values:
    """Σ_r max(p_r - q_r, 0) rel_r / k; p_r falls with the rank in the list, q_r with popularity."""
    items_TK, known = lists.items_TK, lists.known
    n = known.n_items
    _, place_I = np.unique(-known.count_I, return_inverse=True)
    # Items without users get q = 0, whatever the number of places is.
    q_I = np.where(known.count_I > 0, (n - place_I) / n, 0.0)
    p_K = (n - np.arange(items_TK.shape[1])) / n
    gain_TK = np.maximum(p_K - q_I[items_TK.clip(min=0)], 0.0)
    gain_T: Values = np.where(hits(items_TK, lists.held_out), gain_TK, 0.0).sum(axis=1)
    return gain_T / lists.k


def new_hit(lists: Lists) -> Values:
    """max_r rel_r [i_r new]."""
    return _hit_of(lists, lists.known.is_new())


def cold_hit(lists: Lists) -> Values:
    """max_r rel_r [n_{i_r} = 0]."""
    return _hit_of(lists, lists.known.count_I == 0)


def _hit_of(lists: Lists, wanted_I: NDArray[np.bool_]) -> Values:
    """Return hit@k of the held-out rows of some items alone; NaN for users without such rows.

    Items outside the catalogue, which training never saw, are among them.
    """
    rows_E = np.append(wanted_I, True)[np.minimum(lists.held_out.items_E, lists.known.n_items)]
    held_out, places = lists.held_out.among(rows_E)
    found_T = np.full(len(lists.items_TK), np.nan)
    if len(places):
        own = per_user(lists.items_TK[places], held_out, (lists.k,))
        found_T[places] = own[f"hit@{lists.k}"]
    return found_T


def diversity(lists: Lists) -> Values:
    """1 - Σ_{i<j} c_ij / pairs.

    c_ij is the cosine of the vectors of two items, or |V_i ∩ V_j| / |V_i ∪ V_j| of their values in
    a column; it is 0 where an item has none.
    """
    items_TK, known = lists.items_TK, lists.known
    if lists.by is None and known.item_ID is not None:
        alike_TK = _alike_by_vectors(items_TK, known.item_ID)
    else:
        alike_TK = _alike_by_values(items_TK, known.values("diversity", lists.by))
    n_T = (items_TK >= 0).sum(axis=1)
    return 1.0 - _ratio(np.cumsum(alike_TK, axis=1)[:, -1], n_T * (n_T - 1) / 2)


def _alike_by_vectors(items_TK: Items, item_ID: NDArray[np.floating]) -> Values:
    """Σ_{i<j} c_ij for each place j: the cosine with the sum of all unit vectors before it."""
    unit_ID = np.asarray(item_ID, np.float64)
    norm_I = np.sqrt(np.einsum("id,id->i", unit_ID, unit_ID))
    unit_ID = unit_ID / np.where(norm_I > 0, norm_I, 1.0)[:, None]
    alike_TK = np.zeros(items_TK.shape)
    step = max(1, _AT_ONCE // max(1, items_TK.shape[1] * unit_ID.shape[1]))
    for part in _parts(len(items_TK), step):
        of_TK = items_TK[part]
        unit_TKD = np.where((of_TK >= 0)[:, :, None], unit_ID[of_TK.clip(min=0)], 0.0)
        before_TKD = np.cumsum(unit_TKD, axis=1) - unit_TKD
        alike_TK[part] = np.einsum("tkd,tkd->tk", before_TKD, unit_TKD)
    return alike_TK


def _alike_by_values(items_TK: Items, has_IG: csr_matrix) -> Values:
    """Σ_{i<j} |V_i ∩ V_j| / |V_i ∪ V_j| for each place j."""
    count_I = np.diff(has_IG.indptr)
    alike_TK = np.zeros(items_TK.shape)
    first_P, second_P = np.triu_indices(items_TK.shape[1], 1)
    for part in _parts(len(items_TK), max(1, _AT_ONCE // (16 * max(1, len(first_P))))):
        of_TK = items_TK[part]
        one_TP, two_TP = of_TK[:, first_P], of_TK[:, second_P]
        t_N, p_N = np.nonzero((one_TP >= 0) & (two_TP >= 0))
        one_N, two_N = one_TP[t_N, p_N], two_TP[t_N, p_N]
        both_N = np.asarray(has_IG[one_N].multiply(has_IG[two_N]).sum(axis=1)).ravel()
        either_N = count_I[one_N] + count_I[two_N] - both_N
        place_N = t_N * of_TK.shape[1] + second_P[p_N]
        found = np.bincount(place_N, _ratio(both_N, either_N, 0.0), of_TK.size)
        alike_TK[part] = found.reshape(of_TK.shape)
    return alike_TK


def calibration(lists: Lists) -> Values:
    """Σ_g p_g log(p_g / q̃_g), with q̃ = (1 - α) q + α p and α = 0.01.

    p are the shares of the values of a column in the history of a user, and q in the list.
    An item gives 1 / |V_i| to each of its values; items without any count in neither.
    """
    from scipy.sparse import csr_matrix, diags

    known = lists.known
    has_IG = known.values("calibration", lists.by)
    count_I = np.diff(has_IG.indptr)
    share_IG = (diags(_ratio(np.ones(len(count_I)), count_I, 0.0)) @ has_IG).tocsr()
    found_T = np.full(len(lists.items_TK), np.nan)
    for part in _parts(len(lists.items_TK), max(1, _AT_ONCE // has_IG.shape[1])):
        own = known.own_of(lists.held_out.users_T[part])
        inside_E = own.items_E < known.n_items
        rows = (np.ones(len(own.items_E)) * inside_E, own.items_E * inside_E, own.indptr_U1)
        p_TG = (csr_matrix(rows, (own.n_users, known.n_items)) @ share_IG).toarray()
        total_T = p_TG.sum(axis=1)
        p_TG = _ratio(p_TG, total_T[:, None])
        of_TK = lists.items_TK[part]
        valued_TK = (of_TK >= 0) & (count_I[of_TK.clip(min=0)] > 0)
        t_E, k_E = np.nonzero(valued_TK)
        pairs = (np.ones(len(t_E)), (t_E, of_TK[t_E, k_E]))
        q_TG = (csr_matrix(pairs, (len(of_TK), known.n_items)) @ share_IG).toarray()
        q_TG = _ratio(q_TG, valued_TK.sum(axis=1)[:, None], 0.0)
        q_TG = (1 - EASED) * q_TG + EASED * p_TG
        with np.errstate(divide="ignore", invalid="ignore"):
            terms_TG = np.where(p_TG > 0, p_TG * np.log(p_TG / q_TG), 0.0)
        found_T[part] = np.where(total_T > 0, terms_TG.sum(axis=1), np.nan)
    return found_T


OF_ALL_LISTS: dict[str, Callable[[Lists], float]] = {"coverage": coverage, "gini": gini}
"""The metrics of all lists together, by name."""
OF_EACH_LIST: dict[str, Callable[[Lists], Values]] = {
    "popularity": popularity,
    "popular": popular,
    "tail": tail,
    "novelty": novelty,
    "diversity": diversity,
    "serendipity": serendipity,
    "calibration": calibration,
    "new_hit": new_hit,
    "cold_hit": cold_hit,
}
"""The metrics of each user's list beyond accuracy, by name."""


def _parts(n: int, step: int) -> Iterator[slice]:
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def _ratio(above: Values, below: NDArray[Any], otherwise: float = np.nan) -> Values:
    """Return above / below, and something else where below is 0."""
    return np.where(below > 0, above / np.where(below > 0, below, 1), otherwise)
