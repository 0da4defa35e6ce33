"""The vectors of the items of a model, by which items can be compared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdgar.models.factors import Factors
from sdgar.models.item_vectors import ItemVectors
from sdgar.models.model import Model
from sdgar.models.sum import Sum


def item_vectors(model: Model) -> NDArray[np.floating] | None:
    """Return the vectors of the items of a model, of a sum those of the first that has some."""
    for part in model.parts() if isinstance(model, Sum) else [model]:
        if isinstance(part, Factors | ItemVectors) and part.item_ID.shape[1]:
            item_ID: NDArray[np.floating] = part.item_ID.detach().cpu().numpy()
            return item_ID
    return None
