"""Most popular: the yardstick of every report."""

from __future__ import annotations

import numpy as np
import torch

from sdgar.contracts import Factors
from sdgar.data.contexts import Fields
from sdgar.data.interactions import History


def popularity(history: History, n_items: int, fields: Fields | None = None) -> Factors:
    """b_i = number of contexts of item i, and no vectors."""
    count_I = np.bincount(history.items_E, minlength=n_items).astype(np.float32)
    none = torch.zeros(history.n_users, 0), torch.zeros(n_items, 0), torch.from_numpy(count_I)
    if fields is None:
        return Factors(*none)
    return Factors(*none, torch.zeros(fields.n_values, 0), torch.zeros(1))
