"""Metrics beyond accuracy, of lists alone or of all lists together; ``measures`` has the equations.

A value is NaN for a user for whom a metric is not defined; means leave such users out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sdgar.evaluation.known import Known

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_POPULAR, _HEAD = 0.1, 0.2
"""The shares of the items that count as popular, and that are not the long tail."""
EASED = 0.01
"""The weight α of the history's shares in those of a list, so that no share is 0 (Steck, 2018)."""
_AT_ONCE = 1 << 22
"""How many numbers are made at once."""

Lists = NDArray[np.integer[Any]]
Values = NDArray[np.float64]


def coverage(items_TK: Lists, known: Known) -> float:
    """|∪_u L_u| / |I|."""
    return float((_shown(items_TK, known) > 0).sum() / known.n_ranked)


def gini(items_TK: Lists, known: Known) -> float:
    """Σ_j (2j - |I| - 1) x_(j) / (|I| Σ_j x_j), with x_i the number of lists that have item i."""
    shown_I = np.sort(_shown(items_TK, known)).astype(np.float64)
    n = known.n_ranked
    weight_I = 2.0 * np.arange(1, n + 1) - (n + 1)
    total = n * shown_I.sum()
    return float((weight_I * shown_I).sum() / total) if total else float("nan")


def _shown(items_TK: Lists, known: Known) -> NDArray[np.int64]:
    """Return the number of lists that have each item that was ranked."""
    shown_I = np.bincount(items_TK[items_TK >= 0], minlength=known.n_items)
    return shown_I if known.blocked_I is None else shown_I[~known.blocked_I]


def popularity(items_TK: Lists, known: Known) -> Values:
    """Σ_{i ∈ L} n_i / |L|."""
    return _mean_of(known.count_I.astype(np.float64), items_TK)


def popular(items_TK: Lists, known: Known) -> Values:
    """|{i ∈ L : i among the tenth of all items that most users have}| / |L|."""
    return _mean_of(known.top(_POPULAR).astype(np.float64), items_TK)


def tail(items_TK: Lists, known: Known) -> Values:
    """1 - |{i ∈ L : i among the fifth of all items that most users have}| / |L|."""
    return 1.0 - _mean_of(known.top(_HEAD).astype(np.float64), items_TK)


def novelty(items_TK: Lists, known: Known) -> Values:
    """-Σ_{i ∈ L} log2(max(n_i, 1) / n) / |L|."""
    share_I = np.maximum(known.count_I, 1) / max(1, known.n_users)
    return _mean_of(-np.log2(share_I), items_TK)


def _mean_of(value_I: Values, items_TK: Lists) -> Values:
    """Return the mean over each list of what each item has; NaN for an empty list."""
    listed_TK = items_TK >= 0
    sum_T = np.where(listed_TK, value_I[items_TK.clip(min=0)], 0.0).sum(axis=1)
    return _ratio(sum_T, listed_TK.sum(axis=1))


def serendipity(items_TK: Lists, hits_TK: NDArray[np.bool_], k: int, known: Known) -> Values:
    """Σ_r max(p_r - q_r, 0) rel_r / k; p_r falls with the rank in the list, q_r with popularity."""
    n = known.n_items
    _, place_I = np.unique(-known.count_I, return_inverse=True)
    # Items that nobody has get q = 0, whatever the number of places is.
    q_I = np.where(known.count_I > 0, (n - place_I) / n, 0.0)
    p_K = (n - np.arange(items_TK.shape[1])) / n
    gain_TK = np.maximum(p_K - q_I[items_TK.clip(min=0)], 0.0)
    gain_T: Values = np.where(hits_TK, gain_TK, 0.0).sum(axis=1)
    return gain_T / k


def diversity(items_TK: Lists, column: str | None, known: Known) -> Callable[[int], Values]:
    """1 - Σ_{i<j} c_ij / pairs of the first k, as a function of k.

    c_ij is the cosine of the vectors of two items, or |V_i ∩ V_j| / |V_i ∪ V_j| of their values in
    a column; it is 0 where an item has none.
    """
    if column is None and known.item_ID is not None:
        alike_TK = _alike_by_vectors(items_TK, known.item_ID)
    else:
        alike_TK = _alike_by_values(items_TK, known.values("diversity", column))
    length_T = (items_TK >= 0).sum(axis=1)
    sums_TK = np.cumsum(alike_TK, axis=1)

    def at(k: int) -> Values:
        n_T = np.minimum(length_T, k)
        return 1.0 - _ratio(sums_TK[:, min(k, items_TK.shape[1]) - 1], n_T * (n_T - 1) / 2)

    return at


def _alike_by_vectors(items_TK: Lists, item_ID: NDArray[np.floating]) -> Values:
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


def _alike_by_values(items_TK: Lists, has_IG: csr_matrix) -> Values:
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
        found = np.bincount(place_N, _or_zero(both_N, either_N), of_TK.size)
        alike_TK[part] = found.reshape(of_TK.shape)
    return alike_TK


def calibration(
    items_TK: Lists, users_T: NDArray[np.int64], ks: list[int], column: str | None, known: Known
) -> dict[int, Values]:
    """Σ_g p_g log(p_g / q̃_g) at each k, with q̃ = (1 - α) q + α p and α = 0.01.

    p are the shares of the values of a column in the history of a user, and q those in the list.
    An item gives 1 / |V_i| to each of its values; items without any count in neither.
    """
    from scipy.sparse import csr_matrix, diags

    has_IG = known.values("calibration", column)
    count_I = np.diff(has_IG.indptr)
    share_IG = (diags(_or_zero(np.ones(len(count_I)), count_I)) @ has_IG).tocsr()
    found = {k: np.full(len(items_TK), np.nan) for k in ks}
    for part in _parts(len(items_TK), max(1, _AT_ONCE // has_IG.shape[1])):
        own = known.own_of(users_T[part])
        inside_E = own.items_E < known.n_items
        rows = (np.ones(len(own.items_E)) * inside_E, own.items_E * inside_E, own.indptr_U1)
        p_TG = (csr_matrix(rows, (own.n_users, known.n_items)) @ share_IG).toarray()
        total_T = p_TG.sum(axis=1)
        p_TG = _ratio(p_TG, total_T[:, None])
        for k in ks:
            of_TK = items_TK[part, :k]
            valued_TK = (of_TK >= 0) & (count_I[of_TK.clip(min=0)] > 0)
            t_E, k_E = np.nonzero(valued_TK)
            pairs = (np.ones(len(t_E)), (t_E, of_TK[t_E, k_E]))
            q_TG = (csr_matrix(pairs, (len(of_TK), known.n_items)) @ share_IG).toarray()
            q_TG = _or_zero(q_TG, valued_TK.sum(axis=1)[:, None])
            q_TG = (1 - EASED) * q_TG + EASED * p_TG
            with np.errstate(divide="ignore", invalid="ignore"):
                terms_TG = np.where(p_TG > 0, p_TG * np.log(p_TG / q_TG), 0.0)
            found[k][part] = np.where(total_T > 0, terms_TG.sum(axis=1), np.nan)
    return found


def _parts(n: int, step: int) -> Iterator[slice]:
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def _ratio(above: Values, below: NDArray[Any]) -> Values:
    """Return above / below, and NaN where below is 0."""
    return np.where(below > 0, above / np.where(below > 0, below, 1), np.nan)


def _or_zero(above: Values, below: NDArray[Any]) -> Values:
    """Return above / below, and 0 where below is 0."""
    return np.where(below > 0, above / np.where(below > 0, below, 1), 0.0)
