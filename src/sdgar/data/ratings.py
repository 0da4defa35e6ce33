"""Decide which ratings are likings: those near the top of their scale.

    liked  ⇔  rating ≥ t,   t = the least rating given that is at least 0.7 · the highest one given

This is 4 of 5 stars, 3.5 where there are half stars, 7 of 10 points, and true of true or false. A
threshold that fewer than one row in twenty reaches was computed from a scale that is none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SHARE_OF_HIGHEST = 0.7
_LEAST_LIKED = 0.05


def threshold(
    rating_E: NDArray[np.float64], count_E: NDArray[np.int64] | None = None
) -> float | None:
    """Return the least rating that counts as a liking, or None if these numbers are no scale.

    ``count_E`` tells how often each rating was given, where that is more than once.

    >>> import numpy as np
    >>> threshold(np.array([1.0, 3.0, 4.0, 5.0]))
    4.0
    """
    finite = np.isfinite(rating_E)
    finite_E = rating_E[finite]
    often_E = np.ones(len(finite_E), np.int64) if count_E is None else count_E[finite]
    if len(finite_E) == 0 or finite_E.max() <= 0:
        return None
    liked = finite_E >= SHARE_OF_HIGHEST * finite_E.max()
    enough = often_E[liked].sum() >= _LEAST_LIKED * often_E.sum()
    return float(finite_E[liked].min()) if enough else None
