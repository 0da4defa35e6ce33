"""Moments and lengths of time in rules, in seconds."""

from __future__ import annotations

import datetime
import math
import re
from typing import Any

from sdgar.data.moments import COUNTS

_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}
"""The length of each unit in seconds; a year has 365 days."""
_MICROS = 1_000_000
_FIRST_YEAR, _LAST_YEAR = 1000, 9999


def moment(value: Any) -> float:
    """Return a moment in seconds since 1970, NaN if the value is none.

    Dates and ISO 8601 text are in UTC unless they name a zone. A whole number of four digits is a
    year. Other numbers count seconds, milliseconds, microseconds or nanoseconds, by magnitude.
    """
    if isinstance(value, datetime.datetime):
        at = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        return at.timestamp()
    if isinstance(value, datetime.date):
        return moment(datetime.datetime(value.year, value.month, value.day))
    count = number(value)
    if not math.isnan(count):
        return _counted(count)
    try:
        return moment(datetime.datetime.fromisoformat(str(value).strip()))
    except (ValueError, OverflowError):
        return math.nan


def number(value: Any) -> float:
    """Return a number, or a text that spells one, as a float; NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return math.nan
    return found if math.isfinite(found) else math.nan


def length(text: Any) -> float | None:
    """Return a length such as 90s, 30min, 12h, 7d, 2w or 1y in seconds; None if it is none."""
    found = re.fullmatch(rf"(\d{{1,9}}(?:\.\d+)?)({'|'.join(_UNITS)})", str(text).strip())
    if not isinstance(text, str) or found is None or float(found[1]) == 0:
        return None
    return float(found[1]) * _UNITS[found[2]]


def _counted(count: float) -> float:
    if count.is_integer() and _FIRST_YEAR <= count <= _LAST_YEAR:
        return moment(datetime.datetime(int(count), 1, 1))
    for bound, micros in COUNTS:
        if count < bound:
            return count * micros / _MICROS
    return count / 1000 / _MICROS
