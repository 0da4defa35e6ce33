"""Ways to hold rows out that give one split, all seeded."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data import numbers
from sdgar.data.history import History
from sdgar.data.interactions import Interactions
from sdgar.errors import DataError, UsageError
from sdgar.maths.rng import Stream, check_seed, sort_keys
from sdgar.show.printed import Described

_TO_FIND = 0.2
"""The part of a held-out user's rows that is to be found from the rest."""


@dataclass(frozen=True, slots=True, repr=False)
class Split(Described):
    """Training rows, held-out rows, and the rule that separated them."""

    train: Interactions
    """The rows to train on."""
    held_out: Interactions
    """The rows to be found."""
    how: str
    """The rule of the split in words."""
    warning: str | None = None
    """A reason to read results with care, if there is one."""
    histories: Interactions | None = None
    """The rows from which held-out whole users are folded in when the held-out rows are measured,
    as in ``model.evaluate(held_out, histories=histories)``; None for all other rules."""

    def __iter__(self) -> Iterator[Interactions]:
        """Yield the training rows and the held-out rows, for ``train, test = split(data)``."""
        return iter((self.train, self.held_out))

    def size_text(self) -> str:
        """Return the number of rows of each part, in words."""
        folded = "" if self.histories is None else f"{len(self.histories):,} to fold in, "
        return f"{len(self.train):,} rows to train, {folded}{len(self.held_out):,} to test"

    def _lines(self) -> list[str]:
        lines = [f"Split: {self.how}", f"train: {self.train.size_text()}"]
        if self.histories is not None:
            lines.append(f"histories: {self.histories.size_text()}")
        lines.append(f"held out: {self.held_out.size_text()}")
        return lines + ([f"warning: {self.warning}"] if self.warning else [])


def per_user(data: Interactions, *, share: float = 0.2, seed: int = 0) -> Split:
    """Hold out ⌈share · n⌉ of each user's n rows at random, but not all: the paper's rule."""
    held_E = held_per_user(data.history, np.arange(len(data)), share=share, seed=seed)
    return parted(data, held_E, per_user_in_words(share, seed))


def held_per_user(
    rows: History, number_E: NDArray[np.int64], *, share: float, seed: int
) -> NDArray[np.bool_]:
    """Mark ⌈share · n⌉ of each user's n rows at random, but not all.

    ``number_E`` is the number of each row among all data, which decides on it: these may be the
    rows of some users.
    """
    check_share(share)
    key_E = sort_keys(check_seed(seed), Stream.SPLIT_TEST, 0, number_E)
    users_E = rows.users_E
    held_E: NDArray[np.bool_] = (
        _rank_within_user(rows, users_E, key_E) < _quota(rows, share)[users_E]
    )
    return held_E


def per_user_in_words(share: float, seed: int) -> str:
    """Return the rule of ``per_user`` in words."""
    return f"per user, ceil({share:g} n) rows at random, seed {seed}"


def random_rows(
    data: Interactions, *, share: float = 0.1, seed: int = 0, most_users: int | None = None
) -> Split:
    """Hold out a share of all rows at random; every user keeps at least one training row.

    With ``most_users`` it is a share of the rows of so many users, who are chosen at random.
    """
    check_share(share)
    seed = check_seed(seed)
    row_C, how = np.arange(len(data)), f"{share:.0%} of the rows at random, seed {seed}"
    if most_users is not None and most_users < data.n_users:
        key_U = sort_keys(seed, Stream.VALID_SAMPLE, 0, np.arange(data.n_users))
        chosen_U = np.zeros(data.n_users, bool)
        chosen_U[np.argsort(key_U, kind="stable")[:most_users]] = True
        row_C = np.flatnonzero(chosen_U[data.users_E])
        how = f"{share:.0%} of the rows of {most_users:,} users at random, seed {seed}"
    key_C, user_C = sort_keys(seed, Stream.SPLIT_VALID, 0, row_C), data.users_E[row_C]
    order_C = np.lexsort((data.items_E[row_C], key_C, user_C))
    free_C = np.sort(order_C[1:][np.diff(user_C[order_C]) == 0])  # all but one row of each user
    wanted = min(round(share * len(row_C)), len(free_C))
    held_E = np.zeros(len(data), bool)
    held_E[row_C[free_C[np.argsort(key_C[free_C], kind="stable")[:wanted]]]] = True
    return parted(data, held_E, how)


def by_time(data: Interactions, *, share: float = 0.1) -> Split:
    """Hold out the last rows in time, over all users; rows of one moment stay together."""
    time_E = time_of(data)
    cut = np.sort(time_E)[place_of_cut(len(data), share)]
    held_E = held_by_time(data.history, time_E, int(cut))
    parts = parted(data, held_E, by_time_in_words(share))
    return replace(parts, train=seen_before(parts.train, int(cut)))


def place_of_cut(n_rows: int, share: float) -> int:
    """Return the place, among all rows in the order of time, of the first one to hold out."""
    check_share(share)
    return min(math.ceil((1 - share) * n_rows), n_rows - 1)


def held_by_time(rows: History, time_E: NDArray[np.int64], cut: int) -> NDArray[np.bool_]:
    """Mark the rows at a moment or later, but not the only row of a user."""
    held_E: NDArray[np.bool_] = (time_E >= cut) & ~only_rows(rows)
    return held_E


def by_time_in_words(share: float) -> str:
    """Return the rule of ``by_time`` in words."""
    return f"by time, last {share:.0%} of the rows"


def leave_last_out(data: Interactions) -> Split:
    """Hold out the last row of each user with at least two; equal times are ordered by item."""
    held_E = (_latest_first(data) == 0) & ~only_rows(data)
    return parted(
        data,
        held_E,
        "last row of each user",
        warning=(
            "leave-last-out lets the model train on rows that are later than some test rows: "
            "numbers come out better than they will be in production. A split by time does not."
        ),
    )


def by_date(data: Interactions, moment: str | int | datetime.date) -> Split:
    """Hold out all rows at that moment or later; users who have no earlier row are new."""
    time_E = time_of(data)
    at = numbers.moment_of(moment, time_E)
    parts = parted(data, time_E >= at, f"by date, from {numbers.shown(at)} on")
    return replace(parts, train=seen_before(parts.train, at))


def whole_users(data: Interactions, *, share: float = 0.1, seed: int = 0) -> Split:
    """Hold out a share of users with all their rows, as Liang et al. (2018) do.

    Of a held-out user's n rows, ⌈0.2 n⌉ are to be found from the others, which are folded in: the
    last ones where there is a time, else some at random. Users with a single row are not held out.
    """
    check_share(share)
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
    to_find_E, which = _to_find(data, seed)
    found_E = held_E & to_find_E
    how = f"{held_U.sum():,} whole users, seed {seed}; of their rows {which} are to be found"
    parts = parted(data, held_E, how)
    return Split(
        parts.train,
        data.subset(found_E, "training or folded in"),
        how,
        histories=data.subset(held_E & ~found_E, "training or to be found"),
    )


def whole_items(data: Interactions, *, share: float = 0.1, seed: int = 0) -> Split:
    """Hold out a share of items with all their rows, and ⌈0.2 n⌉ of each user's n other rows.

    The other rows are the last ones where there is a time, else some at random. They are what lists
    can lose by items that nobody has had to do with.
    """
    check_share(share)
    key_I = sort_keys(check_seed(seed), Stream.SPLIT_ITEMS, 0, np.arange(data.n_items))
    wanted = math.ceil(round(share * data.n_items, 9))
    held_I = np.zeros(data.n_items, bool)
    held_I[np.argsort(key_I, kind="stable")[:wanted]] = True
    cold_E = held_I[data.items_E]
    how = f"{held_I.sum():,} whole items, seed {seed}"
    rest = parted(data, cold_E, how).train
    held_E = cold_E.copy()
    held_E[~cold_E], which = _to_find(rest, seed)
    return parted(data, held_E, f"{how}; of each user's other rows {which}")


def _to_find(data: Interactions, seed: int) -> tuple[NDArray[np.bool_], str]:
    """Mark the part of each user's rows that is to be found, and describe which it is."""
    if data.time_E is None:
        key_E = sort_keys(check_seed(seed), Stream.SPLIT_TEST, 0, np.arange(len(data)))
        rank_E = _rank_within_user(data.history, data.users_E, key_E)
        which = f"{_TO_FIND:.0%} at random"
    else:
        rank_E, which = _latest_first(data), f"the last {_TO_FIND:.0%}"
    return rank_E < _quota(data, _TO_FIND)[data.users_E], which


def parted(
    data: Interactions, held_E: NDArray[np.bool_], how: str, warning: str | None = None
) -> Split:
    """Return the split that holds the marked rows out; raise if either part would be empty."""
    require_both(int(held_E.sum()), len(data), how, data.time_E)
    return Split(data.subset(~held_E, "held out"), data.subset(held_E, "training"), how, warning)


def seen_before(data: Interactions, moment: int) -> Interactions:
    """Return the same rows with only the pairs of ``seen`` from before a moment."""
    pairs = data.seen_pairs
    if pairs is None or pairs.time is None:
        return replace(data, not_liked_elsewhere=None)
    early = pairs.where(pairs.time < moment)
    bare = replace(data, seen=None, seen_time_E=None, seen_neutral_E=None, not_liked_elsewhere=None)
    return bare.with_seen_pairs(early.users, early.items, early.time, early.neutral)


def require_both(n_held: int, n_rows: int, how: str, time_E: NDArray[np.int64] | None) -> None:
    """Raise if a split leaves no row to train on, or none held out."""
    if 0 < n_held < n_rows:
        return
    side = "left to train on" if n_held else "held out"
    times = ""
    if time_E is not None:
        times = (
            f" Its times go from {numbers.shown(time_E.min())} to {numbers.shown(time_E.max())}."
        )
    raise DataError(
        f"the split ({how}) leaves no row {side} of {n_rows:,}. "
        f"Give a test file with --test, or more data.{times}",
        code="empty_split",
    )


def only_rows(data: Interactions | History) -> NDArray[np.bool_]:
    """Mark the rows that are the only ones of their users."""
    only_E: NDArray[np.bool_] = (np.diff(data.indptr_U1) == 1)[data.users_E]
    return only_E


def _latest_first(data: Interactions) -> NDArray[np.int64]:
    """Return the place of each row among its user's rows, from the last in time to the first."""
    return _rank_within_user(data.history, data.users_E, -time_of(data), later_first=True)


def _quota(data: Interactions | History, share: float) -> NDArray[np.int64]:
    """Return ⌈share · n⌉ for each user's n rows, but at most n - 1."""
    n_U = np.diff(data.indptr_U1)
    # The product is rounded first: 0.1 · 30 is 3.0000000000000004 in floating point.
    return np.array([min(math.ceil(round(share * n, 9)), n - 1) for n in n_U.tolist()])


def _rank_within_user(
    rows: History,
    users_E: NDArray[np.int64],
    key_E: NDArray[np.int64],
    *,
    later_first: bool = False,
) -> NDArray[np.int64]:
    """Return the place of each row among its user's rows, by ascending key; ties go by item."""
    tie_E = -rows.items_E if later_first else rows.items_E
    order = np.lexsort((tie_E, key_E, users_E))
    rank_E = np.empty(len(order), np.int64)
    rank_E[order] = np.arange(len(order)) - rows.indptr_U1[users_E]
    return rank_E


def time_of(data: Interactions) -> NDArray[np.int64]:
    """Return the times of the rows; raise if there are none."""
    if data.time_E is None:
        raise UsageError(
            "this split needs a time column, and the data has none. Name it with --time-column, "
            "or use --split paper.",
            code="no_time",
        )
    return data.time_E


def check_share(share: Any) -> None:
    """Raise if this cannot be the share of rows or users to hold out."""
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 < float(share) < 1:
        raise UsageError(
            f"the held-out share must lie between 0 and 1, got {share!r}.", code="bad_share"
        )
