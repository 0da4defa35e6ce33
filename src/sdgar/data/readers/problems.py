"""The problems of the rows of an input: their kinds, counts and first places, reported together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sdgar.errors import DataError

MAX_PLACES = 20
"""The most places that are shown in all; every kind of problem shows at least one."""

_MAX_SHOWN = 80

MEANING = {
    "field_count": "a row with more or fewer fields than there are columns",
    "unterminated_quote": "a quote that is never closed",
    "bad_quoting": "text after a closing quote",
    "bad_encoding": "bytes that are not UTF-8",
    "line_too_long": "a line of more than 1 MiB",
    "bad_json": "a line that is not a JSON object",
    "missing_user": "no user id",
    "missing_item": "no item id",
    "missing_field": "no value of a field of the context",
    "id_too_long": "an id of more than 256 bytes",
    "nul_byte": "a NUL byte in an id",
    "missing_rating": "no rating",
    "bad_rating": "a rating that is not a finite number",
    "missing_weight": "no weight",
    "bad_weight": "a weight that is not a number",
    "nonfinite_weight": "a weight that is NaN, infinite or beyond float32",
    "negative_weight": "a negative weight",
    "weight_underflow": "a weight too small for float32, which would become 0",
    "missing_timestamp": "no time",
    "bad_timestamp": "a time that is neither a number nor ISO 8601",
    "timestamp_range": "a time before 1970 or after 9999, or in another unit than most times",
}


@dataclass(frozen=True, slots=True)
class RowPlace:
    """The place of a problem."""

    source: str
    """The name of the file or frame."""
    row: int
    """The line of a text file (its header is line 1), or the row counted from 1."""
    unit: Literal["line", "row"]
    """Whether ``row`` counts lines or rows."""
    column: str | None
    """The name of the column, if the problem has one."""
    value: str
    """The value at that place, escaped and cut to 80 characters."""
    detail: str = ""
    """More about the problem, if there is more to say."""

    def sentence(self) -> str:
        """Return the place in one line."""
        column = f", column {self.column}" if self.column is not None else ""
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.source}, {self.unit} {self.row}{column}: {self.value}{detail}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of problem, how often it occurs, and its first places."""

    code: str
    """The kind of problem, a stable word for machines."""
    count: int
    """The number of rows with it."""
    places: tuple[RowPlace, ...]
    """The first places where it was met."""

    def sentence(self) -> str:
        """Return the kind of problem and its first place."""
        return f"{MEANING[self.code]}: {self.places[0].sentence()}."


class BadRows(DataError):  # noqa: N818
    """The error for rows that cannot be used; ``problems`` has them by kind."""

    def __init__(self, problems: tuple[Problem, ...], n_read: int) -> None:
        lines = [f"{sum(p.count for p in problems):,} of {n_read:,} rows cannot be used:"]
        for problem in problems:
            meaning = MEANING[problem.code]
            lines.append(f"  {problem.code} ({meaning}): {problem.count:,}")
            lines += [f"    {place.sentence()}" for place in problem.places]
        lines.append("Fix them, or load without them: --allow-bad-rows (allow_bad_rows=True).")
        super().__init__("\n".join(lines), code="bad_rows")
        self.problems = problems


class ProblemLog:
    """The problems of one input, as they are collected."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._places: dict[str, list[RowPlace]] = {}

    def add(self, code: str, places: Iterable[RowPlace], count: int = 1) -> None:
        """Count problems of a kind; places beyond the first few are forgotten."""
        self.counts[code] = self.counts.get(code, 0) + count
        known = self._places.setdefault(code, [])
        known.extend(list(places)[: MAX_PLACES - len(known)])

    def problems(self) -> tuple[Problem, ...]:
        """Return every kind of problem, in the order they were met."""
        each = max(1, MAX_PLACES // max(1, len(self.counts)))
        return tuple(
            Problem(code, count, tuple(self._places[code][:each]))
            for code, count in self.counts.items()
        )


def shown(value: object) -> str:
    """Return a value as a person may safely see it: escaped, quoted and cut."""
    if isinstance(value, bytes):
        value = value[:_MAX_SHOWN].decode("utf-8", "backslashreplace")
    text = repr(value[:_MAX_SHOWN]) if isinstance(value, str) else str(value)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"
