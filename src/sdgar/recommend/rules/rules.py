"""The rules of the house, and what they make of one list of candidates."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import a_path, length, of_kind
from sdgar.errors import UsageError
from sdgar.recommend.rules import file
from sdgar.recommend.rules.calibration import Calibration
from sdgar.recommend.rules.caps import Cap
from sdgar.recommend.rules.changes import (
    Boost,
    Exploration,
    Freshness,
    Notes,
    Popularity,
    in_spreads,
)
from sdgar.recommend.rules.dials import Dials
from sdgar.recommend.rules.diversity import Diversity
from sdgar.recommend.rules.facts import CATEGORY, Facts
from sdgar.recommend.rules.file import Rule, Written
from sdgar.recommend.rules.filters import Age, Allow, Block, Filter, blocked_items
from sdgar.recommend.rules.pins import Entry, Pin, ScoreOf, pinned_numbers, placed
from sdgar.recommend.rules.selection import Selection
from sdgar.recommend.rules.which import Which
from sdgar.show.printed import Described

if TYPE_CHECKING:
    from sdgar.recommend.rules.reranking import Reranking

_LEAST, _TIMES = 100, 5
"""The usual number of candidates: five times the length of the list, and at least a hundred."""
NO_DIALS = Dials()
"""The dials of a request that says nothing."""


@dataclass(frozen=True, slots=True)
class Reranked:
    """One list after the rules have acted; it may be shorter than was asked for."""

    items_K: NDArray[np.int64]
    """The numbers of the items, in order; none is there twice."""
    scores_K: NDArray[np.float64]
    """The scores of the model, which no rule changes; NaN for a pinned item without one."""
    notes: tuple[tuple[str, ...], ...]
    """The words about each entry: which rules acted on it."""


class Rules(Described):
    """Rules of the house, which re-rank lists of candidates.

    >>> rules = sdgar.Rules.of({"pin": [{"items": ["c"], "name": "sale"}]})
    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "d"])
    >>> sdgar.MostPopular().fit(data).recommend([3], k=2, rules=rules)["rules"].to_list()
    ['pinned: sale', '']
    """

    def __init__(self, said: Written) -> None:
        of_kind("said", said, Written, "Use Rules.read(path), Rules.of(mapping) or Rules.none().")
        self._said = said
        self._filters: tuple[Filter, ...] = self._all(Block, Allow, Age)
        self._boosts: tuple[Boost, ...] = self._all(Boost)
        self._pins: tuple[Pin, ...] = self._all(Pin)
        self._caps: tuple[Cap, ...] = self._all(Cap)
        self._popularity: Popularity | None = next(iter(self._all(Popularity)), None)
        self._freshness: Freshness | None = next(iter(self._all(Freshness)), None)
        self._diversity: Diversity | None = next(iter(self._all(Diversity)), None)
        self._calibration: Calibration | None = next(iter(self._all(Calibration)), None)
        self._exploration: Exploration | None = next(iter(self._all(Exploration)), None)

    def _all(self, *kinds: type) -> tuple[Any, ...]:
        return tuple(rule for rule in self._said.rules if isinstance(rule, kinds))

    @classmethod
    def read(cls, path: str | Path) -> Rules:
        r"""Read rules from a TOML file; a mistake in it is named with its place and its cure.

        >>> from pathlib import Path
        >>> _ = Path("rules.toml").write_text('[[block]]\nitems = ["a"]\n[diversity]\nstrength = 1')
        >>> sdgar.Rules.read("rules.toml")
        Rules: 1 block, 1 diversity
        """
        return cls(file.read(a_path("path", path)))

    @classmethod
    def of(cls, mapping: Mapping[str, Any], source: str = "rules") -> Rules:
        """Make rules from a mapping with the tables of such a file; ``source`` names it in errors.

        >>> sdgar.Rules.of({"boost": [{"categories": ["new"], "by": 0.5}]})
        Rules: 1 boost
        """
        return cls(file.written(mapping, source))

    @classmethod
    def none(cls) -> Rules:
        """Return no rules, for requests that have dials alone."""
        return cls(Written())

    def using(
        self, table: Mapping[Any, Mapping[str, Any]] | None = None, **options: Any
    ) -> Reranking:
        """Return the rules with facts of items by id, dials and a seed, for ``recommend``.

        ``table`` has the fields of each item, such as ``{"a": {"categories": ["drama"], "maker":
        "acme"}}``; ``sdgar.read_facts`` reads one. The options are those of ``Dials``, and a
        ``seed``.

        >>> sdgar.Rules.none().using({"a": {"categories": ["drama"]}}, diversity=0.3)
        Rules: none
        facts of 1 item · diversity 0.3
        """
        from sdgar.recommend.rules.reranking import Reranking

        return Reranking.of(self, table, **options)

    def __bool__(self) -> bool:
        return bool(self._said.rules)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rules) and self._said == other._said

    def __hash__(self) -> int:
        return hash(self._said)

    def _lines(self) -> list[str]:
        counts: dict[str, int] = {}
        for rule in self._said.rules:
            name = type(rule).__name__.lower()
            name = "bury" if isinstance(rule, Boost) and rule.by < 0 else name
            counts[name] = counts.get(name, 0) + 1
        said = ", ".join(f"{count} {name}" for name, count in counts.items())
        return [f"Rules: {said or 'none'}"]

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules as records, kind by kind."""
        return self._said.rules

    @property
    def seed(self) -> int | None:
        """The seed of the rule for exploration; None if there is no such rule."""
        return None if self._exploration is None else self._exploration.seed

    def depth(self, k: int, dials: Dials = NO_DIALS) -> int:
        """Return how many candidates a list of k wants; pins alone want no more than k."""
        k = length("k", k)
        others = any(not isinstance(rule, Pin) for rule in self._said.rules)
        if not others and dials == NO_DIALS:
            return k
        return max(self._said.candidates or _LEAST, _TIMES * k)

    def blocked(
        self, facts: Facts, dials: Dials = NO_DIALS, *, now: float | None = None
    ) -> NDArray[np.bool_] | None:
        """Return whether each item may not be listed; None if nothing is left out.

        Whoever ranks the catalogue without these items has more candidates that can be listed.
        ``apply`` leaves them out as well.
        """
        blocked_I1 = self._blocked(facts, dials, self._now(now))
        return None if blocked_I1 is None else blocked_I1[: facts.n_items]

    def pinned(self, facts: Facts) -> NDArray[np.int64]:
        """Return the numbers of the items that the rules pin, ascending."""
        return pinned_numbers(self._pins, facts)

    def complaints(self, facts: Facts) -> list[str]:
        """Say in sentences which items and fields of the rules the facts know nothing of."""
        named = [item for which in self._whiches() for item in which.items]
        named += [item for pin in self._pins for item in pin.items]
        unknown = [
            str(item)
            for item, at in zip(named, facts.numbers_of(named).tolist(), strict=True)
            if at < 0
        ]
        said = []
        if unknown:
            shown = ", ".join(unknown[:5]) + (" and others" if len(unknown) > 5 else "")
            said.append(f"the rules name items that the model does not know: {shown}.")
        known = facts.fields()
        missing = sorted(self._fields() - known)
        if missing:
            has = f"Fields: {', '.join(sorted(known))}." if known else "There are no fields at all."
            said.append(f"the rules name fields that no item has: {', '.join(missing)}. {has}")
        return said

    def _whiches(self) -> list[Which]:
        return [rule.which for rule in self._said.rules if isinstance(rule, Block | Allow | Boost)]

    def _fields(self) -> set[str]:
        found = {one.field for which in self._whiches() for one in which.conditions}
        for rule in self._said.rules:
            if isinstance(rule, Cap | Calibration):
                found.add(rule.by)
            if isinstance(rule, Age | Freshness):
                found.add(rule.field)
            if isinstance(rule, Diversity) and rule.on == "categories":
                found.add(CATEGORY)
        return found

    def apply(
        self,
        items_N: NDArray[Any],
        scores_N: NDArray[Any],
        k: int,
        facts: Facts,
        dials: Dials = NO_DIALS,
        *,
        score_of: ScoreOf | None = None,
        seed: int | None = None,
        history_H: NDArray[Any] | None = None,
        now: float | None = None,
    ) -> Reranked:
        """Re-rank candidates with their scores into a list of at most k, in any order they come.

        Candidates without a finite score, and those with a negative number, are left out. A pinned
        item that is no candidate is scored by ``score_of``; a score of -inf or NaN leaves it out.
        ``seed`` is for exploration, ``history_H`` (the numbers of what the user has) for
        calibration, and ``now`` (seconds since 1970) for ages. The same arguments give the same
        list.
        """
        k, now = length("k", k), self._now(now)
        of_kind("facts", facts, Facts, "Make some with Facts(entries).")
        of_kind("dials", dials, Dials, "Make some with Dials(diversity=0.3).")
        blocked_I1 = self._blocked(facts, dials, now)
        items_N, scores_N = _candidates(items_N, scores_N, blocked_I1)
        own = dict(zip(items_N.tolist(), scores_N.tolist(), strict=True))
        pins = placed(self._pins, k, facts, blocked_I1=blocked_I1, scores=own, score_of=score_of)
        pinned = [pin.item for pin in pins.values()]
        notes: Notes = [[] for _ in items_N]
        z_N = self._changed(items_N, in_spreads(scores_N), facts, dials, notes, seed, now)
        free_N = np.flatnonzero(~np.isin(items_N, pinned))
        free_notes = [notes[at] for at in free_N.tolist()]
        history = None if history_H is None else np.asarray(history_H, np.int64)
        selection = Selection(self._caps, self._varied(dials), self._calibration)
        chosen = selection.select(
            z_N[free_N], items_N[free_N], k - len(pins), facts, free_notes,
            history_H=history, pinned=pinned,
        )  # fmt: skip
        listed = [
            Entry(int(items_N[at]), float(scores_N[at]), tuple(notes[at]))
            for at in free_N[chosen].tolist()
        ]
        whole = _with_pins(listed, pins, k)
        return Reranked(
            np.array([one.item for one in whole], np.int64),
            np.array([one.score for one in whole], np.float64),
            tuple(one.notes for one in whole),
        )

    def _now(self, now: float | None) -> float:
        return self._said.now if self._said.now is not None else time.time() if now is None else now

    def _blocked(self, facts: Facts, dials: Dials, now: float) -> NDArray[np.bool_] | None:
        return blocked_items(self._filters, dials.exclude_categories, facts, now)

    def _varied(self, dials: Dials) -> Diversity | None:
        """Return the rule for diversity, with the dial of the request added to its strength."""
        if self._diversity is None:
            return Diversity(dials.diversity) if dials.diversity else None
        strength = min(1.0, self._diversity.strength + dials.diversity)
        return replace(self._diversity, strength=strength)

    def _changed(
        self,
        items_N: NDArray[np.int64],
        z_N: NDArray[np.float64],
        facts: Facts,
        dials: Dials,
        notes: Notes,
        seed: int | None,
        now: float,
    ) -> NDArray[np.float64]:
        """Return the scores after all changes, in the order that is fixed."""
        dial = dials.popularity + (0.0 if self._popularity is None else self._popularity.dial)
        if dial:
            z_N = Popularity(max(-1.0, min(1.0, dial))).change(z_N, items_N, facts, notes)
        for boost in self._boosts:
            z_N = boost.change(z_N, items_N, facts, notes)
        if self._freshness is not None:
            z_N = self._freshness.change(z_N, items_N, facts, notes, now)
        if self._exploration is not None:
            z_N = self._exploration.change(z_N, items_N, notes, seed)
        return z_N


def _candidates(
    items_N: NDArray[Any], scores_N: NDArray[Any], blocked_I1: NDArray[np.bool_] | None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return those that may be listed, each once: by score, and by number where these are equal."""
    items_N = np.asarray(items_N, np.int64).reshape(-1)
    scores_N = np.asarray(scores_N, np.float64).reshape(-1)
    if len(items_N) != len(scores_N):
        raise UsageError(
            f"there are {len(items_N):,} candidates with {len(scores_N):,} scores. Give each of "
            "them its score.",
            code="bad_shape",
        )
    fits_N = (items_N >= 0) & np.isfinite(scores_N)
    if blocked_I1 is not None:
        fits_N &= ~blocked_I1[np.clip(items_N, 0, len(blocked_I1) - 1)]
    items_N, scores_N = items_N[fits_N], scores_N[fits_N]
    order_N = np.lexsort((items_N, -scores_N))
    items_N, scores_N = items_N[order_N], scores_N[order_N]
    first = np.sort(np.unique(items_N, return_index=True)[1])
    return items_N[first], scores_N[first]


def _with_pins(listed: list[Entry], pins: dict[int, Entry], k: int) -> list[Entry]:
    """Return the list with each pin at its place; the last ones follow where it ends before."""
    whole: list[Entry] = []
    rest = iter(listed)
    for place in range(1, k + 1):
        one = pins.pop(place, None) or next(rest, None)
        if one is None:
            break
        whole.append(one)
    return whole + [pins[place] for place in sorted(pins)]
