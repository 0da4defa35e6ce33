"""Intervals of means over users, by the bootstrap."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdgar.errors import UsageError
from sdgar.maths.rng import check_seed

DRAWS_AT_ONCE = 1 << 21
"""How many random numbers are drawn at once."""


def interval(
    values_TM: NDArray[np.float64], level: float, resamples: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the percentile bootstrap interval of the mean over T of each column.

    A resample is how often each user was drawn, so all its means are one matrix product. Users
    whose value is NaN are left out of the mean of that column.
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
