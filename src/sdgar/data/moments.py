"""Read moments and lengths of time as people write them, in the units of the data's times."""

from __future__ import annotations

import datetime
import re

import numpy as np
from numpy.typing import NDArray

from sdgar.errors import UsageError

_FIRST_DATE, _LAST_DATE = 315_532_800_000_000, 4_102_444_800_000_000
"""The years 1980 and 2100 in microseconds: times between them are taken for dates."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_SECOND = 1_000_000
_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
"""The length of each unit in seconds."""
COUNTS = ((10**11, _SECOND), (10**14, 1000), (10**17, 1))
"""A count of moments since 1970 below the first number is multiplied by the second to have
microseconds. Seconds reach the year 5138, milliseconds begin in 1973, and so on; what is larger
than all of these counts nanoseconds."""


def are_dates(time_E: NDArray[np.int64]) -> bool:
    """Tell whether times are dates in microseconds, or else any other order of integers."""
    return bool(time_E.min() >= _FIRST_DATE and time_E.max() < _LAST_DATE)


def shown(time: int | np.integer) -> str:
    """Return a time as text: as a date if it is one in microseconds, else as its number."""
    if not _FIRST_DATE <= time < _LAST_DATE:
        return f"{int(time):,}"
    return str(np.datetime64(int(time), "us").astype("datetime64[s]")).replace("T", " ")


def moment_of(said: object, time_E: NDArray[np.int64]) -> int:
    """Return a moment that a person wrote, in the units of the times.

    A date is ISO 8601, in UTC unless it names a zone. A number counts seconds, milliseconds,
    microseconds or nanoseconds since 1970, by its magnitude; where the times are no dates but any
    other order, it is one of these times.
    """
    if isinstance(said, datetime.date):
        said = said.isoformat()
    text = str(said).strip()
    if re.fullmatch(r"-?\d{1,19}", text):
        return _counted(int(text)) if are_dates(time_E) else int(text)
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text[:60]!r} is no moment. Write a date as 2024-03-01, a time as "
            "2024-03-01T18:30:00, or the seconds since 1970.",
            code="bad_date",
        ) from None
    if not are_dates(time_E):
        raise UsageError(
            f"{text!r} is a date, and the times of the data are numbers from "
            f"{shown(time_E.min())} to {shown(time_E.max())}. Write one of these numbers.",
            code="bad_date",
        )
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return (moment - _EPOCH) // _MICROSECOND


def length_of(said: object, time_E: NDArray[np.int64]) -> int:
    """Return a length of time in the units of the times: 90s, 30min, 12h, 7d or 2w.

    Where the times are no dates but any other order, it is a number without a unit.
    """
    text = str(said).strip()
    found = re.fullmatch(rf"(\d{{1,9}})({'|'.join(_UNITS)})?", text)
    dates = are_dates(time_E)
    if found is None or int(found[1]) == 0 or dates == (found[2] is None):
        such = "Write 90s, 30min, 12h, 7d or 2w."
        if not dates:
            such = (
                f"The times of the data are numbers from {shown(time_E.min())} to "
                f"{shown(time_E.max())}: write how many a window has, such as 100."
            )
        raise UsageError(f"{text[:60]!r} is no length of a window. {such}", code="bad_length")
    return int(found[1]) * (_UNITS[found[2]] * _SECOND if found[2] else 1)


def _counted(number: int) -> int:
    for bound, micros in COUNTS:
        if number < bound:
            return number * micros
    return number // 1000
