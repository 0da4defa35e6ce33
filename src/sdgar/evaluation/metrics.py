"""Metrics of accuracy for each user, and intervals of their means.

With rel_r = 1 if the item at rank r is held out for the user, P the set of held-out items:

    precision@k = Σ_{r≤k} rel_r / k
    recall@k    = Σ_{r≤k} rel_r / |P|
    ndcg@k      = Σ_{r≤k} rel_r / log2(r + 1)  /  Σ_{r ≤ min(|P|, k)} 1 / log2(r + 1)
    mrr@k       = 1 / min{ r ≤ k : rel_r = 1 },  0 if there is none
    map@k       = Σ_{r≤k} rel_r · precision@r / |P|
    hit@k       = 1 if any rel_r = 1 for r ≤ k, else 0
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.held_out import HeldOut
from sdgar.errors import UsageError
from sdgar.evaluation.measures import DEFINITIONS
from sdgar.machine import cores
from sdgar.maths.rng import check_seed

DRAWS_AT_ONCE = 1 << 21
"""The number of random numbers that are drawn at once."""
_PAIRS = 1 << 18
"""The number of listed items that a thread looks up at a time."""


def per_user(
    items_TK: NDArray[np.integer[Any]], held_out: HeldOut, ks: Sequence[int]
) -> dict[str, NDArray[np.float64]]:
    """Compute every metric at every k, keyed ``ndcg@50``, one float64 for each held-out user.

    Row t of ``items_TK`` is the list of ``held_out.users_T[t]``; -1 is no item. Lists may be
    shorter than k if they hold all items. Each user has at least one held-out item.
    """
    n_users, listed = items_TK.shape
    positives_T = np.diff(held_out.indptr_T1)

    # Hits are few, so everything below is a sum over hits (H) rather than over ranks.
    row_H, rank_H = np.nonzero(hits(items_TK, held_out))
    rank_H += 1
    nth_H = np.arange(1, len(row_H) + 1) - np.searchsorted(row_H, row_H)
    longest = max(listed, min(max(ks), int(positives_T.max(initial=0))))
    discount_K = 1 / np.log2(np.arange(2, longest + 2))
    ideal_K = np.cumsum(discount_K)

    found: dict[str, NDArray[np.float64]] = {}
    for k in ks:
        within = rank_H <= k
        row, rank, nth = row_H[within], rank_H[within], nth_H[within]
        hits_T = np.bincount(row, minlength=n_users).astype(np.float64)
        first_T = np.zeros(n_users)
        first_T[row[nth == 1]] = 1 / rank[nth == 1]
        gain_T = np.bincount(row, discount_K[rank - 1], n_users)
        found[f"precision@{k}"] = hits_T / k
        found[f"recall@{k}"] = hits_T / positives_T
        found[f"ndcg@{k}"] = gain_T / ideal_K[np.minimum(positives_T, k) - 1]
        found[f"mrr@{k}"] = first_T
        found[f"map@{k}"] = np.bincount(row, nth / rank, n_users) / positives_T
        found[f"hit@{k}"] = (hits_T > 0).astype(np.float64)
    return {f"{name}@{k}": found[f"{name}@{k}"] for name in DEFINITIONS for k in ks}


def hits(items_TK: NDArray[np.integer[Any]], held_out: HeldOut) -> NDArray[np.bool_]:
    """rel_TK: whether each listed item is held out for its user.

    A pair (user, item) is one integer, t · stride + item; the held-out pairs are sorted by it
    already, so a binary search answers for all. NumPy searches with one thread, so some threads
    take a part of the users each.
    """
    hits_TK = np.zeros(items_TK.shape, np.bool_)
    if items_TK.size == 0:
        return hits_TK
    stride = max(int(items_TK.max()), int(held_out.items_E.max())) + 1
    rows_T = np.arange(len(held_out))
    key_E = np.repeat(rows_T, np.diff(held_out.indptr_T1)) * stride + held_out.items_E

    def search(part: slice) -> None:
        listed_BK = items_TK[part]
        pair_BK = rows_T[part, None] * stride + listed_BK
        at_BK = np.searchsorted(key_E, pair_BK).clip(max=len(key_E) - 1)
        # Without the second test, the -1 of a row would be the last item of the row above.
        hits_TK[part] = (key_E[at_BK] == pair_BK) & (listed_BK >= 0)

    step = max(1, _PAIRS // items_TK.shape[1])
    parts = [slice(start, start + step) for start in range(0, len(items_TK), step)]
    if len(parts) == 1:
        search(parts[0])
    else:
        with ThreadPoolExecutor(cores.threads()) as pool:
            list(pool.map(search, parts))
    return hits_TK


def interval(
    values_TM: NDArray[np.float64], level: float, resamples: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the percentile bootstrap interval of the mean over T of each column.

    A resample is the number of draws of each user, so all its means are one matrix product. Users
    with NaN are left out of the mean of that column.
    """
    if not 0 < level < 1:
        raise UsageError(f"level must be between 0 and 1, got {level}.", code="bad_level")
    if resamples < 1:
        raise UsageError(f"resamples must be at least 1, got {resamples}.", code="bad_resamples")
    rng = np.random.default_rng(check_seed(seed))
    n_users, n_metrics = values_TM.shape
    defined_TM = ~np.isnan(values_TM)
    some_missing = not defined_TM.all()
    values_TM = np.where(defined_TM, values_TM, 0.0)
    means_RM = np.empty((resamples, n_metrics))
    at_once = max(1, DRAWS_AT_ONCE // n_users)
    for start in range(0, resamples, at_once):
        n = min(at_once, resamples - start)
        draws_RT = rng.integers(0, n_users, (n, n_users))
        draws_RT += np.arange(n)[:, None] * n_users
        times_RT = np.bincount(draws_RT.ravel(), minlength=n * n_users).reshape(n, n_users)
        weight_RT = times_RT.astype(np.float64)
        drawn = weight_RT @ defined_TM if some_missing else n_users
        with np.errstate(invalid="ignore"):  # a resample may have drawn no user with a value
            means_RM[start : start + n] = weight_RT @ values_TM / drawn
    low_M, high_M = (np.nanquantile if some_missing else np.quantile)(
        means_RM, [(1 - level) / 2, (1 + level) / 2], axis=0
    )
    return low_M, high_M
