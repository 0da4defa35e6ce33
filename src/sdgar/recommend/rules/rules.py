"""Business rules, as a file or a mapping states them.

A file of rules is TOML with tables named like the rules:

    now = 2026-03-01              # ages count from here; from the present if it is missing
    candidates = 200              # re-rank at least this many items of each list

    [[cap]]                       # block, allow, age, boost, bury, cap and pin may be repeated
    at_most = 2

    [diversity]                   # popularity, freshness, diversity, calibration and exploration
    strength = 0.3                # may be there once
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from sdgar.arguments import a_path, of_kind
from sdgar.errors import UsageError, did_you_mean
from sdgar.maths.rng import check_seed
from sdgar.recommend.rules.changes import (
    BoostRule,
    BuryRule,
    ExplorationRule,
    FreshnessRule,
    PopularityRule,
)
from sdgar.recommend.rules.filters import AgeRule, AllowRule, BlockRule
from sdgar.recommend.rules.reranking import Reranking, RerankOptions
from sdgar.recommend.rules.selection import CapRule, PinRule
from sdgar.recommend.rules.settings import (
    Moment,
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
        self,
        table: Mapping[Any, Mapping[str, Any]] | None = None,
        *,
        seed: int | None = None,
        **options: Any,
    ) -> Reranking:
        """Return the rules with facts of items by id, options and a seed, for ``recommend``.

        ``table`` has the fields of each item, such as ``{"a": {"categories": ["drama"], "maker":
        "acme"}}``; ``sdgar.read_facts`` reads one. The options are the fields of
        ``RerankOptions``.

        >>> sdgar.Rules.none().using({"a": {"categories": ["drama"]}}, diversity=0.3)
        Rules: none
        facts of 1 item · diversity 0.3
        """
        if table is not None and not isinstance(table, Mapping):
            raise UsageError(
                "facts must be fields by item id, such as {'a': {'categories': ['drama']}}, got "
                f"an object of type {type(table).__name__}. Read a file with "
                "sdgar.read_facts(path).",
                code="bad_type",
            )
        seed = None if seed is None else check_seed(seed)
        own = RerankOptions(**options)
        return Reranking(self.rules, self.now, self.candidates, table, own, seed)

    def __bool__(self) -> bool:
        return bool(self.rules)

    def _lines(self) -> list[str]:
        return self.using()._lines()


def reranking_of(given: Rules | Reranking) -> Reranking:
    """Return the re-ranking by the argument ``rules`` of ``recommend``."""
    if isinstance(given, Reranking):
        return given
    cure = "Read some with sdgar.Rules.read(path), or make some with sdgar.Rules.of(mapping)."
    of_kind("rules", given, Rules, cure)
    return given.using()
