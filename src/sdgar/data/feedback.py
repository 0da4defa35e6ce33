"""Decide which events are positive: by their kinds, and by ratings near the top of their scale.

An event counts unless its kind is one of ``NEGATIVE_KINDS``, or one that the caller names. A pair
that a user has only with such kinds is known and disliked: nothing is learned from it, and it is
not recommended again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import Ids
from sdgar.errors import did_you_mean

if TYPE_CHECKING:
    import polars as pl


_WORDS = """
    dislike disliked skip skipped hide hidden return returned refund refunded unlike downvote
    thumbsdown notinterested block blocked report reported"""
NEGATIVE_KINDS = frozenset(_WORDS.split())
"""The kinds that count against an item, compared without case, spaces and punctuation."""
BELOW_ZERO = " below 0"
"""The ending of the kind of a stored event whose weight is below 0, which counts against it."""
_MOST_LISTED = 6


def is_negative_kind(kind: str) -> bool:
    """Return whether events of a kind count against their item.

    >>> is_negative_kind("Thumbs-down"), is_negative_kind("view")
    (True, False)
    """
    return kind.endswith(BELOW_ZERO) or "".join(filter(str.isalnum, kind)).lower() in NEGATIVE_KINDS


def negative_kinds(kinds: Iterable[str | None], named: Collection[str] | None) -> list[str]:
    """Return which of some kinds count against an item: the usual ones and the named ones."""
    own = named or ()
    return [kind for kind in kinds if kind is not None and (kind in own or is_negative_kind(kind))]


def count_kinds(kind_E: pl.Series) -> dict[str, int]:
    """Return the number of rows of each kind."""
    return dict(kind_E.filter(kind_E != "").value_counts().iter_rows())


def describe_kinds(
    counts: Mapping[str, int],
    chosen: Sequence[str] | None,
    named: Sequence[str] | None,
    notes: list[str],
) -> str:
    """Return a line on which kinds count; add a note on a named one that no row has."""
    often = sorted(counts.items(), key=lambda one: (one[1], one[0]), reverse=True)
    counts = dict(often)
    for kind in (*(chosen or ()), *(named or ())):
        if kind not in counts:
            notes.append(f"no row has the kind {kind!r}.{did_you_mean(kind, counts)}")
    learned = {k: n for k, n in counts.items() if k in chosen} if chosen is not None else None
    if learned is None:
        learned = {k: n for k, n in counts.items() if not negative_kinds([k], named)}
    left = {k: n for k, n in counts.items() if k not in learned}
    bad = {k: n for k, n in left.items() if negative_kinds([k], named)}
    other = {k: n for k, n in left.items() if k not in bad}
    if len(counts) < 2 and not left:
        return ""
    parts = [f"{_listed(learned)} count as positive" if learned else "no row counts as positive"]
    parts += [f"{_listed(bad)} do not, and are not recommended again"] if bad else []
    parts += [f"{_listed(other)} are left out"] if other else []
    return "; ".join(parts) + "; --kinds says otherwise"


def _listed(counts: dict[str, int]) -> str:
    """Return kinds with their numbers of rows, the most frequent first."""
    shown = [f"{kind} ({count:,})" for kind, count in list(counts.items())[:_MOST_LISTED]]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more kinds" if more else "")


SHARE_OF_HIGHEST = 0.7
_LEAST_LIKED = 0.05


def rating_threshold(
    rating_E: NDArray[np.float64], count_E: NDArray[np.int64] | None = None
) -> float | None:
    """Return the least positive rating t, or None if these numbers are no scale.

        positive  ⇔  rating ≥ t,   t = the least rating of at least 0.7 · the highest one

    This is 4 of 5 stars, 3.5 with half stars, 7 of 10 points, and true of true or false. If fewer
    than one row in twenty is positive, the numbers are no scale.

    ``count_E`` is the number of times that each rating was given; None stands for once.

    >>> import numpy as np
    >>> rating_threshold(np.array([1.0, 3.0, 4.0, 5.0]))
    4.0
    """
    finite = np.isfinite(rating_E)
    finite_E = rating_E[finite]
    often_E = np.ones(len(finite_E), np.int64) if count_E is None else count_E[finite]
    if len(finite_E) == 0 or finite_E.max() <= 0:
        return None
    liked = finite_E >= SHARE_OF_HIGHEST * finite_E.max()
    enough = often_E[liked].sum() >= _LEAST_LIKED * often_E.sum()
    return float(finite_E[liked].min()) if enough else None


@dataclass(frozen=True, slots=True)
class NotLikedPairs:
    """Pairs with feedback that is not positive: dislikes and neutral ratings, by id or by index."""

    users: NDArray[Any]
    """The user of each pair."""
    items: NDArray[Any]
    """The item of each pair."""
    time: NDArray[np.int64] | None
    """The time of each pair, if it is known."""
    neutral: NDArray[np.bool_]
    """True for each pair that does not count against its item."""

    @classmethod
    def of(
        cls,
        users: NDArray[Any],
        items: NDArray[Any],
        time: NDArray[np.int64] | None,
        neutral: NDArray[np.bool_] | None,
    ) -> NotLikedPairs:
        """Build from columns; without ``neutral`` all pairs count against their items."""
        return cls(users, items, time, np.zeros(len(users), bool) if neutral is None else neutral)

    @classmethod
    def joined(cls, *parts: NotLikedPairs | None) -> NotLikedPairs | None:
        """Return the pairs of several parts together; None if there is no part."""
        there = [part for part in parts if part is not None]
        if len(there) < 2:
            return there[0] if there else None
        users, items, neutral = (
            np.concatenate([getattr(part, name) for part in there])
            for name in ("users", "items", "neutral")
        )
        times = [part.time for part in there if part.time is not None]
        time = np.concatenate(times) if len(times) == len(there) else None
        return cls(users, items, time, neutral)

    def where(self, keep: NDArray[Any]) -> NotLikedPairs:
        """Return the pairs that a mask or numbers choose."""
        time = None if self.time is None else self.time[keep]
        return NotLikedPairs(self.users[keep], self.items[keep], time, self.neutral[keep])

    def numbers(self, n_items: int) -> NDArray[np.int64]:
        """Return pairs by index as one number each, user · M + item with M items."""
        number_E: NDArray[np.int64] = self.users * n_items + self.items
        return number_E

    def distinct(self, earlier: NotLikedPairs | None, n_items: int) -> NotLikedPairs:
        """Return these pairs by index and earlier ones, each once and ascending.

        A pair has its earliest time; if any row of a pair is neutral, the pair is neutral.
        """
        pairs = NotLikedPairs.joined(self, earlier) or self
        if pairs.time is not None:
            pairs = pairs.where(np.argsort(pairs.time, kind="stable"))
        number_E = pairs.numbers(n_items)
        distinct, first = np.unique(number_E, return_index=True)
        neutral = np.isin(distinct, number_E[pairs.neutral])
        time = None if pairs.time is None else pairs.time[first]
        return NotLikedPairs(*np.divmod(distinct, n_items), time, neutral)

    def pairs(self, users: Ids, items: Ids) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the pairs that have numbers among these ids, and which of them are neutral.

        A pair is user · M + item, with M items; they ascend.
        """
        own = NotLikedPairs(
            users.index_of(self.users), items.index_of(self.items), None, self.neutral
        )
        found = own.where((own.users >= 0) & (own.items >= 0)).distinct(None, len(items))
        return found.numbers(len(items)), found.neutral
