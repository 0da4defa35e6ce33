"""What is searched when a system is tuned: plain data, a table of settings for each system.

The paper's own grids (section 4.1): l2 in {0.01, 0.03, 0.05}; T, λ_X and λ_Y in {0.1, 0.5, 1};
CML's margin in {0.5, 1, 1.5, 2}. Its l2 widens to a range here, since the best value moves by a
factor of ten from one data set to another, and the learning rate, which it fixes at 0.001 for
Adam, to a range about what suits each optimiser. Sizes (dim, n_negatives, states, epochs,
batch_size) are budgets, not settings to be searched: all systems of a comparison share them. But
where a system picks one of several draws, how many there are says how hard its negatives are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sdgar.errors import unknown_name


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few values."""

    values: tuple[Any, ...]

    def nearest(self, value: Any) -> Any:
        """The value itself if it is one of them, else the one next to it."""
        return value if value in self.values else min(self.values, key=lambda v: abs(v - value))


@dataclass(frozen=True, slots=True)
class Range:
    """From low to high, evenly in the logarithm: every such setting is a scale."""

    low: float
    high: float

    def nearest(self, value: float) -> float:
        """The value itself, or the end of the range that is next to it."""
        return min(max(value, self.low), self.high)


Space = Mapping[str, Choice | Range]

RATES = {
    "adagrad": Range(0.02, 0.5),
    "lazy-adam": Range(0.0005, 0.02),
    "adam": Range(0.0005, 0.02),
    "sgd": Range(0.005, 0.5),
}
"""Learning rates by optimiser."""

_L2 = Range(0.001, 0.2)
_TEMPERATURE = Choice((0.1, 0.5, 1.0))
_STEPS = {"learning_rate": RATES["adagrad"], "l2": _L2}
_GENERATOR = {
    "temperature": _TEMPERATURE,
    "lambda_x": Choice((0.1, 0.5, 1.0)),
    "lambda_y": Choice((0.1, 0.5, 1.0)),
}

SPACES: dict[str, Space] = {
    "popular": {},
    "item-knn": {
        "neighbours": Choice((20, 50, 100, 200, 500)),
        "shrink": Choice((0.0, 10.0, 30.0, 100.0, 300.0)),
    },
    "ials": {
        "alpha": Range(0.001, 1.0),
        "l2": Range(0.0005, 0.5),
        "power": Choice((0.0, 0.5, 1.0)),
        "sweeps": Choice((8, 16)),
    },
    "ease": {"l2": Range(3.0, 3000.0)},
    "bpr": _STEPS,
    "aobpr": {**_STEPS, "rank_scale": Range(0.003, 0.3)},
    # A positive that ranks badly weighs up to the logarithm of the catalogue, and so must λ.
    "warp": {
        **_STEPS,
        "l2": Range(0.05, 5.0),
        "margin": Choice((0.5, 1.0, 1.5, 2.0)),
        "max_tries": Choice((10, 30, 60)),
    },
    "cml": {
        "learning_rate": RATES["adagrad"],
        "margin": Choice((0.5, 1.0, 1.5, 2.0)),
        "n_negatives": Choice((5, 20)),
        "covariance": Choice((0.0, 0.1, 1.0, 10.0)),
    },
    "dns": {**_STEPS, "candidates": Choice((2, 5, 10, 20))},
    "irgan": {
        **_STEPS,
        "temperature": Choice((0.1, 0.2, 0.5, 1.0)),
        "generator_rate": Range(0.00003, 0.003),
        "generator_l2": Range(0.01, 3.0),
    },
    "sa": {**_STEPS, "temperature": Choice((0.1, 0.25, 0.5, 1.0))},
    "sdgar": {**_STEPS, **_GENERATOR},
    "sdgar-printed": {**_STEPS, **_GENERATOR},
    "sdsoftmax": {
        "learning_rate": RATES["adagrad"],
        "tau": Range(0.07, 0.5),
        "l2": Range(0.02, 1.0),
    },
    # What else its parts have is for --set: it differs from one composition to the next.
    "composed": {"learning_rate": RATES["adam"], "n_negatives": Choice((1, 5, 16, 20, 32))},
}


def space_of(system: str, settings: Mapping[str, Any], fixed: Collection[str]) -> Space:
    """What is left to search for a system when some of its settings are fixed."""
    if system not in SPACES:
        raise unknown_name("system", system, SPACES)
    space = {name: values for name, values in SPACES[system].items() if name not in fixed}
    rate = space.get("learning_rate")
    if rate is not None and rate in RATES.values():
        space["learning_rate"] = RATES.get(settings["optimizer"], rate)
    return space
