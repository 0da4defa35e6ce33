"""The interface of scorers, which score all items for a block of contexts, and checks of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from sdgar.errors import UsageError

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class Scorer(Protocol):
    """Anything that scores the whole catalogue for a block of contexts."""

    @property
    def n_items(self) -> int:
        """The number of items in the catalogue."""
        ...

    def score_all(self, users_B: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the scores s_BI; larger is better."""
        ...


class TensorScorer(Protocol):
    """A scorer that computes with tensors of torch, such as a model in training on a GPU."""

    @property
    def n_items(self) -> int:
        """The number of items in the catalogue."""
        ...

    @property
    def device(self) -> torch.device:
        """The device on which ``score_all`` computes."""
        ...

    def score_all(self, users_B: Tensor) -> Tensor:
        """Return the scores s_BI; larger is better."""
        ...


AnyScorer = Scorer | TensorScorer


def checked(scores_BI: NDArray[np.float32], n_users: int, n_items: int) -> NDArray[np.float32]:
    """Return the scores as float32 after a check: a row for each user, a column for each item."""
    require_shape(scores_BI, n_users, n_items)
    return np.ascontiguousarray(scores_BI, np.float32)


def require_shape(scores_BI: NDArray[np.float32] | Tensor, n_users: int, n_items: int) -> None:
    """Raise unless there is a row of scores for each user, and a column for each item."""
    if scores_BI.shape != (n_users, n_items):
        raise UsageError(
            f"score_all returned scores of shape {tuple(scores_BI.shape)} for {n_users} "
            f"users and {n_items} items. It must return a row a user and a column an item.",
            code="bad_scores",
        )
