"""A file of rules: TOML with tables named like the rules; each mistake is named with its cure.

now = 2026-03-01              # ages count from here; the present if it is not given
candidates = 200              # re-rank at least so many items of each list

[[block]]                     # block, allow, age, boost, bury, cap and pin may be repeated
categories = ["adult"]

[[cap]]
at_most = 2

[diversity]                   # popularity, freshness, diversity, calibration and exploration
strength = 0.3                # are there once
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdgar.errors import UsageError, did_you_mean
from sdgar.recommend.rules.calibration import Calibration
from sdgar.recommend.rules.caps import Cap
from sdgar.recommend.rules.changes import Boost, Exploration, Freshness, Popularity
from sdgar.recommend.rules.diversity import Diversity
from sdgar.recommend.rules.facts import CATEGORY, FIRST_SEEN
from sdgar.recommend.rules.filters import Age, Allow, Block
from sdgar.recommend.rules.pins import Pin
from sdgar.recommend.rules.section import Section
from sdgar.recommend.rules.times import moment

MOST_CANDIDATES = 100_000
"""The largest number of candidates that a file can ask for."""
_MOST = 1000.0
"""The largest change of a score, in units of the spread."""
_MOST_BYTES = 16 << 20
"""The largest file of rules that is read."""

Rule = (
    Block | Allow | Age | Boost | Cap | Pin
    | Popularity | Freshness | Diversity | Calibration | Exploration
)  # fmt: skip
"""Any rule that a file can have."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a file of rules says."""

    rules: tuple[Rule, ...] = ()
    """The rules in the order of the file, kind by kind."""
    now: float | None = None
    """The moment that ages count from, in seconds since 1970; None for the present."""
    candidates: int | None = None
    """The least number of candidates that are re-ranked; None for the usual number."""


def read(path: Path) -> Written:
    """Read a file of rules."""
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
            f"{path.name} is not TOML: {error}. Texts stand in quotation marks, lists in square "
            "brackets, and a rule begins with a line such as [[boost]].",
            code="bad_rules",
        ) from error
    return written(values, path.name)


def written(values: Mapping[str, Any], source: str) -> Written:
    """Check what a file, or a mapping like it, says."""
    found: list[Rule] = []
    known = (*_REPEATED, *_ONCE, "now", "candidates")
    for name in values:
        if name not in known:
            raise UsageError(
                f"{source}: there is no rule {name!r}.{did_you_mean(name, known)} Rules: "
                f"{', '.join((*_REPEATED, *_ONCE))}.",
                code="unknown_rule",
            )
    for name, make in _REPEATED.items():
        given = values.get(name, [])
        tables = given if isinstance(given, list | tuple) else [given]
        for number, table in enumerate(tables, 1):
            place = f"{source}, [[{name}]]" + (f" number {number}" if len(tables) > 1 else "")
            found.append(_made(make, Section(place, table)))
    for name, make in _ONCE.items():
        if name in values:
            if isinstance(values[name], list | tuple):
                raise UsageError(
                    f"{source}: {name} is there once. Write [{name}] instead of [[{name}]].",
                    code="bad_rules",
                )
            found.append(_made(make, Section(f"{source}, [{name}]", values[name])))
    whole = Section(source, {n: values[n] for n in ("now", "candidates") if n in values})
    now = whole.take("now")
    if now is not None and math.isnan(moment(now)):
        raise whole.wrong(f"now is {now!r:.60}, which is no moment", "Write now = 2026-03-01.")
    candidates = whole.integer("candidates", 1, MOST_CANDIDATES) if "candidates" in values else None
    return Written(tuple(found), None if now is None else moment(now), candidates)


def _made(make: Callable[[Section], Rule], section: Section) -> Rule:
    rule = make(section)
    section.end()
    return rule


def _age(section: Section) -> Age:
    field = section.text("field", FIRST_SEEN)
    low, high = section.length("at_least"), section.length("at_most")
    if low is None and high is None:
        raise section.wrong("it has no bound", 'Write at_least = "7d", at_most = "1y" or both.')
    if low is not None and high is not None and low > high:
        raise section.wrong("at_least is more than at_most", "Exchange them.")
    return Age(field or FIRST_SEEN, low, high, section.text("name"))


def _boost(sign: int) -> Callable[[Section], Boost]:
    def make(section: Section) -> Boost:
        by = section.number("by", 0, _MOST, open_=True)
        return Boost(section.which(), sign * by, section.text("name"))

    return make


def _cap(section: Section) -> Cap:
    return Cap(
        section.integer("at_most", 1, 1_000_000),
        _field(section),
        section.texts("values"),
        section.text("name"),
    )


def _pin(section: Section) -> Pin:
    items = section.ids("items")
    if not items:
        raise section.wrong("it does not say which items", 'Write items = ["a"].')
    return Pin(items, section.integer("at", 1, 1_000_000, 1), section.text("name"))


def _freshness(section: Section) -> Freshness:
    half_life = section.length("half_life")
    if half_life is None:
        raise section.wrong("half_life is missing", 'Write half_life = "30d".')
    weight = section.number("weight", 0, _MOST, 1.0, open_=True)
    return Freshness(half_life, weight, section.text("field", FIRST_SEEN) or FIRST_SEEN)


def _diversity(section: Section) -> Diversity:
    return Diversity(
        section.number("strength", 0, 1),
        section.choice("method", ("mmr", "dpp")),
        section.choice("on", ("auto", "vectors", "categories")),
    )


def _exploration(section: Section) -> Exploration:
    temperature = section.number("temperature", 0, _MOST, open_=True)
    return Exploration(
        temperature,
        section.integer("seed", 0, 2**63 - 1, 0),
        section.choice("method", ("softmax", "thompson")),
    )


def _field(section: Section) -> str:
    field = section.text("by", CATEGORY)
    return CATEGORY if field in (None, "categories") else str(field)


_REPEATED: dict[str, Callable[[Section], Rule]] = {
    "block": lambda section: Block(section.which(), section.text("name")),
    "allow": lambda section: Allow(section.which(), section.text("name")),
    "age": _age,
    "boost": _boost(1),
    "bury": _boost(-1),
    "cap": _cap,
    "pin": _pin,
}
_ONCE: dict[str, Callable[[Section], Rule]] = {
    "popularity": lambda section: Popularity(section.number("dial", -1, 1)),
    "freshness": _freshness,
    "diversity": _diversity,
    "calibration": lambda section: Calibration(section.number("strength", 0, 1), _field(section)),
    "exploration": _exploration,
}
