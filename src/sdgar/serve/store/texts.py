"""Checks of what goes into a store: texts that a database can hold, and times and numbers."""

from __future__ import annotations

import math
from collections.abc import Sized
from typing import Any

from sdgar.errors import DataError

MOST_BYTES = 256
"""The most bytes of an id in UTF-8, as in files of events."""
MOST_CHARACTERS = 256
"""The most characters of a kind, a key, a category or another short text."""
MOST_LONG = 2048
"""The most characters of a name, of the address of a picture, or of a feature that is text."""
MICROSECONDS = 1_000_000
"""The microseconds of a second: times are stored as integers."""
_LAST_SECOND = 253_402_300_800
"""The beginning of the year 10000, as for times in files."""


def an_id(value: Any, what: str) -> str:
    """Return an id as text; raise if it is missing, too long, or no text or integer."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    text = a_text(value, what, most=MOST_BYTES)
    if len(text.encode()) > MOST_BYTES:
        raise _refused(what, value, f"has more than {MOST_BYTES} bytes")
    return text


def a_text(value: Any, what: str, *, most: int = MOST_CHARACTERS) -> str:
    """Return a text; raise if it is empty, too long, or nothing that a database can hold."""
    if not isinstance(value, str):
        raise _refused(what, value, f"is of type {type(value).__name__} and must be text")
    if not value:
        raise _refused(what, value, "is empty")
    if len(value) > most:
        raise _refused(what, value, f"has more than {most:,} characters")
    if "\0" in value:
        raise _refused(what, value, "has a NUL character, which databases cannot hold")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _refused(what, value, "is not Unicode") from None
    return value


def maybe(value: Any, what: str, *, most: int = MOST_CHARACTERS) -> str | None:
    """Return a text as it is checked, or None for one that is missing or empty."""
    return None if value is None or value == "" else a_text(value, what, most=most)


def sought(value: Any) -> str:
    """Return a text to look for; empty, which no row has, for one that no store can hold."""
    text = str(value)
    held = "\0" not in text and text.encode(errors="ignore").decode() == text
    return text if held else ""


def a_number(value: Any, what: str) -> float:
    """Return a finite number; raise for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _refused(what, value, "must be a finite number")
    return float(value)


def microseconds(seconds: Any, what: str) -> int:
    """Return a time as microseconds since 1970; raise if it is no time that files may have."""
    number = a_number(seconds, what)
    if not 0 <= number < _LAST_SECOND:
        raise _refused(what, seconds, "must be in seconds since 1970, before the year 10000")
    return round(number * MICROSECONDS)


def at_most(values: Sized, most: int, what: str) -> None:
    """Raise if there are too many values."""
    if len(values) > most:
        raise DataError(
            f"there are {len(values):,} {what}, and {most:,} are allowed. Nothing was stored.",
            code="bad_record",
        )


def _refused(what: str, value: Any, why: str) -> DataError:
    return DataError(f"the {what} {value!r:.60} {why}. Nothing was stored.", code="bad_record")
