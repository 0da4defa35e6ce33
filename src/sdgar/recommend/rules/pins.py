"""Pins: items that have a place of their own in every list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdgar.recommend.rules.facts import Facts

ScoreOf = Callable[[NDArray[np.int64]], NDArray[np.floating]]
"""The function from numbers of items to their scores; -inf for what may not be listed."""


@dataclass(frozen=True, slots=True)
class Pin:
    """L_{at} = i, and the entries from there on move down by one place.

    Several items have the places at, at + 1, …; one whose place is taken has the next one that is
    free. A pin behind the end of a list does not act. A list that ends before the place of a pin
    has it as its last entry.
    """

    items: tuple[str | int, ...]
    """The ids of the items."""
    at: int = 1
    """The place of the first of them, counted from 1."""
    name: str | None = None
    """The name of the rule."""

    def words(self) -> str:
        """Say that an item is pinned, and by which rule."""
        return f"pinned: {self.name}" if self.name else "pinned"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a list, pinned or selected."""

    item: int
    """The number of the item."""
    score: float
    """The score of the model; NaN if nobody can say it."""
    notes: tuple[str, ...]
    """The words of the rules that acted on it."""


def pinned_numbers(pins: tuple[Pin, ...], facts: Facts) -> NDArray[np.int64]:
    """Return the numbers of all pinned items that are known, each once."""
    at = facts.numbers_of([item for pin in pins for item in pin.items])
    return np.unique(at[at >= 0])


def placed(
    pins: tuple[Pin, ...],
    k: int,
    facts: Facts,
    *,
    blocked_I1: NDArray[np.bool_] | None,
    scores: dict[int, float],
    score_of: ScoreOf | None,
) -> dict[int, Entry]:
    """Return the pinned items by place; blocked and unknown ones are left out.

    An item that is no candidate is scored by ``score_of``, which leaves it out by the score -inf
    or NaN. Without ``score_of`` it is listed with the score NaN.
    """
    found: dict[int, Entry] = {}
    used: set[int] = set()
    for pin in pins:
        place = pin.at
        for item in facts.numbers_of(pin.items).tolist():
            while place in found:
                place += 1
            if place > k:
                break
            if item < 0 or item in used or _is_blocked(item, blocked_I1):
                continue
            score = scores.get(item, np.nan)
            if item not in scores and score_of is not None:
                score = float(score_of(np.array([item], np.int64))[0])
                if not np.isfinite(score):
                    continue
            found[place] = Entry(item, score, (pin.words(),))
            used.add(item)
    return found


def _is_blocked(item: int, blocked_I1: NDArray[np.bool_] | None) -> bool:
    return blocked_I1 is not None and bool(blocked_I1[min(item, len(blocked_I1) - 1)])
