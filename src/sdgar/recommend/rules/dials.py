"""What one request wants of its list, beside the rules of the house."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from sdgar.errors import UsageError


@dataclass(frozen=True)
class Dials:
    """The dials of one request; those of the rules are added to them."""

    diversity: float = 0.0
    """The strength of diversity, from 0 (none) to 1 (items are only to differ)."""
    popularity: float = 0.0
    """The weight of popularity, from -1 (rare items first) to 1 (popular items first)."""
    exclude_categories: frozenset[str] = frozenset()
    """The categories whose items are left out."""

    def __post_init__(self) -> None:
        """Raise if a dial is out of its range."""
        object.__setattr__(self, "diversity", between("diversity", self.diversity, 0.0, 1.0))
        object.__setattr__(self, "popularity", between("popularity", self.popularity, -1.0, 1.0))
        names: Any = self.exclude_categories
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise _not_categories(names)
        found = frozenset(names)
        if not all(isinstance(name, str) for name in found):
            raise _not_categories(names)
        object.__setattr__(self, "exclude_categories", found)


def between(name: str, value: Any, low: float, high: float) -> float:
    """Return ``value`` if it is a number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= float(value) <= high:
        raise UsageError(
            f"{name} must be a number from {low:g} to {high:g}, got {value!r}.", code="bad_dial"
        )
    return float(value)


def _not_categories(value: object) -> UsageError:
    return UsageError(
        f"exclude_categories must be names of categories, such as ['drama'], got {value!r:.60}.",
        code="bad_dial",
    )
