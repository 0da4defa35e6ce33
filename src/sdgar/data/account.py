"""The account of rows: what became of every row that was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RowAccount:
    """read = kept + duplicates + filtered + rejected: what became of every row that was read."""

    read: int
    """The number of rows that were read."""
    kept: int
    """The number of rows that are in the data."""
    duplicates: int = 0
    """The number of rows that repeated a pair of an earlier row."""
    filtered: Mapping[str, int] = field(default_factory=dict)
    """The numbers of good rows that were left out on request, by reason."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """The numbers of bad rows that were left out because the caller allowed it, by reason."""

    def __post_init__(self) -> None:
        """Assert that no row is unaccounted for."""
        out = self.duplicates + sum(self.filtered.values()) + sum(self.rejected.values())
        if self.read != self.kept + out:
            msg = f"row accounting broken: read {self.read} != kept {self.kept} + left out {out}"
            raise AssertionError(msg)

    def sentence(self) -> str:
        """Return the account as one line for people."""
        parts = [f"{self.kept:,} kept"]
        parts += [f"{self.duplicates:,} duplicates"] if self.duplicates else []
        parts += [f"{n:,} filtered ({why})" for why, n in self.filtered.items() if n]
        parts += [f"{n:,} rejected ({why})" for why, n in self.rejected.items() if n]
        return f"{self.read:,} rows read = " + " + ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """Return the account as plain values, for JSON."""
        return {
            "read": self.read,
            "kept": self.kept,
            "duplicates": self.duplicates,
            "filtered": dict(self.filtered),
            "rejected": dict(self.rejected),
        }
