"""Settings that systems share: groups, rules by which some follow from the data, and searches.

The paper's own grids (section 4.1): l2 in {0.01, 0.03, 0.05}; T, λ_X and λ_Y in {0.1, 0.5, 1};
CML's margin in {0.5, 1, 1.5, 2}. Its l2 widens to a range here, since the best value moves by a
factor of ten from one data set to another, and the learning rate, which it fixes at 0.001 for
Adam, to a range about what suits each optimiser. Sizes (dim, n_negatives, states, epochs,
batch_size) are budgets, not settings to be searched: all systems of a comparison share them. But
where a system picks one of several draws, how many there are says how hard its negatives are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sdgar.settings import METRIC, Group

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions


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


@dataclass(frozen=True, kw_only=True)
class Optimization(Group):
    """The rule for steps, and how the learning rate changes."""

    leading: ClassVar[str] = "name"

    name: str = "adagrad"
    """How steps are taken: adagrad (one sum of squares a row), lazy-adam (which moves the rows
    that a batch touches), adam (which moves all rows) or sgd."""
    schedule: str = "constant"
    """How the learning rate changes: constant, or linear, which lets it fall evenly to nothing over
    ``epochs``."""


@dataclass(frozen=True, kw_only=True)
class Sampling(Group):
    """How negatives are drawn, for every sampler."""

    positives_per_visit: int = 1
    """How many positives of a user share one pool of n_negatives; 1 gives each its own."""
    dislikes: float = 0.0
    """The share of negatives that is drawn from what the user dislikes, such as films that were
    rated low, instead of by the sampler; 0 draws none of them."""


SCHEDULES = ("constant", "linear")
"""The ways in which the learning rate can change."""
ROWS = "the training rows there are for each user and item"
"""The words for what ``by_rows`` looks at."""
FEW_ROWS = "the number of training rows"
"""The words for what the other rules look at."""
_FEWEST_NEIGHBOURS, _MOST_NEIGHBOURS = 50, 200


def by_rows(scale: float, data: Interactions) -> float:
    """Return ``scale`` / √(rows / (users + items)) in three digits: the more rows, the smaller λ.

    The penalty of a vector is counted each time a row touches it, so the sum over an epoch grows
    with the rows as the loss does. But a vector that is known from many rows needs to be held back
    less than that; over seven data sets the best λ falls with the square root of their number.
    """
    return float(f"{scale / math.sqrt(len(data) / (data.n_users + data.n_items)):.3g}")


def neighbours_of(data: Interactions, most: int = _MOST_NEIGHBOURS) -> int:
    """Return as many neighbours as an item has rows, from 50 to 200: weights need rows to rest on.

    On validation rows of twelve data sets, more than 50 neighbours lose accuracy where items have
    some ten rows each, and gain it where they have hundreds (docs/defaults.md).
    """
    each = round(len(data) / max(1, data.n_items))
    return min(max(each, _FEWEST_NEIGHBOURS), most)


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting that is one of a few values."""

    values: tuple[Any, ...]
    """The values to choose from."""

    def nearest(self, value: Any) -> Any:
        """Return the value itself if it is one of them, else the one next to it."""
        return value if value in self.values else min(self.values, key=lambda v: abs(v - value))


@dataclass(frozen=True, slots=True)
class Range:
    """A setting between two ends, searched evenly in the logarithm, as it is a scale."""

    low: float
    """The lower end."""
    high: float
    """The upper end."""

    def nearest(self, value: float) -> float:
        """Return the value itself, or the end of the range that is next to it."""
        return min(max(value, self.low), self.high)


Space = Mapping[str, Choice | Range]

RATES = {
    "adagrad": Range(0.02, 0.5),
    "lazy-adam": Range(0.0005, 0.02),
    "adam": Range(0.0005, 0.02),
    "sgd": Range(0.005, 0.5),
}
"""The learning rates that are searched for each optimiser."""
STEPS: Space = {"learning_rate": RATES["adagrad"], "l2": Range(0.001, 0.2)}
"""The settings that are searched for every system on matrix factorization."""
