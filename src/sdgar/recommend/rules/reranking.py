"""The re-ranking of lists: rules with facts of items, the options of a request, and a seed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sdgar.errors import UsageError
from sdgar.recommend.rules.changes import Candidates, PopularityRule, standardised
from sdgar.recommend.rules.facts import Facts
from sdgar.recommend.rules.filters import BlockRule
from sdgar.recommend.rules.selection import ListEntry, pinned_entries, select, with_pins
from sdgar.recommend.rules.settings import Moment, Rule, Texts, number, settings_of
from sdgar.recommend.rules.terms import CalibrationRule, DiversityRule
from sdgar.show.printed import Described

_LEAST, _TIMES = 100, 5
"""The default number of candidates: five times the length of the list, and at least a hundred."""


@dataclass(frozen=True)
class RerankOptions:
    """The options of one request; their strengths are added to the rules' own."""

    diversity: Annotated[float, number(0, 1)] = 0.0
    """The strength of diversity: 0 ranks by score only, 1 prefers items that differ from each
    other."""
    popularity: Annotated[float, number(-1, 1)] = 0.0
    """The weight of popularity: above 0 prefers popular items, below 0 rare ones."""
    exclude_categories: Texts = ()
    """The categories whose items are left out."""

    def __post_init__(self) -> None:
        """Raise if an option is out of its range."""
        try:
            for name, setting in settings_of(type(self)).items():
                object.__setattr__(self, name, setting.value(name, getattr(self, name)))
        except ValueError as error:
            raise UsageError(str(error), code="bad_option") from None


NO_OPTIONS = RerankOptions()
"""The options of a request without any."""


@dataclass(frozen=True, repr=False, eq=False)
class Reranking(Described):
    """Rules with facts of items by id, the options of a request, and a seed."""

    rules: tuple[Rule, ...]
    """The rules to apply."""
    now: Moment = None
    """The time from which ages count, in seconds since 1970; None for the present."""
    candidates: int | None = None
    """The minimum number of candidates that are re-ranked; None for the default."""
    table: Mapping[Any, Mapping[str, Any]] | None = None
    """The fields of items by id, or None."""
    options: RerankOptions = NO_OPTIONS
    """The options of the request."""
    seed: int | None = None
    """The seed for exploration; None for the seed of the rules."""
    made: list[tuple[object, Facts]] = field(default_factory=list, init=False)
    """The last facts, with the model that they were built for."""

    def _lines(self) -> list[str]:
        counts = Counter(rule.kind for rule in self.rules)
        kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        n = 0 if self.table is None else len(self.table)
        parts = [] if self.table is None else [f"facts of {n:,} item{'' if n == 1 else 's'}"]
        options = (("diversity", self.options.diversity), ("popularity", self.options.popularity))
        parts += [f"{name} {value:g}" for name, value in options if value]
        if self.options.exclude_categories:
            parts.append(f"without {', '.join(sorted(self.options.exclude_categories))}")
        return [f"Rules: {kinds or 'none'}", *([" · ".join(parts)] if parts else [])]

    def of(self, *kinds: str) -> list[Any]:
        """Return the rules of some kinds, kind by kind."""
        return [rule for kind in kinds for rule in self.rules if rule.kind == kind]

    @cached_property
    def _filters(self) -> list[Any]:
        filters = self.of("block", "allow", "age")
        if self.options.exclude_categories:
            excluded = tuple(sorted(set(self.options.exclude_categories)))
            filters.append(BlockRule(categories=excluded))
        return filters

    @cached_property
    def _changes(self) -> list[Any]:
        """The rules that change scores in their order, with the popularity of the options."""
        weight = self.options.popularity + sum(rule.dial for rule in self.of("popularity"))
        first = [PopularityRule(dial=max(-1.0, min(1.0, weight)))] if weight else []
        return [*first, *self.of("boost", "bury", "freshness", "exploration")]

    @cached_property
    def _weighted(self) -> list[DiversityRule | CalibrationRule]:
        """The rules for diversity, with the strength of the options, and for calibration."""
        (own,) = self.of("diversity") or [DiversityRule(strength=0.0)]
        strength = min(1.0, own.strength + self.options.diversity)
        rules = (replace(own, strength=strength), *self.of("calibration"))
        return [rule for rule in rules if rule.strength > 0]

    @cached_property
    def _pins(self) -> list[Any]:
        return self.of("pin")

    def _time(self) -> float:
        return time.time() if self.now is None else self.now

    def own_seed(self) -> int | None:
        """Return the seed, which may be that of the rule for exploration; None without any."""
        own = (rule.seed for rule in self.of("exploration"))
        return next(own, None) if self.seed is None else self.seed

    def depth(self, k: int) -> int:
        """Return the number of candidates for a list of k; rules that only pin need k."""
        if self.options == NO_OPTIONS and len(self._pins) == len(self.rules):
            return k
        return max(self.candidates or _LEAST, _TIMES * k)

    def blocked(self, facts: Facts) -> NDArray[np.bool_] | None:
        """Return whether each item is blocked; None if none is."""
        now = self._time()
        found = [rule.blocked(facts, now) for rule in self._filters]
        return np.logical_or.reduce(found) if found else None

    def pinned(self, facts: Facts) -> NDArray[np.int64]:
        """Return the indices of the known items that the rules pin, ascending."""
        at = facts.index_of([item for pin in self._pins for item in pin.items])
        return np.unique(at[at >= 0])

    def complaints(self, facts: Facts) -> list[str]:
        """Return sentences on the items and fields of the rules that the facts do not have."""
        named = [item for rule in self.rules for item in rule.item_ids]
        at = facts.index_of(named).tolist()
        unknown = [str(item) for item, index in zip(named, at, strict=True) if index < 0]
        found = []
        if unknown:
            shown = ", ".join(unknown[:5]) + (" and others" if len(unknown) > 5 else "")
            found.append(f"the rules name items that the model does not know: {shown}.")
        known = facts.fields()
        missing = sorted(set().union(*(rule.item_fields for rule in self.rules)) - known)
        if missing:
            has = f"Fields: {', '.join(sorted(known))}." if known else "There are no fields at all."
            found.append(f"the rules name fields that no item has: {', '.join(missing)}. {has}")
        return found

    def apply(
        self,
        items_N: NDArray[np.int64],
        scores_N: NDArray[np.float64],
        k: int,
        facts: Facts,
        *,
        pin_scores: Mapping[int, float] | None = None,
        seed: int | None = None,
        history_H: NDArray[np.int64] | None = None,
    ) -> list[ListEntry]:
        """Re-rank the candidates of one list, the best first, into a list of at most k.

        An entry has the score of the model, which no rule changes. No candidate is blocked.
        ``pin_scores`` are the scores of pinned items that are not among the candidates; without a
        finite one, an item is not listed. ``seed`` is for exploration, and ``history_H`` (the
        indices of the user's items) for calibration.
        """
        own = dict(zip(items_N.tolist(), scores_N.tolist(), strict=True))
        pins = pinned_entries(self._pins, k, facts, {**(pin_scores or {}), **own})
        seed = self.own_seed() if seed is None else seed
        candidates = Candidates(items_N, facts, [[] for _ in own], self._time(), seed or 0)
        z_N = standardised(scores_N)
        for rule in self._changes:
            z_N = rule.change(z_N, candidates)
        chosen = select(
            candidates, z_N, k - len(pins), caps=self.of("cap"), weighted=self._weighted,
            history_H=history_H, pinned=[item for item, _, _ in pins.values()],
        )  # fmt: skip
        listed = [
            (int(items_N[at]), float(scores_N[at]), tuple(candidates.notes[at])) for at in chosen
        ]
        return with_pins(listed, pins, k)
