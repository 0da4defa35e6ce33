"""Rules for settings that follow from the size of the data, where they are not given."""

from __future__ import annotations

import math

from sdgar.data.interactions import Interactions

ROWS = "the training rows there are for each user and item"
"""The words for what ``by_rows`` looks at."""
FEW_ROWS = "the number of training rows"
"""The words for what ``temperature_of`` looks at."""


def by_rows(scale: float, data: Interactions) -> float:
    """Return ``scale`` / √(rows / (users + items)) in three digits: the more rows, the smaller λ.

    The penalty of a vector is counted each time a row touches it, so the sum over an epoch grows
    with the rows as the loss does. But a vector that is known from many rows needs to be held back
    less than that; over seven data sets the best λ falls with the square root of their number.
    """
    return float(f"{scale / math.sqrt(len(data) / (data.n_users + data.n_items)):.3g}")


def temperature_of(data: Interactions) -> float:
    """τ = 0.12 max(1, 250,000 / rows)^⅕ up to ½, in three digits: few rows need a high τ.

    A low temperature makes the softmax sharp, which wants directions that are known well. On eight
    data sets of 2,000 to 800,000 rows the best τ falls from about 0.35 to 0.12 (docs/defaults.md).
    """
    return float(f"{min(0.5, 0.12 * max(1.0, 250_000 / len(data)) ** 0.2):.3g}")
