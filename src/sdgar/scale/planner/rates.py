"""How fast one core is: the operations that it does in a second, for each kind of work.

Rates are measured: by a probe on this machine (``probe.py``), or from the report of a training that
was run. They are never typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from sdgar.errors import DataError
from sdgar.scale.planner import work as count
from sdgar.scale.planner.workload import Workload

PARTS = {
    "start": ("start",),
    "refit": ("classes", "lead"),
    "train": ("prepare", "users", "score", "move", "follow"),
    "memory": ("pairs", "systems", "choose"),
    "evaluate": ("measure",),
}
"""The kinds of work in each part of the seconds that the report of a run tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The operations of each kind that one core does in a second; see ``work.py``."""

    start: float
    """The rate of least squares on the first rows."""
    classes: float
    """The rate of latent classes."""
    users: float
    """The rate at which users of a block are brought to where they start."""
    prepare: float
    """The rate at which the rows of a block are laid out, by one thread."""
    visits: float
    """The rate of scores and steps."""
    follow: float
    """The rate of refits."""
    pairs: float
    """The rate at which items that occur together are counted."""
    systems: float
    """The rate at which weights between items are solved for."""
    choose: float
    """The rate at which the weight of the memory is chosen."""
    measure: float
    """The rate at which all items are ranked for a user."""

    def scaled_to(self, work: Workload, blocks: int, core_seconds: Mapping[str, float]) -> Rates:
        """Return the rates by which the parts of a run take the seconds of cores that they took.

        The report of a run does not tell the kinds of work of one part apart, so all of them are
        faster or slower by the same factor.
        """
        done, found = operations(work, blocks), self.as_dict()
        for part, kinds in PARTS.items():
            expected = sum(done[kind] / self.of(kind) for kind in kinds)
            for name in {RATE_OF.get(kind, kind) for kind in kinds}:
                found[name] *= expected / core_seconds[part] if expected else 1.0
        return Rates(**found)

    @classmethod
    def from_dict(cls, told: Any) -> Rates:
        """Return rates from what ``as_dict`` gave; raise if a number is missing or no rate."""
        names = [field.name for field in fields(cls)]
        given = told.get("rates", told) if isinstance(told, Mapping) else {}
        wrong = [
            name
            for name in names
            if isinstance(given.get(name), bool)
            or not isinstance(given.get(name), int | float)
            or not 0 < given[name] < float("inf")
        ]
        if wrong:
            raise DataError(
                f"these are no rates: {', '.join(wrong)} must be positive numbers. Measure rates "
                "with sdgar plan … --json.",
                code="bad_rates",
            )
        return cls(**{name: float(given[name]) for name in names})

    def as_dict(self) -> dict[str, float]:
        """Return plain numbers, for JSON."""
        return asdict(self)

    def of(self, kind: str) -> float:
        """Return the operations of a kind of work that a core does in a second."""
        return float(getattr(self, RATE_OF.get(kind, kind)))


RATE_OF = {
    "score": "visits",
    "move": "visits",
    "lead": "follow",
    "judge": "measure",
}
"""The rate of each kind of work that has the rate of another one."""


def operations(work: Workload, blocks: int) -> dict[str, float]:
    """Return the operations of all kinds of work, with the systems of items in so many blocks."""
    found = {name: of(work) for name, of in count.BY_NAME.items()}
    return found | {"pairs": count.pairs(work, blocks)}
