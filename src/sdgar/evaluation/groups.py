"""Groups of users or of held-out items, each with its own metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import is_missing, plain
from sdgar.errors import DataError, UsageError
from sdgar.evaluation.ranked import Ranked

ACTIVITY, POPULARITY = "activity", "popularity"
"""The two ways to group that need no table."""
Facts = Mapping[Any, Mapping[str, Any]]
"""Fields by id, as ``sdgar.read_facts`` returns them."""
Groups = dict[str, tuple[NDArray[np.int64], Ranked]]
"""The groups by name: the places of their users in the whole, and their lists."""
_QUARTERS = (0.25, 0.5, 0.75, 1.0)
_MOST_VALUES, _MOST_GROUPS = 10, 100
"""The most numbers that are separate groups, and the most groups."""
Values = tuple[Any, ...]


def grouped(
    what: str,
    ranked: Ranked,
    ids_T: NDArray[Any],
    *,
    users: Facts | None = None,
    items: Facts | None = None,
) -> Groups:
    """Return the groups by activity, by popularity, or by a column of a table."""
    held_out, known = ranked.held_out, ranked.known
    if what == ACTIVITY:
        length_T = np.diff(known.own_of(held_out.users_T).indptr_U1)
        return _of_users(ranked, _quarters(length_T, "{} items"))
    if what == POPULARITY:
        count_I1 = np.append(known.count_I, 0)  # cold items have no users
        count_E = count_I1[np.minimum(held_out.items_E, known.n_items)]
        return _of_rows(ranked, what, _quarters(count_E, "{} users"))
    if users is not None and _has(users, what):
        return _of_users(ranked, _named(what, _looked_up(users, ids_T.tolist(), what)))
    if items is not None and _has(items, what):
        numbers = range(known.n_items)
        ids_I = numbers if known.items is None else known.items.values.tolist()
        of_items = _looked_up(items, ids_I, what)
        of_rows = [of_items[i] if i < len(of_items) else () for i in held_out.items_E.tolist()]
        return _of_rows(ranked, what, _named(what, of_rows))
    columns = sorted(
        {name for table in (users, items) for row in (table or {}).values() for name in row}
    )
    raise UsageError(
        f"there is no column {what!r} to group by. Group by {ACTIVITY}, by {POPULARITY}, or by a "
        + (f"column: {', '.join(columns)}." if columns else "column of a table: none was given."),
        code="missing_column",
    )


def _of_users(ranked: Ranked, members: dict[str, NDArray[np.bool_]]) -> Groups:
    places = {name: np.flatnonzero(in_T) for name, in_T in members.items()}
    return {name: (at, ranked.only(at)) for name, at in places.items()}


def _of_rows(ranked: Ranked, what: str, members: dict[str, NDArray[np.bool_]]) -> Groups:
    found: Groups = {}
    for name, in_E in members.items():
        part = ranked.among(in_E)
        if not part.metrics:
            raise UsageError(
                f"{what} groups held-out items, and all requested metrics are of whole lists. Add "
                "a metric of accuracy, such as ndcg@10.",
                code="bad_metric",
            )
        found[name] = ranked.held_out.among(in_E)[1], part
    return found


def _quarters(values: NDArray[Any], words: str) -> dict[str, NDArray[np.bool_]]:
    """Return about as many values in each of four groups; equal values stay together."""
    ends = np.unique(np.quantile(values, _QUARTERS, method="inverted_cdf"))
    group = np.searchsorted(ends, values)
    found = {}
    for number in range(len(ends)):
        inside = group == number
        low, high = values[inside].min(), values[inside].max()
        said = f"{low:,g}" if low == high else f"{low:,g} to {high:,g}"
        found[words.format(said)] = inside
    return found


def _named(what: str, values: list[Values]) -> dict[str, NDArray[np.bool_]]:
    """Return the members of each value of a column, and of none; many numbers go into quarters."""
    numbers = _numbers(values)
    none = np.array([not one for one in values])
    found: dict[str, NDArray[np.bool_]]
    if numbers is not None and len(np.unique(numbers[~none])) > _MOST_VALUES:
        found = {}
        for name, inside in _quarters(numbers[~none], "{}").items():
            found[name] = np.zeros(len(values), bool)
            found[name][~none] = inside
    else:
        by_value = None if numbers is None else float
        names = sorted({str(one) for row in values for one in row}, key=by_value)
        if len(names) > _MOST_GROUPS:
            raise DataError(
                f"the column {what!r} has {len(names):,} different values, and at most "
                f"{_MOST_GROUPS} groups are shown. Group by a column with fewer values.",
                code="too_many_groups",
            )
        place = {name: number for number, name in enumerate(names)}
        has_NG = np.zeros((len(values), len(names)), bool)
        for at, row in enumerate(values):
            has_NG[at, [place[str(one)] for one in row]] = True
        found = {name: has_NG[:, number] for name, number in place.items()}
    if none.any():
        found[f"no {what}"] = none
    return found


def _numbers(values: list[Values]) -> NDArray[np.float64] | None:
    """Return one number for each row, NaN for rows without any; None if they are something else."""
    if any(len(row) > 1 for row in values):
        return None
    try:
        found = np.array([float(row[0]) if row else np.nan for row in values])
    except (TypeError, ValueError):
        return None
    return None if np.isinf(found).any() else found


def _has(table: Facts, what: str) -> bool:
    return any(what in row for row in table.values())


def _looked_up(table: Facts, ids: Iterable[Any], what: str) -> list[Values]:
    """Return the values of a column for each id; ids may be numbers or text."""
    by_id = {str(plain(one)): row.get(what) for one, row in table.items()}
    return [_several(by_id.get(str(plain(one)))) for one in ids]


def _several(value: Any) -> Values:
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        return tuple(dict.fromkeys(value))
    return () if is_missing(value) or value == "" else (value,)
