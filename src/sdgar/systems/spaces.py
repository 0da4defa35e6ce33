"""The values that ``sdgar tune`` searches: one of a few, or any in a range.

The paper's own grids (section 4.1): l2 in {0.01, 0.03, 0.05}; T, λ_X and λ_Y in {0.1, 0.5, 1};
CML's margin in {0.5, 1, 1.5, 2}. Its l2 widens to a range here, since the best value moves by a
factor of ten from one data set to another, and the learning rate, which it fixes at 0.001 for
Adam, to a range about what suits each optimiser. Sizes (dim, n_negatives, states, epochs,
batch_size) are budgets, not settings to be searched: all systems of a comparison share them. But
where a system picks one of several draws, how many there are says how hard its negatives are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
