"""Ids and histories as callers pass them: how they are read, and how unknown ids are reported."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.data.ids import Ids, held, is_column, only_column, plain
from sdgar.data.interactions import Interactions
from sdgar.errors import DataError, SdgarWarning, UsageError

Raw = str | int | Mapping[str, Any] | Iterable[Any]
"""One raw id, or several; with contexts of several fields, mappings."""
One = str | int | Mapping[str, Any]
"""The id of one user, or a context of several fields."""
Histories = Interactions | Mapping[Any, Iterable[Any]] | Iterable[Iterable[Any]]
"""The items of new users: rows, items by user, or items alone, of users 0, 1, 2, …."""

FALLBACKS = ("popular", "skip", "error")
"""What unknown users get: popular items, nothing, or an error."""
MARKS = ("mark", "skip", "error")
"""What becomes of an unknown id that has no fallback: a row with a mark, no row, or an error."""
CONSEQUENCE = {
    "popular": "They get the most popular items.",
    "skip": "They are left out.",
    "mark": "They are marked as unknown.",
}
"""What becomes of unknown ids by each fallback, for warnings."""


def several(raw: Raw, name: str) -> list[Any]:
    """Return one or several ids as a list of plain values; a frame must have one column."""
    if isinstance(raw, np.ndarray) and raw.ndim == 0:
        raw = raw.item()
    raw = plain(only_column(raw, name))
    if is_one_id(raw):
        return [raw]
    if not isinstance(raw, int) and is_column(raw):
        ids = [plain(one) for one in raw]
        if all(map(is_one_id, ids)):
            return ids
    raise UsageError(
        f"{name} must be ids, each a text or an integer, got {raw!r:.60}.", code="bad_ids"
    )


def is_one_id(value: Any) -> bool:
    """Return whether a plain value is one id, or one context."""
    return isinstance(value, str | int | Mapping) and not isinstance(value, bool)


def find(ids: Ids, queried: list[Any], what: str, fallback: str) -> NDArray[np.int64]:
    """Return the index of each id, -1 for unknown ones, which are reported or refused."""
    index_T = ids.index_of(queried)
    report_unknown([queried[at] for at in np.flatnonzero(index_T < 0)], ids, what, fallback)
    return index_T


def report_unknown(unknown: list[Any], ids: Ids, what: str, fallback: str) -> None:
    """Warn of ids that the model does not have, or refuse them."""
    if not unknown:
        return
    text = (
        f"{_counted(unknown, f'{what} id is', f'{what} ids are')} unknown to the model: "
        f"{_some(unknown)}. It has {len(ids):,} {what}s with ids such as {_some(ids.values[:3])}."
    )
    if fallback == "error":
        raise UsageError(text, code=f"unknown_{what}")
    warn(f"{text} {CONSEQUENCE[fallback]}")


def without_items(users: NDArray[Any]) -> str:
    """Return a sentence on new users without any item that the model has."""
    who = _counted(users, "new user has", "new users have")
    return f"{who} no item that the model contains: {_some(users)}."


def warn(text: str) -> None:
    """Warn the caller of the library."""
    warnings.warn(text, SdgarWarning, stacklevel=4)


def _counted(ids: Sized, one: str, several: str) -> str:
    return f"1 {one}" if len(ids) == 1 else f"{len(ids):,} {several}"


def _some(ids: Sequence[Any] | NDArray[Any]) -> str:
    """Return the first few ids as text."""
    shown = ", ".join(repr(plain(one)) for one in ids[:5])
    return f"{shown} and others" if len(ids) > 5 else shown


def labels(ids: Ids, queried: list[Any], index_T: NDArray[np.int64]) -> NDArray[Any]:
    """Return the model's own id of each index, and the queried id where the index is -1."""
    known = ids.at(index_T.clip(min=0)).tolist() if len(ids) else queried
    return column_of(
        [
            own if at >= 0 else _as_integer(raw) if ids.kind != "text" else raw
            for own, raw, at in zip(known, queried, index_T.tolist(), strict=True)
        ]
    )


def _as_integer(raw: Any) -> Any:
    """Return an integer for its plain decimal spelling, and everything else as it is."""
    if isinstance(raw, str) and len(raw) < 20 and raw.isascii() and raw.lstrip("-").isdecimal():
        return int(raw) if str(int(raw)) == raw else raw
    return raw


def column_of(values: list[Any]) -> NDArray[Any]:
    """Return ids as a column of one type: integers, or text if that is what all of them can be."""
    try:
        return held(values)
    except DataError:
        return held([str(value) for value in values])


def rows_of(histories: Histories) -> Interactions:
    """Return one row for every item of every new user."""
    if isinstance(histories, Interactions):
        if histories.weight_E is not None:
            _warn_of_weights()
        return histories
    items_of = _items_by_user(histories)
    if not items_of:
        raise UsageError("there is no history to fold in.", code="empty_history")
    empty = [user for user, items in items_of.items() if not items]
    if empty:
        raise UsageError(
            f"{len(empty):,} histories are empty, the first are {empty[:5]!r}. Leave these users "
            "out: they can only get the most popular items.",
            code="empty_history",
        )
    users = [user for user, items in items_of.items() for _ in items]
    items = [item for items in items_of.values() for item in items]
    return Interactions.from_arrays(users, items, time=np.arange(len(items)))


def _items_by_user(histories: Any) -> dict[Any, list[Any]]:
    """Return the items of each new user, in their order."""
    if hasattr(histories, "columns"):
        raise UsageError(
            "histories are a frame, which has no order here. Pass sdgar.read(frame), which has "
            "one row for each user and item.",
            code="bad_history",
        )
    if not isinstance(histories, Mapping):
        histories = dict(enumerate(_require_items(histories)))
    found = {}
    for user, items in histories.items():
        if isinstance(items, Mapping):
            _warn_of_weights()
        own = [plain(item) for item in _require_items(items)]
        for one in (plain(user), *own):
            if isinstance(one, bool) or not isinstance(one, str | int):
                raise UsageError(
                    f"an id is text or an integer, got {one!r} in the histories.",
                    code="bad_history",
                )
        found[plain(user)] = own
    return found


def _require_items(given: Any) -> Any:
    """Return a collection of items or histories; raise for a single value."""
    if is_column(given):
        return given
    what = "this is text" if isinstance(given, str | bytes) else f"this is {given!r:.60}"
    raise UsageError(
        f"a history is a list of items, and {what}. Pass [['a', 'b']] for one user, or "
        "{'ann': ['a', 'b']}.",
        code="bad_history",
    )


def _warn_of_weights() -> None:
    warn("fold_in does not use the weights of rows: every item of a history counts alike.")


def history_of(rows: Interactions, users: Ids, items: Ids) -> History:
    """Return rows in the indices of a model, without unknown users and items."""
    users_E = users.index_of(rows.users.values)[rows.users_E]
    items_E = items.index_of(rows.items.values)[rows.items_E]
    known = (users_E >= 0) & (items_E >= 0)
    return History.of_pairs(users_E[known], items_E[known], len(users))


def in_order(rows: Interactions, items: Ids) -> NDArray[np.int64] | None:
    """Return the known items, user by user in the order of time; None without times."""
    if rows.time_E is None:
        return None
    items_E = items.index_of(rows.items.values)[rows.items_E]
    items_E = items_E[np.lexsort((rows.time_E, rows.users_E))]
    return items_E[items_E >= 0]
