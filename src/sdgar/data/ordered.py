"""Rows in the order of their times, for systems that ask what comes next."""

from __future__ import annotations

import numpy as np

from sdgar.data.interactions import Interactions
from sdgar.errors import DataError
from sdgar.maths.sequences import Sequences


def sequences_of(data: Interactions) -> Sequences:
    """Return the rows of each context in the order of time; equal times are ordered by item."""
    if data.time_E is None:
        raise DataError(
            "what comes next can only be learned from rows in order, and these have no times. "
            "Name the column of times or of positions with --time-column.",
            code="no_time",
        )
    order_E = np.lexsort((data.time_E, data.users_E))
    return Sequences(data.indptr_U1, data.items_E[order_E])
