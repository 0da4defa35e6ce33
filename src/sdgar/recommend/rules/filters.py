"""Rules that decide which items may be listed at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdgar.recommend.rules.facts import FIRST_SEEN, Facts
from sdgar.recommend.rules.which import Which


@dataclass(frozen=True, slots=True)
class Block:
    """B ← B ∪ W: the items W of the rule are never listed."""

    which: Which
    """The items that are left out."""
    name: str | None = None
    """The name of the rule."""

    def blocked(self, facts: Facts, now: float) -> NDArray[np.bool_]:
        """Return whether each item is left out."""
        return facts.meets(self.which)


@dataclass(frozen=True, slots=True)
class Allow:
    """B ← B ∪ (I - W): only the items W of the rule are listed; each such rule must be met."""

    which: Which
    """The items that may be listed."""
    name: str | None = None
    """The name of the rule."""

    def blocked(self, facts: Facts, now: float) -> NDArray[np.bool_]:
        """Return whether each item is left out."""
        return ~facts.meets(self.which)


@dataclass(frozen=True, slots=True)
class Age:
    """B ← B ∪ { i : now - t_i < least or now - t_i > most }, with t_i the moment in a field.

    An item without a moment is left out if there is a most, since it may be too old, and listed
    if there is only a least. An item of the future has a negative age.
    """

    field: str = FIRST_SEEN
    """The field that holds the moment."""
    at_least: float | None = None
    """The least age in seconds."""
    at_most: float | None = None
    """The largest age in seconds."""
    name: str | None = None
    """The name of the rule."""

    def blocked(self, facts: Facts, now: float) -> NDArray[np.bool_]:
        """Return whether each item is left out."""
        age_I = now - facts.times(self.field)
        blocked_I = np.zeros(len(age_I), bool)
        if self.at_least is not None:
            blocked_I |= age_I < self.at_least
        if self.at_most is not None:
            blocked_I |= ~(age_I <= self.at_most)
        return blocked_I


Filter = Block | Allow | Age
"""A rule that decides which items may be listed."""


def blocked_items(
    filters: tuple[Filter, ...], categories: frozenset[str], facts: Facts, now: float
) -> NDArray[np.bool_] | None:
    """Return whether each item may not be listed; None if nothing is left out.

    The last entry, behind those of all items, is for items that the facts do not know.
    """
    rules = list(filters)
    if categories:
        rules.append(Block(Which(categories=tuple(sorted(categories)))))
    if not rules:
        return None
    found = [rule.blocked(facts, now) for rule in rules]
    size = max(len(blocked_I) for blocked_I in found)
    blocked_I1 = np.zeros(size + 1, bool)
    for rule, blocked_I in zip(rules, found, strict=True):
        blocked_I1[: len(blocked_I)] |= blocked_I
        if isinstance(rule, Allow) or (isinstance(rule, Age) and rule.at_most is not None):
            blocked_I1[len(blocked_I) :] = True
    return blocked_I1
