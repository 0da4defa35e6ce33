"""The settings of one rule in a file: each value is checked, and none is ignored."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any

from sdgar.errors import UsageError, did_you_mean
from sdgar.recommend.rules.facts import (
    CATEGORY,
    Bound,
    Condition,
    FieldValue,
    ItemSelector,
    duration,
)


class SettingsTable:
    """The settings of one rule, checked one by one; errors name its place in the file."""

    def __init__(self, place: str, values: object) -> None:
        if not isinstance(values, Mapping):
            raise UsageError(
                f"{place} must be a table of settings, got {_shown(values)}.", code="bad_rules"
            )
        self._place, self._values = place, dict(values)
        self._known: list[str] = []

    def wrong(self, what: str, cure: str) -> UsageError:
        """Return the error for a mistake in this table."""
        return UsageError(f"{self._place}: {what}. {cure}", code="bad_rules")

    def take(self, name: str) -> Any:
        """Return an unchecked value, or None if it is missing."""
        self._known.append(name)
        return self._values.pop(name, None)

    def require_all_used(self) -> None:
        """Raise if there is a setting that the rule does not have."""
        for name in self._values:
            raise self.wrong(
                f"there is no setting {name!r}.{did_you_mean(name, self._known)}".rstrip("."),
                f"Settings: {', '.join(self._known)}.",
            )

    def text(self, name: str, default: str | None = None) -> str | None:
        """Return a text that is not empty."""
        value = self.take(name)
        if value is None:
            return default
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(f"{name} is {_shown(value)}", "Write a text in quotation marks.")
        return value

    def choice(self, name: str, choices: tuple[str, ...]) -> Any:
        """Return one of some words; the first if it is missing."""
        value = self.take(name)
        if value is not None and value not in choices:
            words = [f'"{choice}"' for choice in choices]
            cure = f"Write {', '.join(words[:-1])} or {words[-1]}.{did_you_mean(value, choices)}"
            raise self.wrong(f"{name} is {_shown(value)}", cure)
        return choices[0] if value is None else value

    def number(
        self,
        name: str,
        low: float,
        high: float,
        default: float | None = None,
        *,
        above: bool = False,
    ) -> float:
        """Return a number from ``low`` to ``high``; with ``above``, ``low`` itself is refused."""
        value = self._required(name, default, f"{name} = a number, such as {high:g}")
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if not fits or not low <= value <= high or (above and value == low):
            least = f"above {low:g} and at most" if above else f"from {low:g} to"
            raise self.wrong(f"{name} is {_shown(value)}", f"Write a number {least} {high:g}.")
        return float(value)

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """Return an integer from ``low`` to ``high``."""
        value = self._required(name, default, f"{name} = {low}, or more")
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(
                f"{name} is {_shown(value)}", f"Write a whole number from {low:,} to {high:,}."
            )
        return value

    def _required(self, name: str, default: Any, example: str) -> Any:
        value = self.take(name)
        value = default if value is None else value
        if value is None:
            raise self.wrong(f"{name} is missing", f"Write {example}.")
        return value

    def duration(self, name: str) -> float | None:
        """Return a duration in seconds, or None if it is missing."""
        value = self.take(name)
        seconds = None if value is None else duration(value)
        if value is not None and seconds is None:
            raise self.wrong(
                f"{name} is {_shown(value)}, which is not a duration",
                'Write "90s", "30min", "12h", "7d", "2w" or "1y".',
            )
        return seconds

    def texts(self, name: str) -> tuple[str, ...]:
        """Return texts; a single text needs no brackets."""
        values = self._list(name)
        if not all(isinstance(value, str) and value for value in values):
            raise self.wrong(
                f"{name} is {_shown(values)}", f'Write {name} = ["one", "another"], as texts.'
            )
        return tuple(values)

    def ids(self, name: str) -> tuple[str | int, ...]:
        """Return ids of items; a single id needs no brackets."""
        values = self._list(name)
        if not all(
            isinstance(v, str | int) and not isinstance(v, bool) and v != "" for v in values
        ):
            raise self.wrong(
                f"{name} is {_shown(values)}, and an id is a text or a whole number",
                f'Write {name} = ["a", "b"] or {name} = [1, 2].',
            )
        return tuple(values)

    def selector(self) -> ItemSelector:
        """Return the items of the rule, by one of items, categories and where."""
        given = [name for name in ("items", "categories", "where") if name in self._values]
        if len(given) != 1:
            what = " and ".join(given) + " are given" if given else "it does not say which items"
            raise self.wrong(
                what,
                "Give one of items = [ids], categories = [names] and where = {field = value}; "
                "where = {category = …, field = …} requires all of its conditions.",
            )
        found = ItemSelector(self.ids("items"), self.texts("categories"), self._where())
        if not (found.items or found.categories or found.where):
            raise self.wrong(f"{given[0]} is empty", "Name at least one, or leave the rule out.")
        return found

    def _list(self, name: str) -> list[Any]:
        value = self.take(name)
        return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]

    def _where(self) -> tuple[Condition, ...]:
        value = self.take("where")
        if value is None:
            return ()
        if not isinstance(value, Mapping):
            raise self.wrong(
                f"where is {_shown(value)}", 'Write where = {field = "value"}, or {stock = 0}.'
            )
        return tuple(self._condition(str(field), wanted) for field, wanted in value.items())

    def _condition(self, field: str, wanted: Any) -> Condition:
        field = CATEGORY if field == "categories" else field
        if isinstance(wanted, Mapping):
            bounds = dict(wanted)
            low, high = bounds.pop("at_least", None), bounds.pop("at_most", None)
            if bounds or (low is None and high is None) or not _are_bounds(low, high):
                raise self.wrong(
                    f"where.{field} is {_shown(wanted)}",
                    "Write {at_least = 1}, {at_most = 5} or both, with numbers or dates.",
                )
            return Condition(field, (), low, high)
        values = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
        if not values or not all(isinstance(value, FieldValue) for value in values):
            raise self.wrong(
                f"where.{field} is {_shown(wanted)}",
                "Write a text, a number, true or false, or a list of these.",
            )
        return Condition(field, tuple(values))


def _are_bounds(*bounds: Any) -> bool:
    """Return whether all bounds that are given are finite numbers, or all are dates."""
    given = [bound for bound in bounds if bound is not None]
    fit = all(isinstance(b, Bound) and not isinstance(b, bool) for b in given)
    finite = all(isinstance(b, datetime.date) or math.isfinite(b) for b in given) if fit else False
    return finite and len({isinstance(b, datetime.date) for b in given}) == 1


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
