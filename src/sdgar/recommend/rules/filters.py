"""Rules that decide which items may be listed at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdgar.recommend.rules.facts import FIRST_SEEN, Facts, ItemSelector


@dataclass(frozen=True, slots=True)
class BlockRule:
    """B ← B ∪ W: the items W of the rule are never listed."""

    selector: ItemSelector
    """The blocked items."""
    name: str | None = None
    """The name of the rule."""

    @property
    def blocks_unknown(self) -> bool:
        """Whether items without facts are blocked."""
        return False

    def blocked(self, facts: Facts, now: float) -> NDArray[np.bool_]:
        """Return whether each item is blocked."""
        return facts.selected(self.selector)


@dataclass(frozen=True, slots=True)
class AllowRule:
    """B ← B ∪ (I - W): only the items W of the rule are listed; every such rule applies."""

    selector: ItemSelector
    """The allowed items."""
    name: str | None = None
    """The name of the rule."""

    @property
    def blocks_unknown(self) -> bool:
        """Whether items without facts are blocked."""
        return True

    def blocked(self, facts: Facts, now: float) -> NDArray[np.bool_]:
        """Return whether each item is blocked."""
        return ~facts.selected(self.selector)


@dataclass(frozen=True, slots=True)
class AgeRule:
    """B ← B ∪ { i : now - t_i < at_least or now - t_i > at_most }, with t_i the time in a field.

    An item without a time is blocked if there is a maximum, since it may be too old, and listed if
    there is only a minimum. An item of the future has a negative age.
    """

    field: str = FIRST_SEEN
    """The field that holds the time."""
    at_least: float | None = None
    """The minimum age in seconds."""
    at_most: float | None = None
    """The maximum age in seconds."""
    name: str | None = None
    """The name of the rule."""

    @property
    def blocks_unknown(self) -> bool:
        """Whether items without facts are blocked."""
        return self.at_most is not None

    def blocked(self, facts: Facts, now: float) -> NDArray[np.bool_]:
        """Return whether each item is blocked."""
        age_I = now - facts.times(self.field)
        blocked_I = np.zeros(len(age_I), bool)
        if self.at_least is not None:
            blocked_I |= age_I < self.at_least
        if self.at_most is not None:
            blocked_I |= ~(age_I <= self.at_most)
        return blocked_I


def blocked_items(
    filters: tuple[BlockRule | AllowRule | AgeRule, ...],
    categories: frozenset[str],
    facts: Facts,
    now: float,
) -> NDArray[np.bool_] | None:
    """Return whether each item is blocked; None if none is.

    The last entry, after all items, is for items without facts.
    """
    rules = list(filters)
    if categories:
        rules.append(BlockRule(ItemSelector(categories=tuple(sorted(categories)))))
    if not rules:
        return None
    found = [rule.blocked(facts, now) for rule in rules]
    blocked_I1 = np.zeros(max(len(blocked_I) for blocked_I in found) + 1, bool)
    for rule, blocked_I in zip(rules, found, strict=True):
        blocked_I1[: len(blocked_I)] |= blocked_I
        if rule.blocks_unknown:
            blocked_I1[len(blocked_I) :] = True
    return blocked_I1
