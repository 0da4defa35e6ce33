"""Ways to hold rows out, all seeded, each by a name and what it is told after a colon.

    time:0.1          the last tenth of all rows in time
    paper:0.2         a fifth of each user's rows, at random
    leave-last-out    the last row of each user
    date:2024-03-01   all rows from that moment on
    users:0.1         whole users, a tenth of them: part of their rows is folded in, the rest found
    windows:7d:3      three windows of seven days one after the other, the last one ends with the
                      data; each is found from all rows before it
    folds:5           the rows of each user dealt into five parts, each found from the others

A split is two sets of interactions. Users and items that keep no training row lose their
place in the training data, so nothing is learned or recommended about them by accident. The only
row of a user stays in the training data: without it nothing can be measured for that user anyway.
``date`` and ``windows`` alone take it, as nothing may be learned from what comes later; such users
are new, and are counted where a model is measured.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import at_least, of_kind
from sdgar.data import moments
from sdgar.data.interactions import Interactions
from sdgar.errors import DataError, UsageError, unknown_name
from sdgar.maths.rng import Stream, check_seed, sort_keys
from sdgar.show.printed import Described

Rule = Literal["paper", "time", "leave-last-out"]
RULES: tuple[Rule, ...] = ("paper", "time", "leave-last-out")
"""Those that need not be told more."""
_TOLD = ("date:2024-03-01", "users:0.1", "windows:7d:3", "folds:5")
_SEVERAL = ("windows", "folds")
_SHARES = {"paper": 0.2, "time": 0.1, "users": 0.1}
"""What is held out of all rows in time, of each user's rows, or of users, if nobody says."""
_TO_FIND = 0.2
"""The part of a held-out user's rows that is to be found from the rest."""


@dataclass(frozen=True, slots=True, repr=False)
class Split(Described):
    """Training rows, held-out rows, and how they were told apart."""

    train: Interactions
    held_out: Interactions
    how: str
    warning: str | None = None
    histories: Interactions | None = None
    """Where whole users are held out: the rows from which they are folded in when it is measured
    how well the held-out rows are found, ``model.evaluate(held_out, histories=histories)``."""

    def __iter__(self) -> Iterator[Interactions]:
        """So that ``train, test = split(data)`` reads well."""
        return iter((self.train, self.held_out))

    def sizes(self) -> str:
        """How many rows each part has."""
        folded = "" if self.histories is None else f"{len(self.histories):,} to fold in, "
        return f"{len(self.train):,} rows to train, {folded}{len(self.held_out):,} to test"

    def _lines(self) -> list[str]:
        lines = [f"Split: {self.how}", f"train: {self.train.sizes()}"]
        if self.histories is not None:
            lines.append(f"histories: {self.histories.sizes()}")
        lines.append(f"held out: {self.held_out.sizes()}")
        return lines + ([f"warning: {self.warning}"] if self.warning else [])


def default_rule(data: Interactions) -> Rule:
    """By time where there is a time, since a random split lets a model see the future."""
    return "paper" if data.time_E is None else "time"


def is_several(rule: str | None) -> bool:
    """Whether a rule gives several splits."""
    return rule is not None and rule.partition(":")[0] in _SEVERAL


def split(
    data: Interactions, rule: str | None = None, *, seed: int = 0, share: float | None = None
) -> Split:
    """Hold test rows out by a named rule; without one, by time where there is a time.

    The rules are "time", "paper" (a share of each user's rows at random), "leave-last-out",
    "date:2024-03-01" (all rows from that moment on) and "users:0.1" (whole users: part of their
    rows are the ``histories`` to fold in, the rest is to be found). A share is ``share``, or
    follows a colon, as in "time:0.2".

    >>> rows = {"user": [1, 1, 2, 2], "item": ["a", "b", "b", "c"], "time": [10, 20, 30, 40]}
    >>> train, test = sdgar.split(sdgar.read(rows))
    >>> len(train), len(test)  # the last row in time is held out
    (3, 1)
    """
    of_kind("data", data, Interactions, "Read files and frames with sdgar.read(source).")
    rule = str(rule or default_rule(data))
    name, _, told = rule.partition(":")
    if name in _SHARES:
        of = _share(rule, share)
        if name == "paper":
            return per_user(data, share=of, seed=seed)
        return by_time(data, share=of) if name == "time" else whole_users(data, share=of, seed=seed)
    if name == "leave-last-out" and not told:
        _no_share(name, share, "which holds out one row of each user")
        return leave_last_out(data)
    if name == "date" and told:
        _no_share(name, share, "which holds out all rows from a moment on")
        return by_date(data, told)
    if name in _SEVERAL:
        raise UsageError(
            f"{rule} gives several splits. Take them one by one: for part in sdgar.folds(data, "
            f"{rule!r}).",
            code="several_folds",
        )
    raise _unknown(rule)


def folds(data: Interactions, rule: str, *, seed: int = 0) -> Iterator[Split]:
    """The splits of a rule one by one: "windows:7d:3", "folds:5", or any that gives one.

    "windows:7d:3" are three windows of seven days one after the other, of which the last one ends
    with the data; the training rows of each are all rows before it. "folds:5" deals the rows of
    each user into five parts at random, and holds each part out once.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 1, 2, 2, 2], [7, 8, 9, 7, 8, 9])
    >>> [len(part.held_out) for part in sdgar.folds(data, "folds:3")]
    [2, 2, 2]
    """
    of_kind("data", data, Interactions, "Read files and frames with sdgar.read(source).")
    name, _, told = str(rule).partition(":")
    if name == "windows":
        length, colon, n = told.partition(":")
        return windows(data, length, _number(rule, n) if colon else 1)
    if name == "folds":
        return k_folds(data, _number(rule, told), seed=seed)
    return iter((split(data, rule, seed=seed),))


def validation(data: Interactions, *, seed: int = 0, share: float = 0.1) -> Split:
    """Split off validation rows: by time where there is a time, else 10 % of the rows."""
    if data.time_E is not None:
        return by_time(data, share=share)
    return random_rows(data, share=share, seed=seed)


def per_user(data: Interactions, *, share: float = 0.2, seed: int = 0) -> Split:
    """The paper's rule: of each user's n rows, ⌈share · n⌉ at random are held out, not all."""
    _check_share(share)
    key_E = sort_keys(check_seed(seed), Stream.SPLIT_TEST, 0, np.arange(len(data)))
    rank_E = _rank_within_user(data, key_E)
    how = f"per user, ceil({share:g} n) rows at random, seed {seed}"
    return _split(data, rank_E < _quota(data, share)[data.users_E], how)


def random_rows(data: Interactions, *, share: float = 0.1, seed: int = 0) -> Split:
    """A share of all rows at random; every user keeps at least one training row."""
    _check_share(share)
    key_E = sort_keys(check_seed(seed), Stream.SPLIT_VALID, 0, np.arange(len(data)))
    rank_E = _rank_within_user(data, key_E)
    free = np.flatnonzero(rank_E > 0)
    wanted = min(round(share * len(data)), len(free))
    held_E = np.zeros(len(data), bool)
    held_E[free[np.argsort(key_E[free], kind="stable")[:wanted]]] = True
    return _split(data, held_E, f"{share:.0%} of the rows at random, seed {seed}")


def by_time(data: Interactions, *, share: float = 0.1) -> Split:
    """The last rows in time, over all users; rows of one moment stay together."""
    _check_share(share)
    time_E = _time_of(data)
    cut = np.sort(time_E)[min(math.ceil((1 - share) * len(data)), len(data) - 1)]
    parts = _split(
        data, (time_E >= cut) & ~_only_rows(data), f"by time, last {share:.0%} of the rows"
    )
    return replace(parts, train=parts.train.seen_before(int(cut)))


def leave_last_out(data: Interactions) -> Split:
    """The last row of each user with at least two; equal times are ordered by item."""
    held_E = (_latest_first(data) == 0) & ~_only_rows(data)
    return _split(
        data,
        held_E,
        "last row of each user",
        warning=(
            "leave-last-out lets the model train on rows that are later than some test rows: "
            "numbers come out better than they will be in production. A split by time does not."
        ),
    )


def by_date(data: Interactions, moment: str | int | datetime.date) -> Split:
    """All rows at that moment or later; users who have no earlier row are new."""
    time_E = _time_of(data)
    at = moments.moment_of(moment, time_E)
    parts = _split(data, time_E >= at, f"by date, from {moments.shown(at)} on")
    return replace(parts, train=parts.train.seen_before(at))


def windows(data: Interactions, length: str | int, n: int) -> Iterator[Split]:
    """Windows of one length after another, the last one ends with the data.

    Window w of n holds the rows with  end - (n - w) · length ≤ time < end - (n - w - 1) · length;
    it is found from all rows before it. Rows after it play no part.
    """
    at_least("windows", n, 1)
    time_E = _time_of(data)
    step = moments.length_of(length, time_E)
    end = int(time_E.max()) + 1
    starts = [end - (n - w) * step for w in range(n)]
    if starts[0] <= time_E.min():
        raise DataError(
            f"{n} windows of {length} begin at {moments.shown(starts[0])}, and the data begins at "
            f"{moments.shown(time_E.min())}: there is no row before the first window. Take fewer "
            "or shorter windows.",
            code="empty_split",
        )
    bounds = [(start, start + step) for start in starts]
    for w, (start, stop) in enumerate(bounds, 1):
        if not ((time_E >= start) & (time_E < stop)).any():
            raise DataError(
                f"window {w} of {n}, from {moments.shown(start)} to {moments.shown(stop)}, has no "
                "row. Take fewer or longer windows.",
                code="empty_split",
            )

    def parts() -> Iterator[Split]:
        for w, (start, stop) in enumerate(bounds, 1):
            yield Split(
                data.subset(time_E < start, "held out").seen_before(start),
                data.subset((time_E >= start) & (time_E < stop), "training"),
                f"window {w} of {n}, from {moments.shown(start)} to {moments.shown(stop)}",
            )

    return parts()


def k_folds(data: Interactions, k: int, *, seed: int = 0) -> Iterator[Split]:
    """The rows of each user, shuffled and dealt in turn to k parts; each is held out once.

    The only row of a user is dealt to none.
    """
    at_least("folds", k, 2)
    key_E = sort_keys(check_seed(seed), Stream.SPLIT_TEST, 0, np.arange(len(data)))
    order = np.lexsort((key_E, data.users_E))
    order = order[~_only_rows(data)[order]]
    fold_E = np.full(len(data), -1)
    fold_E[order] = np.arange(len(order)) % k
    if len(order) < k:
        raise DataError(
            f"{len(order):,} rows of users with at least two cannot be dealt into {k} folds. Take "
            "fewer folds, or more data.",
            code="empty_split",
        )
    return (
        _split(data, fold_E == fold, f"fold {fold + 1} of {k}, seed {seed}") for fold in range(k)
    )


def whole_users(data: Interactions, *, share: float = 0.1, seed: int = 0) -> Split:
    """A share of users, left out of training whole, as Liang et al. (2018) do.

    Of a held-out user's n rows, ⌈0.2 n⌉ are to be found from the others, which are folded in: the
    last ones where there is a time, else some at random. Users with a single row are not held out.
    """
    _check_share(share)
    if data.fields is not None:
        raise UsageError(
            f"whole users cannot be held out where a context is {', '.join(data.context)}: nobody "
            "can be folded in there. Use another split, or leave --context out.",
            code="bad_context",
        )
    can_be = np.flatnonzero(np.diff(data.indptr_U1) > 1)
    key_U = sort_keys(check_seed(seed), Stream.SPLIT_USERS, 0, can_be)
    wanted = math.ceil(round(share * data.n_users, 9))
    held_U = np.zeros(data.n_users, bool)
    held_U[can_be[np.argsort(key_U, kind="stable")[:wanted]]] = True
    held_E = held_U[data.users_E]
    if data.time_E is None:
        key_E = sort_keys(check_seed(seed), Stream.SPLIT_TEST, 0, np.arange(len(data)))
        rank_E, which = _rank_within_user(data, key_E), f"{_TO_FIND:.0%} at random"
    else:
        rank_E, which = _latest_first(data), f"the last {_TO_FIND:.0%}"
    found_E = held_E & (rank_E < _quota(data, _TO_FIND)[data.users_E])
    how = f"{held_U.sum():,} whole users, seed {seed}; of their rows {which} are to be found"
    parts = _split(data, held_E, how)
    return Split(
        parts.train,
        data.subset(found_E, "training or folded in"),
        how,
        histories=data.subset(held_E & ~found_E, "training or to be found"),
    )


def _split(
    data: Interactions, held_E: NDArray[np.bool_], how: str, warning: str | None = None
) -> Split:
    if not held_E.any() or held_E.all():
        side = "held out" if not held_E.any() else "left to train on"
        raise DataError(
            f"the split ({how}) leaves no row {side} of {len(data):,}. "
            f"Give a test file with --test, or more data.{_times(data)}",
            code="empty_split",
        )
    return Split(data.subset(~held_E, "held out"), data.subset(held_E, "training"), how, warning)


def _only_rows(data: Interactions) -> NDArray[np.bool_]:
    """Which rows are the only ones of their users."""
    only_E: NDArray[np.bool_] = (np.diff(data.indptr_U1) == 1)[data.users_E]
    return only_E


def _latest_first(data: Interactions) -> NDArray[np.int64]:
    """Place of each row among its user's rows, from the last in time to the first."""
    return _rank_within_user(data, -_time_of(data), later_first=True)


def _quota(data: Interactions, share: float) -> NDArray[np.int64]:
    """⌈share · n⌉ of each user's n rows, but not all."""
    n_U = np.diff(data.indptr_U1)
    # The product is rounded first: 0.1 · 30 is 3.0000000000000004 in floating point.
    return np.array([min(math.ceil(round(share * n, 9)), n - 1) for n in n_U.tolist()])


def _rank_within_user(
    data: Interactions, key_E: NDArray[np.int64], *, later_first: bool = False
) -> NDArray[np.int64]:
    """Place of each row among its user's rows, by ascending key; ties by item."""
    tie_E = -data.items_E if later_first else data.items_E
    order = np.lexsort((tie_E, key_E, data.users_E))
    rank_E = np.empty(len(data), np.int64)
    rank_E[order] = np.arange(len(data)) - data.indptr_U1[data.users_E]
    return rank_E


def _time_of(data: Interactions) -> NDArray[np.int64]:
    if data.time_E is None:
        raise UsageError(
            "this split needs a time column, and the data has none. Name it with --time, "
            "or use --split paper.",
            code="no_time",
        )
    return data.time_E


def _check_share(share: Any) -> None:
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 < float(share) < 1:
        raise UsageError(
            f"the held-out share must lie between 0 and 1, got {share!r}.", code="bad_share"
        )


def _share(rule: str, share: float | None) -> float:
    """The share that is held out, by whoever says it."""
    name, _, told = rule.partition(":")
    if not told:
        return _SHARES[name] if share is None else share
    if share is not None:
        raise UsageError(
            f"{rule} says what share is held out, and so does the share of {share}. Leave one of "
            "them out.",
            code="unused_option",
        )
    try:
        return float(told)
    except ValueError:
        raise UsageError(
            f"the held-out share must lie between 0 and 1, got {told!r}.", code="bad_share"
        ) from None


def _no_share(name: str, share: float | None, why: str) -> None:
    if share is not None:
        raise UsageError(
            f"a share of {share} has no meaning for {name}, {why}. Leave the share or the rule "
            "out.",
            code="unused_option",
        )


def _number(rule: str, told: str) -> int:
    if not told.isdecimal() or len(told) > 6:
        raise UsageError(
            f"{rule!r} should end with a number, as in {' or '.join(_TOLD[2:])}.", code="bad_rule"
        )
    return int(told)


def _unknown(rule: str) -> UsageError:
    if rule[:1].isdigit():
        return UsageError(
            f"{rule!r} is no rule of a split. To hold out all rows from a moment on, write "
            f"date:{rule}.",
            code="unknown_split",
        )
    return unknown_name("split", rule, (*RULES, *_TOLD))


def _times(data: Interactions) -> str:
    """When the data begins and ends, to be added to a sentence."""
    if data.time_E is None:
        return ""
    first, last = moments.shown(data.time_E.min()), moments.shown(data.time_E.max())
    return f" Its times go from {first} to {last}."
