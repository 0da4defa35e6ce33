"""Ways to hold rows out, by name and as functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from sdgar.arguments import at_least, of_kind
from sdgar.data import numbers
from sdgar.data.interactions import Interactions
from sdgar.data.splits.single import (
    Split,
    by_date,
    by_time,
    leave_last_out,
    only_rows,
    parted,
    per_user,
    random_rows,
    seen_before,
    time_of,
    whole_items,
    whole_users,
)
from sdgar.errors import DataError, UsageError, unknown_name
from sdgar.maths.rng import Stream, check_seed, sort_keys

__all__ = [
    "RULES",
    "Rule",
    "Split",
    "by_date",
    "by_time",
    "default_rule",
    "folds",
    "is_several",
    "k_folds",
    "leave_last_out",
    "per_user",
    "random_rows",
    "split",
    "validation",
    "whole_items",
    "whole_users",
    "windows",
]


Rule = Literal["paper", "time", "leave-last-out"]
"""The name of a rule that needs nothing after a colon."""
RULES: tuple[Rule, ...] = ("paper", "time", "leave-last-out")
"""The names of the rules that need nothing after a colon."""
_EXAMPLES = ("date:2024-03-01", "users:0.1", "items:0.1", "windows:7d:3", "folds:5")
_SEVERAL = ("windows", "folds")
_SHARES = {"paper": 0.2, "time": 0.1, "users": 0.1, "items": 0.1}
"""The default shares: of each user's rows, of all rows in time, of users, and of items."""
_WHOLE = {"users": whole_users, "items": whole_items}


def default_rule(data: Interactions) -> Rule:
    """Return "time" if the data has times, as a random split lets a model see the future."""
    return "paper" if data.time_E is None else "time"


def is_several(rule: str | None) -> bool:
    """Return whether a rule gives several splits."""
    return rule is not None and rule.partition(":")[0] in _SEVERAL


def split(
    data: Interactions, rule: str | None = None, *, seed: int = 0, share: float | None = None
) -> Split:
    """Hold test rows out by a named rule; without one, by time if the data has times.

    The rules are "time", "paper" (a share of each user's rows at random), "leave-last-out",
    "date:2024-03-01" (all rows from that moment on), "users:0.1" (whole users: part of their
    rows are the ``histories`` to fold in, the rest is to be found) and "items:0.1" (whole items,
    and a fifth of each user's other rows). A share is ``share``, or follows a colon, as in
    "time:0.2".

    >>> rows = {"user": [1, 1, 2, 2], "item": ["a", "b", "b", "c"], "time": [10, 20, 30, 40]}
    >>> train, test = sdgar.split(sdgar.read(rows))
    >>> len(train), len(test)  # the last row in time is held out
    (3, 1)
    """
    of_kind("data", data, Interactions, "Read files and frames with sdgar.read(source).")
    rule = str(rule or default_rule(data))
    name, _, argument = rule.partition(":")
    if name in _SHARES:
        of = share_of(rule, share)
        if name == "paper":
            return per_user(data, share=of, seed=seed)
        return (
            by_time(data, share=of) if name == "time" else _WHOLE[name](data, share=of, seed=seed)
        )
    one = name == "leave-last-out" and not argument
    if one or (name == "date" and argument):
        if share is not None:
            raise UsageError(
                f"a share of {share} has no meaning for {rule}. Leave the share or the rule out.",
                code="unused_option",
            )
        return leave_last_out(data) if one else by_date(data, argument)
    if name in _SEVERAL:
        raise UsageError(
            f"{rule} gives several splits. Take them one by one: for part in sdgar.folds(data, "
            f"{rule!r}).",
            code="several_folds",
        )
    raise unknown_name("split", rule, (*RULES, *_EXAMPLES))


def folds(data: Interactions, rule: str, *, seed: int = 0) -> Iterator[Split]:
    """Yield the splits of a rule one by one: "windows:7d:3", "folds:5", or any rule of one split.

    "windows:7d:3" are three windows of seven days one after the other, of which the last one ends
    with the data; the training rows of each are all rows before it. "folds:5" deals the rows of
    each user into five parts at random, and holds each part out once.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 1, 2, 2, 2], [7, 8, 9, 7, 8, 9])
    >>> [len(part.held_out) for part in sdgar.folds(data, "folds:3")]
    [2, 2, 2]
    """
    of_kind("data", data, Interactions, "Read files and frames with sdgar.read(source).")
    name, _, argument = str(rule).partition(":")
    if name == "windows":
        length, colon, n = argument.partition(":")
        return windows(data, length, _number(rule, n) if colon else 1)
    if name == "folds":
        return k_folds(data, _number(rule, argument), seed=seed)
    return iter((split(data, rule, seed=seed),))


def validation(
    data: Interactions, *, seed: int = 0, share: float = 0.1, most_users: int | None = None
) -> Split:
    """Split off validation rows: by time if the data has times, else 10 % of the rows.

    Random rows come from at most ``most_users`` users, because more are not needed.
    """
    if data.time_E is not None:
        return by_time(data, share=share)
    return random_rows(data, share=share, seed=seed, most_users=most_users)


def share_of(rule: str, share: float | None) -> float:
    """Return the share that is held out: from the rule, from ``share``, or the rule's default."""
    name, _, argument = rule.partition(":")
    if not argument:
        return _SHARES[name] if share is None else share
    if share is not None:
        raise UsageError(
            f"{rule} says what share is held out, and so does the share of {share}. Leave one of "
            "them out.",
            code="unused_option",
        )
    try:
        return float(argument)
    except ValueError:
        raise UsageError(
            f"the held-out share must lie between 0 and 1, got {argument!r}.", code="bad_share"
        ) from None


def _number(rule: str, argument: str) -> int:
    if not argument.isdecimal() or len(argument) > 6:
        raise UsageError(
            f"{rule!r} should end with a number, as in {' or '.join(_EXAMPLES[3:])}.",
            code="bad_rule",
        )
    return int(argument)


def windows(data: Interactions, length: str | int, n: int) -> Iterator[Split]:
    """Yield n windows of one length, one after the other; the last one ends with the data.

    Window w of n holds the rows with  end - (n - w) · length ≤ time < end - (n - w - 1) · length;
    it is found from all rows before it. Rows after it play no part.
    """
    at_least("windows", n, 1)
    time_E = time_of(data)
    step = numbers.length_of(length, time_E)
    end = int(time_E.max()) + 1
    starts = [end - (n - w) * step for w in range(n)]
    if starts[0] <= time_E.min():
        raise DataError(
            f"{n} windows of {length} begin at {numbers.shown(starts[0])}, and the data begins at "
            f"{numbers.shown(time_E.min())}: there is no row before the first window. Take fewer "
            "or shorter windows.",
            code="empty_split",
        )
    bounds = [(start, start + step) for start in starts]
    for w, (start, stop) in enumerate(bounds, 1):
        if not ((time_E >= start) & (time_E < stop)).any():
            raise DataError(
                f"window {w} of {n}, from {numbers.shown(start)} to {numbers.shown(stop)}, has no "
                "row. Take fewer or longer windows.",
                code="empty_split",
            )

    def parts() -> Iterator[Split]:
        for w, (start, stop) in enumerate(bounds, 1):
            yield Split(
                seen_before(data.subset(time_E < start, "held out"), start),
                data.subset((time_E >= start) & (time_E < stop), "training"),
                f"window {w} of {n}, from {numbers.shown(start)} to {numbers.shown(stop)}",
            )

    return parts()


def k_folds(data: Interactions, k: int, *, seed: int = 0) -> Iterator[Split]:
    """Deal the shuffled rows of each user in turn to k parts; hold each part out once.

    The only row of a user is in no part.
    """
    at_least("folds", k, 2)
    key_E = sort_keys(check_seed(seed), Stream.SPLIT_TEST, 0, np.arange(len(data)))
    order = np.lexsort((key_E, data.users_E))
    order = order[~only_rows(data)[order]]
    fold_E = np.full(len(data), -1)
    fold_E[order] = np.arange(len(order)) % k
    if len(order) < k:
        raise DataError(
            f"{len(order):,} rows of users with at least two cannot be dealt into {k} folds. Take "
            "fewer folds, or more data.",
            code="empty_split",
        )
    return (
        parted(data, fold_E == fold, f"fold {fold + 1} of {k}, seed {seed}") for fold in range(k)
    )
