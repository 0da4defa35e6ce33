"""Contexts of several fields, such as (user, daypart) or (user, city).

A context is a row of the table of contexts, as a user is; its id is the JSON list of its fields'
values, such as ["ann","evening"]. Fields by time are derived from the timestamp, in UTC.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import Ids, held, plain
from sdgar.data.read_options import SeenBy
from sdgar.errors import DataError, UsageError

if TYPE_CHECKING:
    from sdgar.data.history import History

TAKEN = ("item", "rank", "score", "short", "basis")
"""The columns of a list of recommendations; a field cannot have one of these names."""
_HOUR = 3_600_000_000
_DAYS = ("thursday", "friday", "saturday", "sunday", "monday", "tuesday", "wednesday")
"""The days of the week, beginning with that of 1970-01-01."""
_PARTS = ("night", "morning", "afternoon", "evening")

DERIVED: dict[str, Callable[[NDArray[np.int64]], NDArray[Any]]] = {
    "hour": lambda micros: micros // _HOUR % 24,
    "weekday": lambda micros: np.array(_DAYS, dtype=object)[micros // (24 * _HOUR) % 7],
    "daypart": lambda micros: np.array(_PARTS, dtype=object)[micros // (6 * _HOUR) % 4],
}
"""The fields that are derived from microseconds since 1970; a part of the day has six hours."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The values that each context has of each field."""

    names: tuple[str, ...]
    """The names of the fields."""
    values: tuple[Ids, ...]
    """The ids of the values of each field."""
    index_UF: NDArray[np.int64]
    """The index of the value that each context has of each field."""

    @classmethod
    def of(cls, names: tuple[str, ...], contexts: Ids) -> Fields:
        """Read the fields from the ids of contexts, which are JSON lists."""
        rows = [json.loads(text) for text in contexts.values]
        if not all(isinstance(row, list) and len(row) == len(names) for row in rows):
            raise ValueError(f"a context is not a list of {len(names)} values")
        columns = [_ids([row[f] for row in rows]) for f in range(len(names))]
        index_UF = np.stack([index for _, index in columns], axis=1)
        return cls(names, tuple(ids for ids, _ in columns), index_UF)

    @property
    def first_F(self) -> NDArray[np.int64]:
        """The number of the first value of each field, if all fields are counted on."""
        return np.cumsum([0, *map(len, self.values)])[:-1]

    @property
    def n_values(self) -> int:
        """The number of values of all fields together."""
        return sum(map(len, self.values))

    @property
    def place_UF(self) -> NDArray[np.int64]:
        """The numbers of the values of each context, if all fields are counted on."""
        return self.index_UF + self.first_F

    def user_of(self, place_XF: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index of the user of each context."""
        at = self.names.index("user")
        user_X: NDArray[np.int64] = place_XF[:, at] - self.first_F[at]
        return user_X

    def same_seen(self, new_XF: NDArray[np.int64], seen_by: SeenBy) -> NDArray[np.int64]:
        """Return for each new context a known one whose lists leave out the same items, or -1."""
        if seen_by == "context":
            return np.full(len(new_XF), -1)
        _, first = np.unique(self.user_of(self.place_UF), return_index=True)
        return first[self.user_of(new_XF)]

    def match(self, other: Fields) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the index of each of the other contexts, and the values of the new ones.

        A new combination of known values is numbered from the number of contexts on; its places
        are a row of the second array. One with a value that is not known here is -1.
        """
        known = [
            mine.index_of(theirs.values)
            for mine, theirs in zip(self.values, other.values, strict=True)
        ]
        index_CF = np.stack([at[other.index_UF[:, f]] for f, at in enumerate(known)], axis=1)
        number_C = np.full(len(index_CF), -1, np.int64)
        usable_C = np.flatnonzero((index_CF >= 0).all(axis=1))
        n = len(self.index_UF)
        both = np.concatenate((self.index_UF, index_CF[usable_C]))
        distinct, place_R = np.unique(both, axis=0, return_inverse=True)
        own = np.full(len(distinct), -1, np.int64)
        own[place_R.reshape(-1)[:n]] = np.arange(n)
        number_C[usable_C] = own[place_R.reshape(-1)[n:]]
        new_C = usable_C[number_C[usable_C] < 0]
        number_C[new_C] = n + np.arange(len(new_C))
        return number_C, index_CF[new_C] + self.first_F

    def places(self, context: Mapping[str, Any]) -> NDArray[np.int64]:
        """Return the values of a context, which may be new; raise if a value is unknown."""
        self.require_names(context)
        found = []
        for name, ids, first in zip(self.names, self.values, self.first_F, strict=True):
            at = int(ids.index_of([context[name]])[0])
            if at < 0:
                raise UsageError(
                    f"the model has no {name} {context[name]!r}. It has {len(ids):,}, such as "
                    f"{ids.values[:3].tolist()!r}.",
                    code=f"unknown_{name}" if name == "user" else "unknown_value",
                )
            found.append(first + at)
        return np.array(found)

    def require_names(self, context: Mapping[str, Any]) -> None:
        """Raise if a context lacks a field or has an unknown one."""
        if set(context) != set(self.names):
            raise UsageError(
                f"a context of this model is {', '.join(self.names)}; got "
                f"{', '.join(map(str, context)) or 'nothing'}.",
                code="bad_context",
            )

    def key(self, context: Mapping[str, Any]) -> str:
        """Return the id of a context whose values are known: 17 and "17" name the same one."""
        values = [
            ids.values[ids.index_of([context[name]])[0]]
            for name, ids in zip(self.names, self.values, strict=True)
        ]
        return key(values)


def excluded(history: History, fields: Fields | None, seen_by: SeenBy) -> History:
    """Return the items that are neither recommended to a context nor drawn as its negatives.

    seen by the user:       { i : some context of the user of c has i }
    seen by the context:    { i : c has i }
    """
    if fields is None or seen_by == "context":
        return history
    user_U = fields.user_of(fields.place_UF)
    return history.of_groups(user_U).rows(user_U)


def require_fields(names: Sequence[str]) -> None:
    """Raise if the fields cannot make a context."""
    if "user" not in names or len(set(names)) < len(names):
        raise UsageError(
            "a context has the user and other fields, each once; got "
            f"{', '.join(map(str, names)) or 'none'}.",
            code="bad_option",
        )
    if taken := [name for name in names if name in TAKEN]:
        raise UsageError(
            f"a field of the context cannot be called {taken[0]!r}, which is a column of the "
            "recommendations. Rename it.",
            code="bad_option",
        )


def key(values: Sequence[Any]) -> str:
    """Return the id of a context."""
    return json.dumps([plain(v) for v in values], ensure_ascii=False, separators=(",", ":"))


def combined(columns: Mapping[str, NDArray[Any]]) -> tuple[Ids, NDArray[np.int64]]:
    """Return the ids of the contexts that occur in columns of values, and the index of each row."""
    parts = [np.unique(column, return_inverse=True) for column in columns.values()]
    rows_RF, context_E = np.unique(
        np.stack([index for _, index in parts], axis=1), axis=0, return_inverse=True
    )
    keys = np.array(
        [*(key([distinct[at] for (distinct, _), at in zip(parts, row, strict=True)])
           for row in rows_RF), None],
        dtype=object,
    )[:-1]  # fmt: skip
    order = np.argsort(keys)
    return Ids(keys[order]), np.argsort(order)[context_E.reshape(-1)]


def derived(name: str, micros: NDArray[np.int64] | None) -> NDArray[Any]:
    """Return a field that is derived from the time."""
    if micros is None:
        raise DataError(
            f"the context field {name!r} is derived from the time, and there is no time column. "
            "Name it with --time-column.",
            code="no_time",
        )
    return DERIVED[name](micros)


def _ids(values: list[Any]) -> tuple[Ids, NDArray[np.int64]]:
    distinct, index = np.unique(held(values, "values of a field"), return_inverse=True)
    return Ids(distinct), index.astype(np.int64)
