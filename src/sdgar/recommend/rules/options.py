"""The re-ranking options of one request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from sdgar.errors import UsageError


@dataclass(frozen=True)
class RerankOptions:
    """The options of one request; their strengths are added to the rules' own."""

    diversity: float = 0.0
    """The strength of diversity, from 0 (none) to 1 (only diversity counts)."""
    popularity: float = 0.0
    """The weight of popularity, from -1 (rare items first) to 1 (popular items first)."""
    exclude_categories: frozenset[str] = frozenset()
    """The categories whose items are left out."""

    def __post_init__(self) -> None:
        """Raise if an option is out of its range."""
        object.__setattr__(self, "diversity", _in_range("diversity", self.diversity, 0.0, 1.0))
        object.__setattr__(self, "popularity", _in_range("popularity", self.popularity, -1.0, 1.0))
        names: Any = self.exclude_categories
        several = isinstance(names, Iterable) and not isinstance(names, str)
        found = frozenset(names) if several else frozenset()
        if not several or not all(isinstance(name, str) for name in found):
            raise UsageError(
                "exclude_categories must be names of categories, such as ['drama'], got "
                f"{names!r:.60}.",
                code="bad_option",
            )
        object.__setattr__(self, "exclude_categories", found)

    @property
    def reranks(self) -> bool:
        """Whether an option changes the order of a list."""
        return bool(self.diversity or self.popularity)


def _in_range(name: str, value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= float(value) <= high:
        raise UsageError(
            f"{name} must be a number from {low:g} to {high:g}, got {value!r}.", code="bad_option"
        )
    return float(value)


NO_OPTIONS = RerankOptions()
"""The options of a request without any."""
