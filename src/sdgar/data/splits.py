"""Ways to hold rows out, all seeded: the paper's, by time, and the last row of each user.

A split is two sets of interactions. Users and items that keep no training row lose their
place in the training data, so nothing is learned or recommended about them by accident. The only
row of a user stays in the training data, whatever the rule: without it nothing can be measured for
that user anyway.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import of_kind
from sdgar.data.interactions import Interactions
from sdgar.errors import DataError, UsageError, unknown_name
from sdgar.printed import Described
from sdgar.rng import Stream, check_seed, sort_keys

Rule = Literal["paper", "time", "leave-last-out"]
RULES: tuple[Rule, ...] = ("paper", "time", "leave-last-out")


@dataclass(frozen=True, slots=True, repr=False)
class Split(Described):
    """Training rows, held-out rows, and how they were told apart."""

    train: Interactions
    held_out: Interactions
    how: str
    warning: str | None = None

    def __iter__(self) -> Iterator[Interactions]:
        """So that ``train, test = split(data)`` reads well."""
        return iter((self.train, self.held_out))

    def _lines(self) -> list[str]:
        lines = [f"Split: {self.how}", f"train: {self.train.sizes()}"]
        lines.append(f"held out: {self.held_out.sizes()}")
        return lines + ([f"warning: {self.warning}"] if self.warning else [])


def default_rule(data: Interactions) -> Rule:
    """By time where there is a time, since a random split lets a model see the future."""
    return "paper" if data.time_E is None else "time"


def split(
    data: Interactions, rule: str | None = None, *, seed: int = 0, share: float | None = None
) -> Split:
    """Hold test rows out by a named rule; without one, by time where there is a time.

    >>> rows = {"user": [1, 1, 2, 2], "item": ["a", "b", "b", "c"], "time": [10, 20, 30, 40]}
    >>> train, test = sdgar.split(sdgar.read(rows))
    >>> len(train), len(test)  # the last row in time is held out
    (3, 1)
    """
    of_kind("data", data, Interactions, "Read files and frames with sdgar.read(source).")
    rule = rule or default_rule(data)
    if rule == "paper":
        return per_user(data, share=0.2 if share is None else share, seed=seed)
    if rule == "time":
        return by_time(data, share=0.1 if share is None else share)
    if rule == "leave-last-out":
        if share is not None:
            raise UsageError(
                f"a share of {share} has no meaning for leave-last-out, which holds out one row of "
                "each user. Leave the share or the rule out.",
                code="unused_option",
            )
        return leave_last_out(data)
    raise unknown_name("split", rule, RULES)


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
    n_U = np.diff(data.indptr_U1)
    # The product is rounded first: 0.1 · 30 is 3.0000000000000004 in floating point.
    quota_U = np.array([min(math.ceil(round(share * n, 9)), n - 1) for n in n_U.tolist()])
    how = f"per user, ceil({share:g} n) rows at random, seed {seed}"
    return _split(data, rank_E < quota_U[data.users_E], how)


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
    return _split(
        data, (time_E >= cut) & ~_only_rows(data), f"by time, last {share:.0%} of the rows"
    )


def leave_last_out(data: Interactions) -> Split:
    """The last row of each user with at least two; equal times are ordered by item."""
    rank_E = _rank_within_user(data, -_time_of(data), later_first=True)
    held_E = (rank_E == 0) & ~_only_rows(data)
    return _split(
        data,
        held_E,
        "last row of each user",
        warning=(
            "leave-last-out lets the model train on rows that are later than some test rows: "
            "numbers come out better than they will be in production. A split by time does not."
        ),
    )


def _split(
    data: Interactions, held_E: NDArray[np.bool_], how: str, warning: str | None = None
) -> Split:
    if not held_E.any() or held_E.all():
        side = "held out" if not held_E.any() else "left to train on"
        raise DataError(
            f"the split ({how}) leaves no row {side} of {len(data):,}. "
            "Give a test file with --test, or more data.",
            code="empty_split",
        )
    return Split(data.subset(~held_E, "held out"), data.subset(held_E, "training"), how, warning)


def _only_rows(data: Interactions) -> NDArray[np.bool_]:
    """Which rows are the only ones of their users."""
    only_E: NDArray[np.bool_] = (np.diff(data.indptr_U1) == 1)[data.users_E]
    return only_E


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
