"""The kinds of events: some of them speak against an item, and are no likings.

An event counts unless its kind is one of ``AGAINST``, or one that the caller names. A pair that a
user has only with such kinds is known and not liked: nothing is learned from it, and it is not
recommended again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sdgar.errors import did_you_mean

if TYPE_CHECKING:
    import polars as pl

_WORDS = """
    dislike disliked skip skipped hide hidden return returned refund refunded unlike downvote
    thumbsdown notinterested block blocked report reported"""
AGAINST = frozenset(_WORDS.split())
"""The kinds that speak against an item, compared without case, spaces and punctuation."""
BELOW = " below 0"
"""The ending of the kind of a stored event whose weight is below 0, which speaks against it."""
_MOST_LISTED = 6


def is_against(kind: str) -> bool:
    """Tell whether events of a kind speak against their item.

    >>> is_against("Thumbs-down"), is_against("view")
    (True, False)
    """
    return kind.endswith(BELOW) or "".join(filter(str.isalnum, kind)).lower() in AGAINST


def against(kinds: Iterable[str | None], named: Collection[str] | None) -> list[str]:
    """Return those of some kinds that speak against an item: the usual ones, and those named."""
    own = named or ()
    return [kind for kind in kinds if kind is not None and (kind in own or is_against(kind))]


def counts_of(kind_E: pl.Series) -> dict[str, int]:
    """Return the number of rows of each kind."""
    return dict(kind_E.filter(kind_E != "").value_counts().iter_rows())


def sentence(
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
        learned = {k: n for k, n in counts.items() if not against([k], named)}
    left = {k: n for k, n in counts.items() if k not in learned}
    bad = {k: n for k, n in left.items() if against([k], named)}
    other = {k: n for k, n in left.items() if k not in bad}
    if len(counts) < 2 and not left:
        return ""
    parts = [f"{_listed(learned)} count as likings" if learned else "no row counts as a liking"]
    parts += [f"{_listed(bad)} do not, and are not recommended again"] if bad else []
    parts += [f"{_listed(other)} are left out"] if other else []
    return "; ".join(parts) + "; --kinds says otherwise"


def _listed(counts: dict[str, int]) -> str:
    """Return kinds with their numbers of rows, the most frequent first."""
    shown = [f"{kind} ({count:,})" for kind, count in list(counts.items())[:_MOST_LISTED]]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more kinds" if more else "")
