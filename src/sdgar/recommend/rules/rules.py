"""Rules, the options of a request, and the re-ranking of one list of candidates.

A file of rules is TOML with tables named like the rules:

    now = 2026-03-01              # ages count from here; from the present if it is missing
    candidates = 200              # re-rank at least this many items of each list

    [[cap]]                       # block, allow, age, boost, bury, cap and pin may be repeated
    at_most = 2

    [diversity]                   # popularity, freshness, diversity, calibration and exploration
    strength = 0.3                # may be there once
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import a_path, length, of_kind
from sdgar.errors import UsageError, did_you_mean
from sdgar.maths.rng import check_seed
from sdgar.recommend.rules.changes import (
    BoostRule,
    BuryRule,
    Candidates,
    ExplorationRule,
    FreshnessRule,
    PopularityRule,
    standardised,
)
from sdgar.recommend.rules.facts import Facts
from sdgar.recommend.rules.filters import AgeRule, AllowRule, BlockRule, blocked_items
from sdgar.recommend.rules.selection import (
    CapRule,
    PinRule,
    ScoreOf,
    pinned_entries,
    select,
    usable_candidates,
    with_pins,
)
from sdgar.recommend.rules.settings import (
    NO_OPTIONS,
    Moment,
    RerankOptions,
    Rule,
    parsed,
    read_toml,
    settings_of,
    whole_number,
)
from sdgar.recommend.rules.terms import CalibrationRule, DiversityRule
from sdgar.show.printed import Described

KINDS: dict[str, type[Rule]] = {
    kind.kind: kind
    for kind in (
        BlockRule, AllowRule, AgeRule, BoostRule, BuryRule, CapRule, PinRule, PopularityRule,
        FreshnessRule, DiversityRule, CalibrationRule, ExplorationRule,
    )
}  # fmt: skip
"""All rules by the names of their tables in a file."""
_LEAST, _TIMES = 100, 5
"""The default number of candidates: five times the length of the list, and at least a hundred."""


@dataclass(frozen=True, slots=True)
class Reranked:
    """One re-ranked list; it may be shorter than requested."""

    items_K: NDArray[np.int64]
    """The indices of the items, in order, each once."""
    scores_K: NDArray[np.float64]
    """The scores of the model, which no rule changes; NaN for a pinned item without one."""
    notes: tuple[tuple[str, ...], ...]
    """The notes on each entry: which rules acted on it."""


@dataclass(frozen=True, repr=False)
class Rules(Described):
    """Business rules, which re-rank lists of candidates.

    >>> rules = sdgar.Rules.of({"pin": [{"items": ["c"], "name": "sale"}]})
    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "d"])
    >>> sdgar.MostPopular().fit(data).recommend([3], k=2, rules=rules)["rules"].to_list()
    ['pinned: sale', '']
    """

    rules: tuple[Rule, ...] = ()
    """The rules, kind by kind."""
    now: Moment = None
    """The time from which ages count, in seconds since 1970; None for the present."""
    candidates: Annotated[int | None, whole_number(1, 100_000)] = None
    """The minimum number of candidates that are re-ranked; None for the default."""

    def __post_init__(self) -> None:
        """Raise for what is not a tuple of rules, such as a path."""
        cure = "Use Rules.read(path), Rules.of(mapping) or Rules.none()."
        of_kind("rules", self.rules, tuple, cure)

    @classmethod
    def read(cls, path: str | Path) -> Rules:
        r"""Read rules from a TOML file; an error names the place of a mistake and its cure.

        >>> from pathlib import Path
        >>> _ = Path("rules.toml").write_text('[[block]]\nitems = ["a"]\n[diversity]\nstrength = 1')
        >>> sdgar.Rules.read("rules.toml")
        Rules: 1 block, 1 diversity
        """
        path = a_path("path", path)
        return cls.of(read_toml(path), path.name)

    @classmethod
    def of(cls, mapping: Mapping[str, Any], source: str = "rules") -> Rules:
        """Return rules from a mapping like the content of a file; ``source`` is its name in errors.

        >>> sdgar.Rules.of({"boost": [{"categories": ["new"], "by": 0.5}]})
        Rules: 1 boost
        """
        others = {name: mapping[name] for name in settings_of(cls) if name in mapping}
        for name in mapping:
            if name not in KINDS and name not in others:
                near = did_you_mean(name, (*KINDS, *settings_of(cls)))
                raise UsageError(
                    f"{source}: there is no rule {name!r}.{near} Rules: {', '.join(KINDS)}.",
                    code="unknown_rule",
                )
        found: list[Rule] = []
        for name, kind in KINDS.items():
            given = mapping.get(name, [])
            tables = given if isinstance(given, list | tuple) else [given]
            if not kind.repeated and tables and given is tables:
                raise UsageError(
                    f"{source}: {name} is allowed once. Write [{name}] instead of [[{name}]].",
                    code="bad_rules",
                )
            for at, table in enumerate(tables, 1):
                place = f"{source}, " + (f"[[{name}]]" if kind.repeated else f"[{name}]")
                place += f" number {at}" if len(tables) > 1 else ""
                found.append(parsed(kind, place, table))
        return parsed(cls, source, others, rules=tuple(found))

    @classmethod
    def none(cls) -> Rules:
        """Return no rules, for requests that have options only."""
        return cls()

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
        return bool(self.rules)

    def _lines(self) -> list[str]:
        kinds = [rule.kind for rule in self.rules]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        return [f"Rules: {counts or 'none'}"]

    @cached_property
    def _by_kind(self) -> dict[str, list[Any]]:
        return {name: [rule for rule in self.rules if rule.kind == name] for name in KINDS}

    def _of(self, *kinds: str) -> list[Any]:
        """Return the rules of some kinds, kind by kind."""
        return [rule for kind in kinds for rule in self._by_kind[kind]]

    @property
    def seed(self) -> int | None:
        """The seed of the rule for exploration; None without such a rule."""
        return next((rule.seed for rule in self._of("exploration")), None)

    def depth(self, k: int, options: RerankOptions = NO_OPTIONS) -> int:
        """Return the number of candidates for a list of k; rules that only pin need k."""
        k = length("k", k)
        if options == NO_OPTIONS and len(self._of("pin")) == len(self.rules):
            return k
        return max(self.candidates or _LEAST, _TIMES * k)

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
        at = facts.index_of([item for pin in self._of("pin") for item in pin.items])
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
            self._of("pin"), k, facts, blocked_I1=blocked_I1, scores=own, score_of=score_of
        )
        candidates = Candidates(items_N, facts, [[] for _ in own], now, seed)
        z_N = standardised(scores_N)
        for rule in self._changes(options):
            z_N = rule.change(z_N, candidates)
        chosen = select(
            candidates, z_N, k - len(pins),
            caps=self._of("cap"), weighted=self._weighted(options),
            history_H=None if history_H is None else np.asarray(history_H, np.int64),
            pinned=[item for item, _, _ in pins.values()],
        )  # fmt: skip
        listed = [
            (int(items_N[at]), float(scores_N[at]), tuple(candidates.notes[at])) for at in chosen
        ]
        whole = with_pins(listed, pins, k)
        return Reranked(
            np.array([item for item, _, _ in whole], np.int64),
            np.array([score for _, score, _ in whole], np.float64),
            tuple(notes for _, _, notes in whole),
        )

    def _now(self, now: float | None) -> float:
        return self.now if self.now is not None else time.time() if now is None else now

    def _blocked(
        self, facts: Facts, options: RerankOptions, now: float
    ) -> NDArray[np.bool_] | None:
        filters = self._of("block", "allow", "age")
        if options.exclude_categories:
            filters.append(BlockRule(categories=tuple(sorted(set(options.exclude_categories)))))
        return blocked_items(filters, facts, now)

    def _changes(self, options: RerankOptions) -> list[Any]:
        """Return the rules that change scores in their order, with the request's popularity."""
        weight = options.popularity + sum(rule.dial for rule in self._of("popularity"))
        first = [PopularityRule(dial=max(-1.0, min(1.0, weight)))] if weight else []
        return [*first, *self._of("boost", "bury", "freshness", "exploration")]

    def _weighted(self, options: RerankOptions) -> list[DiversityRule | CalibrationRule]:
        """Return the rules for diversity, with the request's strength, and for calibration."""
        (own,) = self._of("diversity") or [DiversityRule(strength=0.0)]
        diversity = replace(own, strength=min(1.0, own.strength + options.diversity))
        return [rule for rule in (diversity, *self._of("calibration")) if rule.strength > 0]


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
        seed: int | None = None,
        **options: Any,
    ) -> Reranking:
        """Return rules with facts, the fields of ``RerankOptions``, and a seed."""
        of_kind("rules", rules, Rules, "Read some with sdgar.Rules.read(path).")
        if table is not None and not isinstance(table, Mapping):
            raise UsageError(
                "facts must be fields by item id, such as {'a': {'categories': ['drama']}}, got "
                f"an object of type {type(table).__name__}. Read a file with "
                "sdgar.read_facts(path).",
                code="bad_type",
            )
        seed = None if seed is None else check_seed(seed)
        return cls(rules, table, RerankOptions(**options), seed)

    @classmethod
    def from_any(cls, given: object) -> Reranking:
        """Return a re-ranking from the argument ``rules`` of ``recommend``."""
        if isinstance(given, cls):
            return given
        cure = "Read some with sdgar.Rules.read(path), or make some with sdgar.Rules.of(mapping)."
        of_kind("rules", given, Rules, cure)
        return cls(given)  # type: ignore[arg-type]

    def _lines(self) -> list[str]:
        n = 0 if self.table is None else len(self.table)
        parts = [] if self.table is None else [f"facts of {n:,} item{'' if n == 1 else 's'}"]
        options = (("diversity", self.options.diversity), ("popularity", self.options.popularity))
        parts += [f"{name} {value:g}" for name, value in options if value]
        if self.options.exclude_categories:
            parts.append(f"without {', '.join(sorted(self.options.exclude_categories))}")
        return [*self.rules._lines(), *([" · ".join(parts)] if parts else [])]
