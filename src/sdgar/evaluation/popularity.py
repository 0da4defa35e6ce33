"""The popularity of items, which every report compares a model with."""

from __future__ import annotations

import numpy as np
import torch

from sdgar.data.contexts import Fields
from sdgar.data.history import History
from sdgar.models.factors import Factors
from sdgar.models.field_factors import FieldFactors
from sdgar.models.fold_in import NoVector


def popularity(history: History, n_items: int, fields: Fields | None = None) -> Factors:
    """b_i = number of contexts of item i, and no vectors."""
    count_I = np.bincount(history.items_E, minlength=n_items).astype(np.float32)
    none = torch.zeros(history.n_users, 0), torch.zeros(n_items, 0), torch.from_numpy(count_I)
    if fields is None:
        return Factors(*none, NoVector())
    of_values = {"field_VD": torch.zeros(fields.n_values, 0), "scale": torch.zeros(1)}
    return FieldFactors(*none, **of_values, rule=NoVector())
