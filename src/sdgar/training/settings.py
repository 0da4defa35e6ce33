"""Groups of settings of how a model is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sdgar.settings import METRIC, Group


@dataclass(frozen=True, kw_only=True)
class EarlyStopping(Group):
    """How the number of epochs is chosen on validation rows."""

    leading: ClassVar[str] = "enabled"

    enabled: bool = True
    """Whether the number of epochs is chosen on validation rows; otherwise all epochs are run."""
    every: int = 5
    """How many epochs lie between two evaluations on the validation rows."""
    patience: int = 3
    """How many evaluations without a gain there may be before training stops."""
    metric: str = METRIC
    """The metric that the best epoch is best at: precision, recall, ndcg, mrr, map or hit, followed
    by @ and the length of the lists."""


@dataclass(frozen=True, kw_only=True)
class WarmStart(Group):
    """How training continues from an earlier model."""

    epochs: int = 20
    """The number of epochs with which training continues from an earlier model."""
    rate: float = 0.3
    """The learning rate of the first of these epochs over ``learning_rate``; it falls evenly to
    nothing."""


@dataclass(frozen=True, kw_only=True)
class ItemMemory(Group):
    """Item-item weights that are added to the scores of vectors."""

    leading: ClassVar[str] = "weight"

    weight: float | None = 0.0
    """The weight γ of the item-item weights in the scores. They are found by least squares. Without
    a value γ is chosen on validation rows; 0 leaves them out."""
    neighbours: int | None = 50
    """The number of other items that contribute to the score of an item. Without a value it follows
    from the number of training rows."""
    l2: float = 20.0
    """The weight λ of the squared weights between items."""
