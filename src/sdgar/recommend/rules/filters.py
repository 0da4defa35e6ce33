"""Rules that decide which items may be listed at all, and how rules select items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sdgar.recommend.rules.facts import CATEGORY, FIRST_SEEN, Condition, Facts
from sdgar.recommend.rules.settings import Age, Field, ItemIds, Name, Rule, RuleField, Texts


def _conditions(value: Any) -> tuple[Condition, ...]:
    if not isinstance(value, Mapping):
        raise ValueError
    return tuple(Condition.of(str(field), wanted) for field, wanted in value.items())


Where = Annotated[
    tuple[Condition, ...],
    RuleField(
        _conditions,
        'Write {field = "value"}, a list of values, or {field = {at_least = 1, at_most = 5}}, with '
        "numbers or dates.",
    ),
]
"""Conditions on the fields of items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectingRule(Rule):
    """A rule about some items, which are named in one of three ways."""

    items: ItemIds = ()
    """The ids of the items."""
    categories: Texts = ()
    """The categories, of which an item has at least one."""
    where: Where = ()
    """The conditions, all of which an item meets."""
    name: Name = None
    """The name of the rule."""

    def __post_init__(self) -> None:
        """Raise unless items are named in exactly one way."""
        if sum(map(bool, (self.items, self.categories, self.where))) != 1:
            msg = (
                "it must say which items, by one of items = [ids], categories = [names] and "
                "where = {field = value}; where = {category = …, field = …} requires all of its "
                "conditions."
            )
            raise ValueError(msg)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions on items, including one for the categories."""
        return (Condition(CATEGORY, self.categories),) if self.categories else self.where

    @property
    def item_fields(self) -> set[str]:
        """The fields of items that the rule reads."""
        return {condition.field for condition in self.conditions}

    def selected(self, facts: Facts) -> NDArray[np.bool_]:
        """Return whether each item is one of the rule's; see ``Facts.selected``."""
        return facts.selected(self.items, self.conditions)

    def words(self) -> str:
        """Return the name of the rule, or a short text of its items."""
        if self.name or not self.items:
            return self.name or ", ".join(condition.words() for condition in self.conditions)
        shown = ", ".join(str(item) for item in self.items[:3])
        if len(self.items) == 1:
            return f"item {shown}"
        return f"items {shown}" + (" and others" if len(self.items) > 3 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRule(SelectingRule):
    """B ← B ∪ W: the items W of the rule are never listed."""

    kind: ClassVar[str] = "block"

    def blocked(self, facts: Facts, now: float) -> NDArray[np.bool_]:
        """Return whether each item is blocked."""
        return self.selected(facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowRule(SelectingRule):
    """B ← B ∪ (I - W): only the items W of the rule are listed; every such rule applies."""

    kind: ClassVar[str] = "allow"

    def blocked(self, facts: Facts, now: float) -> NDArray[np.bool_]:
        """Return whether each item is blocked."""
        return ~self.selected(facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeRule(Rule):
    """B ← B ∪ { i : now - t_i < at_least or now - t_i > at_most }, with t_i the time in a field.

    An item without a time is blocked if there is a maximum, since it may be too old, and listed if
    there is only a minimum. An item of the future has a negative age.
    """

    kind: ClassVar[str] = "age"

    at_least: Age = None
    """The minimum age in seconds."""
    at_most: Age = None
    """The maximum age in seconds."""
    field: Field = FIRST_SEEN
    """The field that holds the time."""
    name: Name = None
    """The name of the rule."""

    def __post_init__(self) -> None:
        """Raise if there is no bound, or if no age fits."""
        if self.at_least is None and self.at_most is None:
            msg = 'it has no bound. Write at_least = "7d", at_most = "1y" or both.'
            raise ValueError(msg)
        if None not in (self.at_least, self.at_most) and self.at_least > self.at_most:  # type: ignore[operator]
            msg = "at_least is more than at_most. Exchange them."
            raise ValueError(msg)

    def blocked(self, facts: Facts, now: float) -> NDArray[np.bool_]:
        """Return whether each item is blocked."""
        age_I = now - facts.times(self.field)
        blocked_I = np.zeros(len(age_I), bool)
        if self.at_least is not None:
            blocked_I |= age_I < self.at_least
        if self.at_most is not None:
            blocked_I |= ~(age_I <= self.at_most)
        return blocked_I
