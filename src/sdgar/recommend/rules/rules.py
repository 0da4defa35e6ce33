"""Rules, the options of a request, and the re-ranking of one list of candidates."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import a_path, length, of_kind
from sdgar.errors import UsageError
from sdgar.maths.rng import check_seed
from sdgar.recommend.rules import file
from sdgar.recommend.rules.changes import (
    BoostRule,
    ExplorationRule,
    FreshnessRule,
    Notes,
    PopularityRule,
    standardised,
)
from sdgar.recommend.rules.facts import CATEGORY, Facts, ItemSelector
from sdgar.recommend.rules.file import RuleSet
from sdgar.recommend.rules.filters import blocked_items
from sdgar.recommend.rules.options import NO_OPTIONS, RerankOptions
from sdgar.recommend.rules.selection import (
    CapRule,
    ListEntry,
    PinRule,
    ScoreOf,
    Selection,
    pinned_entries,
    usable_candidates,
    with_pins,
)
from sdgar.recommend.rules.terms import CalibrationRule, DiversityRule
from sdgar.show.printed import Described

_LEAST, _TIMES = 100, 5
"""The default number of candidates: five times the length of the list, and at least a hundred."""
_WITH_SELECTOR = ("block", "allow", "boost", "bury")
"""The kinds of rules that select items."""


@dataclass(frozen=True, slots=True)
class Reranked:
    """One re-ranked list; it may be shorter than requested."""

    items_K: NDArray[np.int64]
    """The indices of the items, in order, each once."""
    scores_K: NDArray[np.float64]
    """The scores of the model, which no rule changes; NaN for a pinned item without one."""
    notes: tuple[tuple[str, ...], ...]
    """The notes on each entry: which rules acted on it."""


class Rules(Described):
    """Business rules, which re-rank lists of candidates.

    >>> rules = sdgar.Rules.of({"pin": [{"items": ["c"], "name": "sale"}]})
    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "d"])
    >>> sdgar.MostPopular().fit(data).recommend([3], k=2, rules=rules)["rules"].to_list()
    ['pinned: sale', '']
    """

    def __init__(self, rule_set: RuleSet) -> None:
        of_kind(
            "rule_set",
            rule_set,
            RuleSet,
            "Use Rules.read(path), Rules.of(mapping) or Rules.none().",
        )
        self._set = rule_set
        self._filters = rule_set.of("block", "allow", "age")
        self._boosts: tuple[BoostRule, ...] = rule_set.of("boost", "bury")
        self._pins: tuple[PinRule, ...] = rule_set.of("pin")
        self._caps: tuple[CapRule, ...] = rule_set.of("cap")
        self._popularity: PopularityRule | None = rule_set.only("popularity")
        self._freshness: FreshnessRule | None = rule_set.only("freshness")
        self._diversity: DiversityRule | None = rule_set.only("diversity")
        self._calibration: CalibrationRule | None = rule_set.only("calibration")
        self._exploration: ExplorationRule | None = rule_set.only("exploration")

    @classmethod
    def read(cls, path: str | Path) -> Rules:
        r"""Read rules from a TOML file; an error names the place of a mistake and its cure.

        >>> from pathlib import Path
        >>> _ = Path("rules.toml").write_text('[[block]]\nitems = ["a"]\n[diversity]\nstrength = 1')
        >>> sdgar.Rules.read("rules.toml")
        Rules: 1 block, 1 diversity
        """
        return cls(file.read(a_path("path", path)))

    @classmethod
    def of(cls, mapping: Mapping[str, Any], source: str = "rules") -> Rules:
        """Return rules from a mapping like the content of a file; ``source`` is its name in errors.

        >>> sdgar.Rules.of({"boost": [{"categories": ["new"], "by": 0.5}]})
        Rules: 1 boost
        """
        return cls(file.parse(mapping, source))

    @classmethod
    def none(cls) -> Rules:
        """Return no rules, for requests that have options only."""
        return cls(RuleSet())

    def using(
        self, table: Mapping[Any, Mapping[str, Any]] | None = None, **options: Any
    ) -> Reranking:
        """Return the rules with facts of items by id, options and a seed, for ``recommend``.

        ``table`` has the fields of each item, such as ``{"a": {"categories": ["drama"], "maker":
        "acme"}}``; ``sdgar.read_facts`` reads one. The options are the fields of ``RerankOptions``
        and ``seed``.

        >>> sdgar.Rules.none().using({"a": {"categories": ["drama"]}}, diversity=0.3)
        Rules: none
        facts of 1 item · diversity 0.3
        """
        return Reranking.of(self, table, **options)

    def __bool__(self) -> bool:
        return bool(self._set.rules)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rules) and self._set == other._set

    def __hash__(self) -> int:
        return hash(self._set)

    def _lines(self) -> list[str]:
        kinds = [kind for kind, _ in self._set.rules]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        return [f"Rules: {counts or 'none'}"]

    @property
    def rules(self) -> tuple[file.Rule, ...]:
        """The rules as records, kind by kind."""
        return tuple(rule for _, rule in self._set.rules)

    @property
    def seed(self) -> int | None:
        """The seed of the rule for exploration; None without such a rule."""
        return None if self._exploration is None else self._exploration.seed

    def depth(self, k: int, options: RerankOptions = NO_OPTIONS) -> int:
        """Return the number of candidates for a list of k; rules that only pin need k."""
        k = length("k", k)
        if options == NO_OPTIONS and len(self._pins) == len(self._set.rules):
            return k
        return max(self._set.candidates or _LEAST, _TIMES * k)

    def blocked(
        self, facts: Facts, options: RerankOptions = NO_OPTIONS, *, now: float | None = None
    ) -> NDArray[np.bool_] | None:
        """Return whether each item is blocked; None if none is.

        ``apply`` leaves blocked items out too. To rank without them gives more candidates.
        """
        blocked_I1 = self._blocked(facts, options, self._now(now))
        return None if blocked_I1 is None else blocked_I1[: facts.n_items]

    def pinned(self, facts: Facts) -> NDArray[np.int64]:
        """Return the indices of the known items that the rules pin, ascending."""
        at = facts.index_of([item for pin in self._pins for item in pin.items])
        return np.unique(at[at >= 0])

    def complaints(self, facts: Facts) -> list[str]:
        """Return sentences on the items and fields of the rules that the facts do not have."""
        named = [item for selector in self._selectors() for item in selector.items]
        named += [item for pin in self._pins for item in pin.items]
        at = facts.index_of(named).tolist()
        unknown = [str(item) for item, index in zip(named, at, strict=True) if index < 0]
        found = []
        if unknown:
            shown = ", ".join(unknown[:5]) + (" and others" if len(unknown) > 5 else "")
            found.append(f"the rules name items that the model does not know: {shown}.")
        known = facts.fields()
        missing = sorted(self._fields() - known)
        if missing:
            has = f"Fields: {', '.join(sorted(known))}." if known else "There are no fields at all."
            found.append(f"the rules name fields that no item has: {', '.join(missing)}. {has}")
        return found

    def _selectors(self) -> list[ItemSelector]:
        return [rule.selector for rule in self._set.of(*_WITH_SELECTOR)]

    def _fields(self) -> set[str]:
        found = {name for selector in self._selectors() for name in selector.fields()}
        found |= {rule.by for rule in self._set.of("cap", "calibration")}
        found |= {rule.field for rule in self._set.of("age", "freshness")}
        if self._diversity is not None and self._diversity.on == "categories":
            found.add(CATEGORY)
        return found

    def apply(
        self,
        items_N: NDArray[Any],
        scores_N: NDArray[Any],
        k: int,
        facts: Facts,
        options: RerankOptions = NO_OPTIONS,
        *,
        score_of: ScoreOf | None = None,
        seed: int | None = None,
        history_H: NDArray[Any] | None = None,
        now: float | None = None,
    ) -> Reranked:
        """Re-rank candidates with their scores, in any order, into a list of at most k.

        Candidates without a finite score or with a negative index are left out. ``score_of``
        scores a pinned item that is not a candidate; -inf or NaN leaves it out. ``seed`` is for
        exploration, ``history_H`` (the indices of the user's items) for calibration, and ``now``
        (seconds since 1970) for ages. The same arguments give the same list.
        """
        k, now = length("k", k), self._now(now)
        of_kind("facts", facts, Facts, "Make some with Facts(entries).")
        of_kind("options", options, RerankOptions, "Make some with RerankOptions(diversity=0.3).")
        blocked_I1 = self._blocked(facts, options, now)
        items_N, scores_N = usable_candidates(items_N, scores_N, blocked_I1)
        own = dict(zip(items_N.tolist(), scores_N.tolist(), strict=True))
        pins = pinned_entries(
            self._pins, k, facts, blocked_I1=blocked_I1, scores=own, score_of=score_of
        )
        pinned = [pin.item for pin in pins.values()]
        notes: Notes = [[] for _ in items_N]
        z_N = self._changed(items_N, standardised(scores_N), facts, options, notes, seed, now)
        free_N = np.flatnonzero(~np.isin(items_N, pinned))
        free_notes = [notes[at] for at in free_N.tolist()]
        history = None if history_H is None else np.asarray(history_H, np.int64)
        selection = Selection(self._caps, self._diversity_with(options), self._calibration)
        chosen = selection.select(
            z_N[free_N], items_N[free_N], k - len(pins), facts, free_notes,
            history_H=history, pinned=pinned,
        )  # fmt: skip
        listed = [
            ListEntry(int(items_N[at]), float(scores_N[at]), tuple(notes[at]))
            for at in free_N[chosen].tolist()
        ]
        whole = with_pins(listed, pins, k)
        return Reranked(
            np.array([one.item for one in whole], np.int64),
            np.array([one.score for one in whole], np.float64),
            tuple(one.notes for one in whole),
        )

    def _now(self, now: float | None) -> float:
        return self._set.now if self._set.now is not None else time.time() if now is None else now

    def _blocked(
        self, facts: Facts, options: RerankOptions, now: float
    ) -> NDArray[np.bool_] | None:
        return blocked_items(self._filters, options.exclude_categories, facts, now)

    def _diversity_with(self, options: RerankOptions) -> DiversityRule | None:
        """Return the rule for diversity, with the strength of the request added."""
        if self._diversity is None:
            return DiversityRule(options.diversity) if options.diversity else None
        strength = min(1.0, self._diversity.strength + options.diversity)
        return replace(self._diversity, strength=strength)

    def _changed(
        self,
        items_N: NDArray[np.int64],
        z_N: NDArray[np.float64],
        facts: Facts,
        options: RerankOptions,
        notes: Notes,
        seed: int | None,
        now: float,
    ) -> NDArray[np.float64]:
        """Return the scores after all changes, in their fixed order."""
        popularity = 0.0 if self._popularity is None else self._popularity.weight
        popularity = max(-1.0, min(1.0, options.popularity + popularity))
        if popularity:
            z_N = PopularityRule(popularity).change(z_N, items_N, facts, notes)
        for boost in self._boosts:
            z_N = boost.change(z_N, items_N, facts, notes)
        if self._freshness is not None:
            z_N = self._freshness.change(z_N, items_N, facts, notes, now)
        if self._exploration is not None:
            z_N = self._exploration.change(z_N, items_N, notes, seed)
        return z_N


@dataclass(frozen=True, repr=False, eq=False)
class Reranking(Described):
    """Rules with facts of items by id, the options of a request, and a seed."""

    rules: Rules
    """The rules to apply."""
    table: Mapping[Any, Mapping[str, Any]] | None = None
    """The fields of items by id, or None."""
    options: RerankOptions = NO_OPTIONS
    """The options of the request."""
    seed: int | None = None
    """The seed for exploration; None for the seed of the rules."""
    made: list[tuple[object, Facts]] = field(default_factory=list, init=False)
    """The last facts, with the model that they were built for."""

    @classmethod
    def of(
        cls,
        rules: Rules,
        table: Mapping[Any, Mapping[str, Any]] | None = None,
        *,
        diversity: float = 0.0,
        popularity: float = 0.0,
        exclude_categories: Iterable[str] = (),
        seed: int | None = None,
    ) -> Reranking:
        """Return rules with facts, options and a seed."""
        of_kind("rules", rules, Rules, "Read some with sdgar.Rules.read(path).")
        if table is not None and not isinstance(table, Mapping):
            raise UsageError(
                "facts must be fields by item id, such as {'a': {'categories': ['drama']}}, got "
                f"an object of type {type(table).__name__}. Read a file with "
                "sdgar.read_facts(path).",
                code="bad_type",
            )
        options = RerankOptions(diversity, popularity, exclude_categories)  # type: ignore[arg-type]
        return cls(rules, table, options, None if seed is None else check_seed(seed))

    @classmethod
    def from_any(cls, given: object) -> Reranking:
        """Return a re-ranking from the argument ``rules`` of ``recommend``."""
        if isinstance(given, Rules):
            return cls(given)
        if isinstance(given, Reranking):
            return given
        raise UsageError(
            f"rules must be Rules, got an object of type {type(given).__name__}. Read some with "
            "sdgar.Rules.read(path), or make some with sdgar.Rules.of(mapping).",
            code="bad_type",
        )

    def _lines(self) -> list[str]:
        n = 0 if self.table is None else len(self.table)
        parts = [] if self.table is None else [f"facts of {n:,} item{'' if n == 1 else 's'}"]
        options = (("diversity", self.options.diversity), ("popularity", self.options.popularity))
        parts += [f"{name} {value:g}" for name, value in options if value]
        if self.options.exclude_categories:
            parts.append(f"without {', '.join(sorted(self.options.exclude_categories))}")
        return [*self.rules._lines(), *([" · ".join(parts)] if parts else [])]
