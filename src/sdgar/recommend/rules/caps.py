"""Caps: at most so many items of each value of a field."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdgar.recommend.rules.facts import CATEGORY, Facts


@dataclass(frozen=True, slots=True)
class Cap:
    """#{ i ∈ L : v ∈ V_i } ≤ at_most for each value v, with V_i the values of item i in a field.

    An item counts for each of its values. One without a value is not counted.
    """

    at_most: int
    """The most items of each value in a list."""
    by: str = CATEGORY
    """The field whose values are counted."""
    values: tuple[str, ...] = ()
    """The values that the rule is about; empty for all of them."""
    name: str | None = None
    """The name of the rule."""

    def words(self, value: str) -> str:
        """Say what the rule wants of a value."""
        said = f"at most {self.at_most} of {value}"
        return f"{said} ({self.name})" if self.name else said


class Counting:
    """Counts what was listed, and closes the candidates that a cap has no room for."""

    def __init__(
        self, caps: tuple[Cap, ...], items_N: NDArray[np.int64], facts: Facts, pinned: list[int]
    ) -> None:
        self.closed_by: dict[int, str] = {}
        """The words of the cap that closed a candidate, by its place."""
        self.closed_N = np.zeros(len(items_N), bool)
        """Whether a cap has no room for a candidate."""
        self._left: dict[tuple[int, int], int] = {}
        self._members: dict[tuple[int, int], list[int]] = {}
        self._keys_N: list[list[tuple[int, int]]] = [[] for _ in items_N]
        self._words: dict[tuple[int, int], str] = {}
        for number, cap in enumerate(caps):
            coded, only = facts.coded(cap.by), set(cap.values)
            places = [*enumerate(items_N.tolist()), *((-1, item) for item in pinned)]
            for at, item in places:
                for code in coded.of(item).tolist():
                    if only and coded.names[code] not in only:
                        continue
                    key = number, code
                    if key not in self._left:
                        self._left[key] = cap.at_most
                        self._words[key] = cap.words(coded.names[code])
                    if at < 0:
                        self._left[key] -= 1
                    else:
                        self._keys_N[at].append(key)
                        self._members.setdefault(key, []).append(at)
        for key in self._left:
            self._close(key)

    def add(self, at: int) -> None:
        """Count a candidate that was listed."""
        for key in self._keys_N[at]:
            self._left[key] -= 1
            self._close(key)

    def words_of(self, at: int) -> list[str]:
        """Return the words of all caps that count a candidate."""
        return [self._words[key] for key in self._keys_N[at]]

    def _close(self, key: tuple[int, int]) -> None:
        if self._left[key] > 0:
            return
        for at in self._members.get(key, []):
            self.closed_N[at] = True
            self.closed_by.setdefault(at, self._words[key])
