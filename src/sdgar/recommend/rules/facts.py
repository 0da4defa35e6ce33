"""Facts about items: categories, other fields, popularity, vectors and times.

They are kept by the index of an item in the model.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import Coded
from sdgar.data.ids import Ids, is_missing, plain
from sdgar.data.numbers import COUNTS
from sdgar.errors import UsageError

CATEGORY = "category"
"""The name of the field that holds the categories of an item."""
FIRST_SEEN = "first_seen"
"""The default name of the field that holds the time when an item appeared."""
_CATEGORIES = ("categories", CATEGORY)
_MICROS = 1_000_000
_FIRST_YEAR, _LAST_YEAR = 1000, 9999

FieldValue = str | int | float | bool
"""A value that a condition accepts."""
Bound = int | float | datetime.date
"""The minimum or maximum of a condition: a number or a date."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a field: one of some values, or a range."""

    field: str
    """The name of the field; ``category`` means the categories."""
    any_of: tuple[FieldValue, ...] = ()
    """The accepted values; empty for a range."""
    at_least: Bound | None = None
    """The minimum, if there is one."""
    at_most: Bound | None = None
    """The maximum, if there is one."""

    @classmethod
    def of(cls, field: str, wanted: Any) -> Condition:
        """Return the condition that a value in ``where`` means; raise if it means none."""
        field = CATEGORY if field == "categories" else field
        if isinstance(wanted, Mapping):
            bounds = list(wanted.values())
            fit = all(isinstance(one, Bound) and not isinstance(one, bool) for one in bounds)
            if not wanted or not set(wanted) <= {"at_least", "at_most"} or not fit:
                raise ValueError
            dates = {isinstance(one, datetime.date) for one in bounds}
            if len(dates) > 1 or (False in dates and not all(map(math.isfinite, bounds))):
                raise ValueError
            return cls(field, (), wanted.get("at_least"), wanted.get("at_most"))
        values = _values(wanted)
        if not values or not all(isinstance(value, FieldValue) for value in values):
            raise ValueError
        return cls(field, values)

    def holds(self, values: tuple[Any, ...]) -> bool:
        """Return whether one of the values of a field meets the condition."""
        if self.any_of:
            return any(_equal(value, wanted) for value in values for wanted in self.any_of)
        return any(self._in_range(value) for value in values)

    def words(self) -> str:
        """Return a short text of the condition."""
        if self.any_of:
            return f"{self.field} {' or '.join(_spelled(value) for value in self.any_of)}"
        bounds = (("at least", self.at_least), ("at most", self.at_most))
        parts = [f"{word} {bound}" for word, bound in bounds if bound is not None]
        return f"{self.field} {' and '.join(parts)}"

    def _in_range(self, value: Any) -> bool:
        for bound, sign in ((self.at_least, 1.0), (self.at_most, -1.0)):
            if bound is None:
                continue
            read = moment if isinstance(bound, datetime.date) else number
            distance = sign * (read(value) - read(bound))
            if math.isnan(distance) or distance < 0:
                return False
        return True


def _equal(value: Any, wanted: FieldValue) -> bool:
    """Return whether a value is the wanted one; numbers and booleans may be spelled as text."""
    if isinstance(wanted, bool):
        return str(value).strip().lower() == str(wanted).lower()
    if isinstance(wanted, int | float):
        return number(value) == float(wanted)
    return str(value) == wanted


def _spelled(value: FieldValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Facts:
    """Facts about the items of a model, by their indices.

    ``entries`` has a mapping of fields for some indices: ``{3: {"categories": ["drama"], "maker":
    "acme"}}``; other items have no categories and no fields. Facts do not change, so that threads
    can share them.
    """

    def __init__(
        self,
        entries: Mapping[int, Mapping[str, Any]],
        ids: Ids,
        *,
        popularity_I: NDArray[Any] | None = None,
        item_ID: NDArray[Any] | None = None,
    ) -> None:
        self._entries, self._ids, self.n_items = entries, ids, len(ids)
        self.popularity_I = popularity_I
        self.item_ID = item_ID if item_ID is not None and item_ID.shape[1] else None
        self._coded: dict[str, Coded] = {}
        self._times: dict[str, NDArray[np.float64]] = {}
        self._selected: dict[str, NDArray[np.bool_]] = {}

    @classmethod
    def of(cls, table: Mapping[Any, Mapping[str, Any]] | None, ids: Ids, **others: Any) -> Facts:
        """Return facts from fields by id; ids that are not among ``ids`` are left out."""
        given = list((table or {}).items())
        indices = ids.index_of([plain(one) for one, _ in given]).tolist()
        pairs = zip(indices, given, strict=True)
        entries = {index: entry for index, (_, entry) in pairs if index >= 0}
        return cls(entries, ids, **others)

    def categories_of(self, item: int) -> tuple[str, ...]:
        """Return the categories of an item, each once."""
        entry = self._entries.get(item, {})
        found: list[str] = []
        for name in _CATEGORIES:
            found += [str(one) for one in _values(entry.get(name), split=True)]
        return tuple(dict.fromkeys(found))

    def values_of(self, item: int, field: str) -> tuple[Any, ...]:
        """Return all values of an item in a field."""
        if field in _CATEGORIES:
            return self.categories_of(item)
        return _values(self._entries.get(item, {}).get(field))

    def fields(self) -> set[str]:
        """Return the names of the fields that some item has."""
        names = {name for entry in self._entries.values() for name in entry}
        return {CATEGORY if name in _CATEGORIES else name for name in names}

    def index_of(self, items: Sequence[str | int]) -> NDArray[np.int64]:
        """Return the indices of items that a rule names, -1 for unknown ones."""
        return self._ids.index_of(list(items))

    def coded(self, field: str) -> Coded:
        """Return the values of a field as codes."""
        if field not in self._coded:
            codes: dict[str, int] = {}
            rows: list[list[int]] = [[] for _ in range(self.n_items)]
            for item in self._entries:
                values = dict.fromkeys(str(one) for one in self.values_of(item, field))
                rows[item] = [codes.setdefault(value, len(codes)) for value in values]
            counts = np.array([len(row) for row in rows], np.int64)
            codes_E = np.array([code for row in rows for code in row], np.int64)
            indptr_I1 = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
            self._coded[field] = Coded(tuple(codes), indptr_I1, codes_E)
        return self._coded[field]

    def times(self, field: str) -> NDArray[np.float64]:
        """Return the time in a field of each item in seconds since 1970, NaN without one."""
        if field not in self._times:
            times_I = np.full(self.n_items, np.nan)
            for item in self._entries:
                if values := self.values_of(item, field):
                    times_I[item] = moment(values[0])
            self._times[field] = times_I
        return self._times[field]

    def selected(
        self, items: Sequence[str | int], conditions: Sequence[Condition]
    ) -> NDArray[np.bool_]:
        """Return whether each item is one of ``items``, or else meets all conditions."""
        key = repr((items, conditions))  # the values would do, but 1 and true are equal
        if key not in self._selected:
            selected_I = np.zeros(self.n_items, bool)
            if items:
                at = self.index_of(items)
                selected_I[at[at >= 0]] = True
            else:
                for item in self._entries:
                    selected_I[item] = all(
                        one.holds(self.values_of(item, one.field)) for one in conditions
                    )
            self._selected[key] = selected_I
        return self._selected[key]


def missing_facts(what: str, cure: str) -> UsageError:
    """Return the error for a rule or an option without the facts that it needs."""
    return UsageError(f"{what}. {cure}", code="nothing_to_go_by")


def moment(value: Any) -> float:
    """Return a point in time in seconds since 1970, NaN if the value is not one.

    Dates and ISO 8601 text are in UTC unless they name a zone. A whole number of four digits is a
    year. Other numbers count seconds, milliseconds, microseconds or nanoseconds, by magnitude.
    """
    if isinstance(value, datetime.datetime):
        at = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        return at.timestamp()
    if isinstance(value, datetime.date):
        return moment(datetime.datetime(value.year, value.month, value.day))
    count = number(value)
    if math.isnan(count):
        try:
            return moment(datetime.datetime.fromisoformat(str(value).strip()))
        except (ValueError, OverflowError):
            return math.nan
    if count.is_integer() and _FIRST_YEAR <= count <= _LAST_YEAR:
        return moment(datetime.datetime(int(count), 1, 1))
    for bound, micros in COUNTS:
        if count < bound:
            return count * micros / _MICROS
    return count / 1000 / _MICROS


def number(value: Any) -> float:
    """Return a number, or a text that spells one, as a float; NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return math.nan
    return found if math.isfinite(found) else math.nan


def _values(cell: Any, *, split: bool = False) -> tuple[Any, ...]:
    """Return the values of a cell; with ``split``, a text may hold several with | between them."""
    if isinstance(cell, str):
        return tuple(part for part in cell.split("|") if part) if split else (cell,)
    if isinstance(cell, list | tuple | set | frozenset | np.ndarray):
        return tuple(cell)
    return () if is_missing(cell) else (cell,)
