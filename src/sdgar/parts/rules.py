"""Rules for settings that follow from the size of the data, where they are not given."""

from __future__ import annotations

import math

from sdgar.data.interactions import Interactions

ROWS = "the training rows there are for each user and item"
"""The words for what ``by_rows`` looks at."""
FEW_ROWS = "the number of training rows"
"""The words for what the other rules look at."""
MOST_EPOCHS = 12
"""The number of epochs that small data has."""
_MANY = 250_000
"""The number of rows from which on data is not small."""
_FEWEST_NEIGHBOURS, MOST_NEIGHBOURS = 50, 200


def by_rows(scale: float, data: Interactions) -> float:
    """Return ``scale`` / √(rows / (users + items)) in three digits: the more rows, the smaller λ.

    The penalty of a vector is counted each time a row touches it, so the sum over an epoch grows
    with the rows as the loss does. But a vector that is known from many rows needs to be held back
    less than that; over seven data sets the best λ falls with the square root of their number.
    """
    return float(f"{scale / math.sqrt(len(data) / (data.n_users + data.n_items)):.3g}")


def epochs_of(data: Interactions) -> int:
    """Return 8 from 250,000 rows on, else 12: where the rate falls, few passes are enough."""
    return 8 if len(data) >= _MANY else MOST_EPOCHS


def shared_by(data: Interactions) -> int:
    """Return how many positives share their negatives: 4 from 250,000 rows on, else 2."""
    return 4 if len(data) >= _MANY else 2


def batch_of(data: Interactions) -> int:
    """Return how many positives a step has: 4,096 from 250,000 rows on, else 2,048."""
    return 4096 if len(data) >= _MANY else 2048


def temperature_of(data: Interactions) -> float:
    """τ = 0.12 max(1, 250,000 / rows)^⅕ up to ½, in three digits: few rows need a high τ.

    A low temperature makes the softmax sharp, which wants directions that are known well. On eight
    data sets of 2,000 to 800,000 rows the best τ falls from about 0.35 to 0.12 (docs/defaults.md).
    """
    return float(f"{min(0.5, 0.12 * max(1.0, _MANY / len(data)) ** 0.2):.3g}")


def neighbours_of(data: Interactions, most: int = MOST_NEIGHBOURS) -> int:
    """Return as many neighbours as an item has rows, from 50 to 200: weights need rows to rest on.

    On validation rows of twelve data sets, more than 50 neighbours lose accuracy where items have
    some ten rows each, and gain it where they have hundreds (docs/defaults.md).
    """
    each = round(len(data) / max(1, data.n_items))
    return min(max(each, _FEWEST_NEIGHBOURS), most)
