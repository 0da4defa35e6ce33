"""Caps, pins, and the greedy selection of a list.

    argmax_i  (1 - λ_d) (1 - λ_c) r_i + λ_d d_i(S) - λ_c KL(p ‖ q̃(S ∪ i))

over the candidates i that no cap excludes, where S are the items selected before, d and λ_d belong
to the rule for diversity, and KL and λ_c to the rule for calibration. r_i is the score after all
changes, from 0 for the last candidate to 1 for the first. Ties go to the better score of the
model, and then to the lower index.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from sdgar.recommend.rules.changes import Candidates
from sdgar.recommend.rules.facts import CATEGORY, Facts
from sdgar.recommend.rules.settings import Field, ItemIds, Name, Rule, Texts, whole_number
from sdgar.recommend.rules.terms import CalibrationRule, DiversityRule

ListEntry = tuple[int, float, tuple[str, ...]]
"""An item of a list: its index, its score, and the notes of the rules on it."""
_COUNT = whole_number(1, 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapRule(Rule):
    """#{ i ∈ L : v ∈ V_i } ≤ at_most for each value v, with V_i the values of item i in a field.

    An item counts for each of its values. An item without a value is not counted.
    """

    kind: ClassVar[str] = "cap"

    at_most: Annotated[int, _COUNT]
    """The maximum number of items of each value in a list."""
    by: Field = CATEGORY
    """The field whose values are counted."""
    values: Texts = ()
    """The counted values; empty for all values."""
    name: Name = None
    """The name of the rule."""

    def words(self, value: str) -> str:
        """Return a short text of the rule for a value."""
        text = f"at most {self.at_most} of {value}"
        return f"{text} ({self.name})" if self.name else text


class CapCounter:
    """Counts the listed items, and excludes the candidates that a cap has no place for."""

    def __init__(
        self,
        caps: Sequence[CapRule],
        items_N: NDArray[np.int64],
        facts: Facts,
        pinned: Sequence[int],
    ) -> None:
        self.excluded_by: dict[int, str] = {}
        """The words of the cap that excludes a candidate, by its position."""
        self.excluded_N = np.zeros(len(items_N), bool)
        """Whether a cap excludes a candidate."""
        self._left: dict[tuple[int, int], int] = {}
        self._members: dict[tuple[int, int], list[int]] = {}
        self._keys_N: list[list[tuple[int, int]]] = [[] for _ in items_N]
        self._words: dict[tuple[int, int], str] = {}
        positions = [*enumerate(items_N.tolist()), *((-1, item) for item in pinned)]
        for number, cap in enumerate(caps):
            coded, only = facts.coded(cap.by), set(cap.values)
            for at, item in positions:
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
            self._exclude_if_full(key)

    def add(self, at: int) -> None:
        """Count a candidate that was listed."""
        for key in self._keys_N[at]:
            self._left[key] -= 1
            self._exclude_if_full(key)

    def words_of(self, at: int) -> list[str]:
        """Return the words of all caps that count a candidate."""
        return [self._words[key] for key in self._keys_N[at]]

    def _exclude_if_full(self, key: tuple[int, int]) -> None:
        if self._left[key] > 0:
            return
        for at in self._members.get(key, []):
            self.excluded_N[at] = True
            self.excluded_by.setdefault(at, self._words[key])


@dataclass(frozen=True, slots=True, kw_only=True)
class PinRule(Rule):
    """L_{at} = i, and the entries from there on move down by one place.

    Several items have the places at, at + 1, …; if a place is taken, the item has the next free
    one. A pin after the end of a list has no effect. A list that ends before the place of a pin has
    the pinned item as its last entry.
    """

    kind: ClassVar[str] = "pin"

    items: ItemIds
    """The ids of the items."""
    at: Annotated[int, _COUNT] = 1
    """The place of the first of them, counted from 1."""
    name: Name = None
    """The name of the rule."""


def pinned_entries(
    pins: Sequence[PinRule], k: int, facts: Facts, scores: Mapping[int, float]
) -> dict[int, ListEntry]:
    """Return the pinned items by place; items without a finite score are left out."""
    found: dict[int, ListEntry] = {}
    used: set[int] = set()
    for pin in pins:
        place = pin.at
        for item in facts.index_of(pin.items).tolist():
            while place in found:
                place += 1
            if place > k:
                break
            score = scores.get(item, -math.inf)
            if item in used or not math.isfinite(score):
                continue
            note = f"pinned: {pin.name}" if pin.name else "pinned"
            found[place] = item, score, (note,)
            used.add(item)
    return found


def select(
    candidates: Candidates,
    z_N: NDArray[np.float64],
    n: int,
    *,
    caps: Sequence[CapRule],
    weighted: Sequence[DiversityRule | CalibrationRule],
    history_H: NDArray[np.int64] | None,
    pinned: Sequence[int],
) -> list[int]:
    """Return the positions of at most n candidates, in order; caps count pinned items too."""
    order_N = np.argsort(-z_N, kind="stable")
    order_N = order_N[~np.isin(candidates.items_N[order_N], pinned)]
    items_N, facts = candidates.items_N[order_N], candidates.facts
    counter = CapCounter(caps, items_N, facts, pinned)
    begun = [(rule, rule.begin(items_N, history_H, facts)) for rule in weighted]
    terms = [(rule, term) for rule, term in begun if term is not None]
    score_weight = math.prod(1 - rule.strength for rule, _ in terms)
    base_N = score_weight * _from_0_to_1(z_N[order_N])
    left_N = np.ones(len(items_N), bool)
    picked: list[int] = []
    binding: set[str] = set()
    new_notes: dict[int, list[str]] = {}
    while len(picked) < n:
        open_N = left_N & ~counter.excluded_N if counter.excluded_by else left_N
        first = int(open_N.argmax()) if len(open_N) else 0
        if not len(open_N) or not open_N[first]:
            break
        at = preferred = first
        parts = [rule.strength * term.values() for rule, term in terms]
        if parts or counter.excluded_by:
            value_N = np.where(left_N, sum(parts, base_N), -np.inf)
            preferred = int(value_N.argmax())
            at = int(np.where(open_N, value_N, -np.inf).argmax()) if parts else first
        new_notes[at] = []
        if preferred != at:
            binding.add(counter.excluded_by[preferred])
            new_notes[at].append(f"moved up: {counter.excluded_by[preferred]}")
        for part_N, (rule, _) in zip(parts, terms, strict=True):
            if part_N[at] > part_N[first]:
                new_notes[at].append(rule.note)
        picked.append(at)
        left_N[at] = False
        counter.add(at)
        for _, term in terms:
            term.add(at)
    for at in picked:
        kept = [f"kept: {words}" for words in counter.words_of(at) if words in binding]
        candidates.notes[int(order_N[at])] += new_notes[at] + kept
    return [int(order_N[at]) for at in picked]


def _from_0_to_1(z_N: NDArray[np.float64]) -> NDArray[np.float64]:
    """r_i = (z_i - min z) / (max z - min z), and 0 where all are equal."""
    if not len(z_N) or z_N.max() == z_N.min():
        return np.zeros(len(z_N))
    r_N: NDArray[np.float64] = (z_N - z_N.min()) / (z_N.max() - z_N.min())
    return r_N


def with_pins(listed: Sequence[ListEntry], pins: dict[int, ListEntry], k: int) -> list[ListEntry]:
    """Return the list with each pin at its place; further pins follow at the end."""
    whole: list[ListEntry] = []
    rest = iter(listed)
    for place in range(1, k + 1):
        one = pins.pop(place, None) or next(rest, None)
        if one is None:
            break
        whole.append(one)
    return whole + [pins[place] for place in sorted(pins)]
