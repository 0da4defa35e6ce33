"""Rules with what they need for the lists of a model: facts of items by id, dials and a seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sdgar.arguments import of_kind
from sdgar.errors import UsageError
from sdgar.maths.rng import check_seed
from sdgar.recommend.rules.dials import Dials
from sdgar.recommend.rules.facts import Facts
from sdgar.recommend.rules.rules import NO_DIALS, Rules
from sdgar.show.printed import Described

Table = Mapping[Any, Mapping[str, Any]]
"""The fields of items by id."""


@dataclass(frozen=True, repr=False, eq=False)
class Reranking(Described):
    """Rules with facts of items by id, the dials of a request, and a seed."""

    rules: Rules
    """The rules of the house."""
    table: Table | None = None
    """The fields of items by id; None if nothing is known of them."""
    dials: Dials = NO_DIALS
    """The dials of the request."""
    seed: int | None = None
    """The seed for exploration; None for that of the rules."""
    made: list[tuple[object, Facts]] = field(default_factory=list, init=False)
    """The facts that were made last, with the model that they were made for."""

    @classmethod
    def of(
        cls,
        rules: Rules,
        table: Table | None = None,
        *,
        diversity: float = 0.0,
        popularity: float = 0.0,
        exclude_categories: Iterable[str] = (),
        seed: int | None = None,
    ) -> Reranking:
        """Put rules, facts, dials and a seed together."""
        of_kind("rules", rules, Rules, "Read some with sdgar.Rules.read(path).")
        if table is not None and not isinstance(table, Mapping):
            raise UsageError(
                "facts must be fields by item id, such as {'a': {'categories': ['drama']}}, got "
                f"an object of type {type(table).__name__}. Read a file with "
                "sdgar.read_facts(path).",
                code="bad_type",
            )
        dials = Dials(diversity, popularity, exclude_categories)  # type: ignore[arg-type]
        return cls(rules, table, dials, None if seed is None else check_seed(seed))

    @classmethod
    def from_any(cls, given: object) -> Reranking:
        """Return what ``recommend`` was given as rules: rules alone, or with facts and dials."""
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
        said = [] if self.table is None else [f"facts of {_counted(len(self.table))}"]
        said += [f"{name} {value:g}" for name, value in self._turned() if value]
        if self.dials.exclude_categories:
            said.append(f"without {', '.join(sorted(self.dials.exclude_categories))}")
        return [*self.rules._lines(), *([" · ".join(said)] if said else [])]

    def _turned(self) -> list[tuple[str, float]]:
        return [("diversity", self.dials.diversity), ("popularity", self.dials.popularity)]


def _counted(n: int) -> str:
    return f"{n:,} item" if n == 1 else f"{n:,} items"
