"""A file of rules: TOML with tables named like the rules; each mistake is named with its cure.

now = 2026-03-01              # ages count from here; from the present if it is missing
candidates = 200              # re-rank at least this many items of each list

[[block]]                     # block, allow, age, boost, bury, cap and pin may be repeated
categories = ["adult"]

[[cap]]
at_most = 2

[diversity]                   # popularity, freshness, diversity, calibration and exploration
strength = 0.3                # may be there once
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdgar.errors import UsageError, did_you_mean
from sdgar.recommend.rules.changes import BoostRule, ExplorationRule, FreshnessRule, PopularityRule
from sdgar.recommend.rules.facts import CATEGORY, FIRST_SEEN, moment
from sdgar.recommend.rules.filters import AgeRule, AllowRule, BlockRule
from sdgar.recommend.rules.selection import CapRule, PinRule
from sdgar.recommend.rules.settings_table import SettingsTable
from sdgar.recommend.rules.terms import CalibrationRule, DiversityRule

MOST_CANDIDATES = 100_000
"""The maximum number of candidates in a file."""
_MOST_CHANGE = 1000.0
"""The maximum change of a score, in standard deviations."""
_MOST_BYTES = 16 << 20
"""The maximum size of a file of rules."""

Rule = (
    BlockRule | AllowRule | AgeRule | BoostRule | CapRule | PinRule
    | PopularityRule | FreshnessRule | DiversityRule | CalibrationRule | ExplorationRule
)  # fmt: skip
"""Any rule that a file can have."""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The content of a file of rules."""

    rules: tuple[tuple[str, Rule], ...] = ()
    """The name of the kind of each rule, and the rule, kind by kind."""
    now: float | None = None
    """The time from which ages count, in seconds since 1970; None for the present."""
    candidates: int | None = None
    """The minimum number of candidates that are re-ranked; None for the default."""

    def of(self, *kinds: str) -> tuple[Any, ...]:
        """Return the rules of these kinds."""
        return tuple(rule for kind, rule in self.rules if kind in kinds)

    def only(self, kind: str) -> Any:
        """Return the one rule of a kind, or None."""
        return next(iter(self.of(kind)), None)


def read(path: Path) -> RuleSet:
    """Return the rules in a file."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(
                f"the file of rules {path} has {path.stat().st_size:,} bytes, more than "
                f"{_MOST_BYTES:,}. Block items by a category or a field, rather than one by one.",
                code="bad_rules",
            )
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"the file of rules {path} cannot be read ({error.strerror}). Check its name.",
            code="no_rules_file",
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the file of rules {path} is not UTF-8 text ({error.reason} at byte "
            f"{error.start:,}). Save it as UTF-8.",
            code="bad_rules",
        ) from error
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(
            f"{path.name} is not TOML: {error}. Write texts in quotation marks, lists in square "
            "brackets, and begin a rule with a line such as [[boost]].",
            code="bad_rules",
        ) from error
    return parse(values, path.name)


def parse(values: Mapping[str, Any], source: str) -> RuleSet:
    """Return the rules in the content of a file; ``source`` is its name in errors."""
    known = (*REPEATED, *ONCE, "now", "candidates")
    for name in values:
        if name not in known:
            raise UsageError(
                f"{source}: there is no rule {name!r}.{did_you_mean(name, known)} Rules: "
                f"{', '.join((*REPEATED, *ONCE))}.",
                code="unknown_rule",
            )
    found: list[tuple[str, Rule]] = []
    for name, make in REPEATED.items():
        given = values.get(name, [])
        tables = given if isinstance(given, list | tuple) else [given]
        for number, table in enumerate(tables, 1):
            place = f"{source}, [[{name}]]" + (f" number {number}" if len(tables) > 1 else "")
            found.append((name, _complete(make, SettingsTable(place, table))))
    for name, make in ONCE.items():
        if name in values:
            if isinstance(values[name], list | tuple):
                raise UsageError(
                    f"{source}: {name} is allowed once. Write [{name}] instead of [[{name}]].",
                    code="bad_rules",
                )
            table = SettingsTable(f"{source}, [{name}]", values[name])
            found.append((name, _complete(make, table)))
    top = SettingsTable(source, {n: values[n] for n in ("now", "candidates") if n in values})
    now = top.take("now")
    if now is not None and math.isnan(moment(now)):
        raise top.wrong(f"now is {now!r:.60}, which is not a date", "Write now = 2026-03-01.")
    candidates = top.integer("candidates", 1, MOST_CANDIDATES) if "candidates" in values else None
    return RuleSet(tuple(found), None if now is None else moment(now), candidates)


def _complete(make: Callable[[SettingsTable], Rule], table: SettingsTable) -> Rule:
    rule = make(table)
    table.require_all_used()
    return rule


def _age(table: SettingsTable) -> AgeRule:
    field = table.text("field", FIRST_SEEN)
    low, high = table.duration("at_least"), table.duration("at_most")
    if low is None and high is None:
        raise table.wrong("it has no bound", 'Write at_least = "7d", at_most = "1y" or both.')
    if low is not None and high is not None and low > high:
        raise table.wrong("at_least is more than at_most", "Exchange them.")
    return AgeRule(field or FIRST_SEEN, low, high, table.text("name"))


def _boost(sign: int) -> Callable[[SettingsTable], BoostRule]:
    def make(table: SettingsTable) -> BoostRule:
        by = table.number("by", 0, _MOST_CHANGE, above=True)
        return BoostRule(table.selector(), sign * by, table.text("name"))

    return make


def _cap(table: SettingsTable) -> CapRule:
    at_most = table.integer("at_most", 1, 1_000_000)
    return CapRule(at_most, _by(table), table.texts("values"), table.text("name"))


def _pin(table: SettingsTable) -> PinRule:
    items = table.ids("items")
    if not items:
        raise table.wrong("it does not say which items", 'Write items = ["a"].')
    return PinRule(items, table.integer("at", 1, 1_000_000, 1), table.text("name"))


def _freshness(table: SettingsTable) -> FreshnessRule:
    half_life = table.duration("half_life")
    if half_life is None:
        raise table.wrong("half_life is missing", 'Write half_life = "30d".')
    weight = table.number("weight", 0, _MOST_CHANGE, 1.0, above=True)
    return FreshnessRule(half_life, weight, table.text("field", FIRST_SEEN) or FIRST_SEEN)


def _diversity(table: SettingsTable) -> DiversityRule:
    strength = table.number("strength", 0, 1)
    method = table.choice("method", ("mmr", "dpp"))
    return DiversityRule(strength, method, table.choice("on", ("auto", "vectors", "categories")))


def _exploration(table: SettingsTable) -> ExplorationRule:
    temperature = table.number("temperature", 0, _MOST_CHANGE, above=True)
    seed = table.integer("seed", 0, 2**63 - 1, 0)
    return ExplorationRule(temperature, seed, table.choice("method", ("softmax", "thompson")))


def _by(table: SettingsTable) -> str:
    field = table.text("by", CATEGORY)
    return CATEGORY if field in (None, "categories") else str(field)


REPEATED: dict[str, Callable[[SettingsTable], Rule]] = {
    "block": lambda table: BlockRule(table.selector(), table.text("name")),
    "allow": lambda table: AllowRule(table.selector(), table.text("name")),
    "age": _age,
    "boost": _boost(1),
    "bury": _boost(-1),
    "cap": _cap,
    "pin": _pin,
}
"""The rules that a file may have several times."""
ONCE: dict[str, Callable[[SettingsTable], Rule]] = {
    "popularity": lambda table: PopularityRule(table.number("dial", -1, 1)),
    "freshness": _freshness,
    "diversity": _diversity,
    "calibration": lambda table: CalibrationRule(table.number("strength", 0, 1), _by(table)),
    "exploration": _exploration,
}
"""The rules that a file may have once."""
