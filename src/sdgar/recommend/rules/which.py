"""Which items a rule is about: a list of them, those of some categories, or a field's values."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from typing import Any

from sdgar.recommend.rules.times import moment, number

Wanted = str | int | float | bool
"""A value that a field is to have."""
Bound = int | float | datetime.date
"""A number or a date that a field is to reach, or not to exceed."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What a field is to be: one of some values, or between two bounds."""

    field: str
    """The name of the field; ``category`` stands for the categories."""
    any_of: tuple[Wanted, ...] = ()
    """The values of which it is to have one; empty if there are bounds instead."""
    at_least: Bound | None = None
    """The least value, if there is one."""
    at_most: Bound | None = None
    """The largest value, if there is one."""

    def holds(self, values: tuple[Any, ...]) -> bool:
        """Tell whether one of the values of a field is as wanted."""
        if self.any_of:
            return any(_same(value, wanted) for value in values for wanted in self.any_of)
        return any(self._within(value) for value in values)

    def words(self) -> str:
        """Say what is wanted, in a few words."""
        if self.any_of:
            return f"{self.field} {' or '.join(_spelt(value) for value in self.any_of)}"
        parts = [f"at least {self.at_least}"] if self.at_least is not None else []
        parts += [f"at most {self.at_most}"] if self.at_most is not None else []
        return f"{self.field} {' and '.join(parts)}"

    def _within(self, value: Any) -> bool:
        for bound, sign in ((self.at_least, 1.0), (self.at_most, -1.0)):
            if bound is None:
                continue
            read = moment if isinstance(bound, datetime.date) else number
            distance = sign * (read(value) - read(bound))
            if math.isnan(distance) or distance < 0:
                return False
        return True


@dataclass(frozen=True, slots=True)
class Which:
    """The items that a rule is about; one of the three is given."""

    items: tuple[str | int, ...] = ()
    """The ids of the items."""
    categories: tuple[str, ...] = ()
    """The categories, of which an item has at least one."""
    where: tuple[Condition, ...] = ()
    """The conditions, all of which hold for an item."""

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions that items must meet, categories among them."""
        return (Condition("category", self.categories),) if self.categories else self.where

    def words(self) -> str:
        """Say which items are meant, in a few words."""
        if self.items:
            shown = ", ".join(str(item) for item in self.items[:3])
            return (
                f"item {shown}"
                if len(self.items) == 1
                else f"items {shown}" + (" and others" if len(self.items) > 3 else "")
            )
        return ", ".join(condition.words() for condition in self.conditions)


def _same(value: Any, wanted: Wanted) -> bool:
    """Tell whether a value is the wanted one; numbers and true or false may be spelt as text."""
    if isinstance(wanted, bool):
        return str(value).strip().lower() == str(wanted).lower()
    if isinstance(wanted, int | float):
        return number(value) == float(wanted)
    return str(value) == wanted


def _spelt(value: Wanted) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
