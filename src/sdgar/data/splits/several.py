"""Ways to hold rows out that give several splits: windows of time, and folds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdgar.arguments import at_least
from sdgar.data import moments
from sdgar.data.interactions import Interactions
from sdgar.data.splits.single import Split, only_rows, parted, time_of
from sdgar.errors import DataError
from sdgar.maths.rng import Stream, check_seed, sort_keys


def windows(data: Interactions, length: str | int, n: int) -> Iterator[Split]:
    """Yield n windows of one length, one after the other; the last one ends with the data.

    Window w of n holds the rows with  end - (n - w) · length ≤ time < end - (n - w - 1) · length;
    it is found from all rows before it. Rows after it play no part.
    """
    at_least("windows", n, 1)
    time_E = time_of(data)
    step = moments.length_of(length, time_E)
    end = int(time_E.max()) + 1
    starts = [end - (n - w) * step for w in range(n)]
    if starts[0] <= time_E.min():
        raise DataError(
            f"{n} windows of {length} begin at {moments.shown(starts[0])}, and the data begins at "
            f"{moments.shown(time_E.min())}: there is no row before the first window. Take fewer "
            "or shorter windows.",
            code="empty_split",
        )
    bounds = [(start, start + step) for start in starts]
    for w, (start, stop) in enumerate(bounds, 1):
        if not ((time_E >= start) & (time_E < stop)).any():
            raise DataError(
                f"window {w} of {n}, from {moments.shown(start)} to {moments.shown(stop)}, has no "
                "row. Take fewer or longer windows.",
                code="empty_split",
            )

    def parts() -> Iterator[Split]:
        for w, (start, stop) in enumerate(bounds, 1):
            yield Split(
                data.subset(time_E < start, "held out").seen_before(start),
                data.subset((time_E >= start) & (time_E < stop), "training"),
                f"window {w} of {n}, from {moments.shown(start)} to {moments.shown(stop)}",
            )

    return parts()


def k_folds(data: Interactions, k: int, *, seed: int = 0) -> Iterator[Split]:
    """Deal the shuffled rows of each user in turn to k parts; hold each part out once.

    The only row of a user is in no part.
    """
    at_least("folds", k, 2)
    key_E = sort_keys(check_seed(seed), Stream.SPLIT_TEST, 0, np.arange(len(data)))
    order = np.lexsort((key_E, data.users_E))
    order = order[~only_rows(data)[order]]
    fold_E = np.full(len(data), -1)
    fold_E[order] = np.arange(len(order)) % k
    if len(order) < k:
        raise DataError(
            f"{len(order):,} rows of users with at least two cannot be dealt into {k} folds. Take "
            "fewer folds, or more data.",
            code="empty_split",
        )
    return (
        parted(data, fold_E == fold, f"fold {fold + 1} of {k}, seed {seed}") for fold in range(k)
    )
