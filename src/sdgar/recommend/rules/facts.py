"""What is known of items, by their numbers: categories, fields, popularity, vectors and times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.coded import Coded
from sdgar.data.ids import Ids, is_missing, plain
from sdgar.errors import UsageError
from sdgar.recommend.rules.times import moment
from sdgar.recommend.rules.which import Which

CATEGORY = "category"
"""The name of the field that holds the categories of an item."""
FIRST_SEEN = "first_seen"
"""The name of the field that says since when there is an item."""
_CATEGORIES = ("categories", CATEGORY)


class Facts:
    """What is known of the items of a model, by their numbers.

    ``entries`` has a mapping of fields for each number: ``{3: {"categories": ["drama"], "maker":
    "acme"}}``; numbers without an entry have no categories and no fields. ``ids`` are the ids by
    which rules name items; without them, rules name items by number. Facts do not change, so that
    threads may share them: make new ones when something becomes known.
    """

    def __init__(
        self,
        entries: Mapping[int, Mapping[str, Any]] | None = None,
        *,
        n_items: int | None = None,
        ids: Ids | None = None,
        popularity_I: NDArray[Any] | None = None,
        item_ID: NDArray[Any] | None = None,
        first_seen_I: NDArray[Any] | None = None,
    ) -> None:
        self._entries = dict(entries or {})
        if min(self._entries, default=0) < 0:
            raise UsageError(
                f"facts are by numbers of items from 0 on, got {min(self._entries)}. Use "
                "Facts.of(table, ids) for facts by id.",
                code="bad_facts",
            )
        self.ids = ids
        self.popularity_I = popularity_I
        self.item_ID = item_ID if item_ID is not None and item_ID.shape[1] else None
        self._first_seen_I = first_seen_I
        tables = (ids, popularity_I, item_ID, first_seen_I)
        sizes = [len(table) for table in tables if table is not None]
        self.n_items = max([n_items or 0, *sizes, *(number + 1 for number in self._entries)])
        self._coded: dict[str, Coded] = {}
        self._times: dict[str, NDArray[np.float64]] = {}
        self._meets: dict[str, NDArray[np.bool_]] = {}

    @classmethod
    def of(cls, table: Mapping[Any, Mapping[str, Any]] | None, ids: Ids, **others: Any) -> Facts:
        """Make facts from fields by id; ids that are not among ``ids`` are left out."""
        given = list((table or {}).items())
        numbers = ids.index_of([plain(one) for one, _ in given]).tolist()
        pairs = zip(numbers, given, strict=True)
        entries = {number: entry for number, (_, entry) in pairs if number >= 0}
        return cls(entries, ids=ids, **others)

    def categories_of(self, number: int) -> tuple[str, ...]:
        """Return the categories of an item, each once; none if nothing is known of it."""
        entry = self._entries.get(number, {})
        found: list[str] = []
        for name in _CATEGORIES:
            found += [str(one) for one in _several(entry.get(name), apart=True)]
        return tuple(dict.fromkeys(found))

    def value_of(self, number: int, field: str) -> Any:
        """Return what an item has in a field; None if nothing is known of it."""
        if field in _CATEGORIES:
            return self.categories_of(number)
        value = self._entries.get(number, {}).get(field)
        if value is None and field == FIRST_SEEN and self._first_seen_I is not None:
            seen = self._first_seen_I[number] if 0 <= number < len(self._first_seen_I) else None
            return None if is_missing(seen) else float(seen)  # type: ignore[arg-type]
        return value

    def values_of(self, number: int, field: str) -> tuple[Any, ...]:
        """Return all values that an item has in a field."""
        return _several(self.value_of(number, field))

    def fields(self) -> set[str]:
        """Return the names of the fields that some item has."""
        named = {name for entry in self._entries.values() for name in entry}
        found = {CATEGORY if name in _CATEGORIES else name for name in named}
        return found | ({FIRST_SEEN} if self._first_seen_I is not None else set())

    def numbers_of(self, items: Sequence[str | int]) -> NDArray[np.int64]:
        """Return the numbers of items that a rule names, -1 for those that are unknown."""
        if self.ids is not None:
            return self.ids.index_of(list(items))
        numbers = [int(one) if str(one).isdecimal() else -1 for one in items]
        return np.array(numbers, np.int64)

    def coded(self, field: str) -> Coded:
        """Return the values of a field as numbers."""
        if field not in self._coded:
            codes: dict[str, int] = {}
            rows: list[list[int]] = [[] for _ in range(self.n_items)]
            for number in self._entries:
                values = dict.fromkeys(str(one) for one in self.values_of(number, field))
                rows[number] = [codes.setdefault(value, len(codes)) for value in values]
            counts = np.array([len(row) for row in rows], np.int64)
            codes_E = np.array([code for row in rows for code in row], np.int64)
            indptr_I1 = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
            self._coded[field] = Coded(tuple(codes), indptr_I1, codes_E)
        return self._coded[field]

    def times(self, field: str) -> NDArray[np.float64]:
        """Return the moment in a field of each item in seconds since 1970, NaN if it has none."""
        if field not in self._times:
            times_I = np.full(self.n_items, np.nan)
            if field == FIRST_SEEN and self._first_seen_I is not None:
                times_I[: len(self._first_seen_I)] = self._first_seen_I
            for number in self._entries:
                if values := self.values_of(number, field):
                    times_I[number] = moment(values[0])
            self._times[field] = times_I
        return self._times[field]

    def meets(self, which: Which) -> NDArray[np.bool_]:
        """Return whether each item is one that a rule is about.

        Without ids a rule may name numbers beyond all items that are known; the answer then goes
        as far as these.
        """
        key = repr(which)  # 1 and true are equal, and not the same
        if key not in self._meets:
            at = self.numbers_of(which.items)
            meets_I = np.zeros(max(self.n_items, int(at.max(initial=-1)) + 1), bool)
            if which.items:
                meets_I[at[at >= 0]] = True
            else:
                known: Iterable[int] = self._entries
                if any(condition.field == FIRST_SEEN for condition in which.conditions):
                    known = range(self.n_items)
                for number in known:
                    meets_I[number] = all(
                        one.holds(self.values_of(number, one.field)) for one in which.conditions
                    )
            self._meets[key] = meets_I
        return self._meets[key]


def taken(column_I: NDArray[Any], items_N: NDArray[np.int64], missing: Any) -> NDArray[Any]:
    """Return the values of some items; items beyond the end of the column have none."""
    inside_N = items_N < len(column_I)
    if inside_N.all():
        return column_I[items_N]
    found_N = np.full(len(items_N), missing, column_I.dtype)
    found_N[inside_N] = column_I[items_N[inside_N]]
    return found_N


def no_basis(what: str, cure: str) -> UsageError:
    """Build the error for a dial that has nothing to go by."""
    return UsageError(f"{what}. {cure}", code="nothing_to_go_by")


def _several(value: Any, *, apart: bool = False) -> tuple[Any, ...]:
    """Return the values of a cell; text with | between them holds several if ``apart``."""
    if isinstance(value, str):
        return tuple(part for part in value.split("|") if part) if apart else (value,)
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        return tuple(value)
    return () if is_missing(value) else (value,)
