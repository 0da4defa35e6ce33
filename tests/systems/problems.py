"""Small random data, dense in float64, for oracles that do everything at once."""

from __future__ import annotations

import numpy as np

from sdgar.data.interactions import Interactions


def some_data(
    seed: int, users: int = 12, items: int = 9, *, share: float = 0.35, weighted: bool = False
) -> tuple[Interactions, np.ndarray]:
    """Interactions, and the same as a matrix of weights; no user or item is without any."""
    rng = np.random.default_rng(seed)
    has_UI = rng.random((users, items)) < share
    has_UI[np.arange(users), rng.integers(0, items, users)] = True
    has_UI[rng.integers(0, users, items), np.arange(items)] = True
    user_E, item_E = np.nonzero(has_UI)
    weight_E = rng.uniform(0.2, 3.0, len(user_E)).astype(np.float32) if weighted else None
    data = Interactions.from_arrays(user_E, item_E, weight=weight_E)
    dense_UI = np.zeros((users, items))
    dense_UI[user_E, item_E] = 1.0 if weight_E is None else weight_E
    return data, dense_UI
