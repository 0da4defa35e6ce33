"""Check weights and times that a caller gives as arrays, and convert them to one type."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import is_missing, one_dimensional
from sdgar.errors import DataError, UsageError

BEYOND = np.iinfo(np.int64).max
"""The value that stands for a time whose microseconds int64 cannot count."""


def weights(raw: Sequence[float] | NDArray[Any]) -> NDArray[np.float64]:
    """Return weights as float64; raise if one is not finite or is negative."""
    array = one_dimensional(raw, "weights")
    if array.dtype.kind == "O":
        array = np.array([np.nan if is_missing(v) else v for v in array.tolist()])
    if array.dtype.kind not in "biufUO":
        raise _not_numbers(array, "weights must be numbers", "bad_weight")
    try:
        weight_E = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise _not_numbers(array, "weights must be numbers", "bad_weight") from error
    bad = ~np.isfinite(weight_E) | (weight_E < 0)
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"weights must be finite and not negative, got {weight_E[at]} in row {at + 1}. Clean "
            "them, or leave such rows out.",
            code="bad_weight",
        )
    return weight_E


def times(raw: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Return times as int64: dates in microseconds since 1970, and numbers as they are."""
    array = one_dimensional(raw, "times")
    if array.dtype.kind == "O":
        array = _from_objects(array.tolist())
    if array.dtype.kind not in "biufmM":
        raise _not_numbers(array, "times must be integers or dates", "bad_timestamp")
    if array.dtype == np.int64:
        return array
    missing = np.isnat(array) if array.dtype.kind in "mM" else ~np.isfinite(array)
    if missing.any():
        at = int(np.flatnonzero(missing)[0])
        raise _missing_time(at + 1, array[at])
    if array.dtype.kind in "uf" and ((array >= 2**63) | (array < -(2**63))).any():
        raise _not_numbers(array, "times must fit int64", "bad_timestamp")
    if array.dtype.kind != "M":
        return array.astype(np.int64)
    micros_E = microseconds(array)
    if (beyond := micros_E == BEYOND).any():
        at = int(np.flatnonzero(beyond)[0])
        raise DataError(
            f"times must fit int64 in microseconds, and that in row {at + 1} is {array[at]}. "
            "Leave such rows out.",
            code="bad_timestamp",
        )
    return micros_E


def microseconds(dates_E: NDArray[np.datetime64]) -> NDArray[np.int64]:
    """Return NumPy's dates as microseconds since 1970, or as ``BEYOND`` if int64 cannot count them.

    NumPy itself would wrap around, from the year 500000 to a time before the first of our era.
    """
    micros_E = dates_E.astype("M8[us]")
    if np.datetime_data(dates_E.dtype)[0] in ("ns", "ps", "fs", "as"):  # which reach less far
        return micros_E.astype(np.int64)
    counted = np.isnat(dates_E) | (micros_E.astype(dates_E.dtype) == dates_E)
    return np.where(counted, micros_E.astype(np.int64), BEYOND)


def _from_objects(values: list[Any]) -> NDArray[Any]:
    """Return Python's dates as NumPy's, in UTC, and all other objects as NumPy sees them."""
    for row, value in enumerate(values, 1):
        if is_missing(value):
            raise _missing_time(row, value)
    if values and all(isinstance(value, datetime.date) for value in values):
        return np.array([_in_utc(value) for value in values], "M8[us]")
    try:
        return np.array(values)
    except ValueError:  # values of different shapes
        return np.array([*values, None], dtype=object)[:-1]


def _in_utc(moment: datetime.date) -> datetime.date:
    if isinstance(moment, datetime.datetime) and moment.tzinfo is not None:
        return moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return moment


def _missing_time(row: int, value: object) -> DataError:
    return DataError(
        f"times are missing or not finite, first in row {row} ({value}). Leave such rows out, or "
        "give no times.",
        code="missing_timestamp",
    )


def _not_numbers(array: NDArray[Any], what: str, code: str) -> DataError:
    odd = [v for v in array.tolist() if not isinstance(v, int | float)] or [max(array.tolist())]
    return DataError(
        f"{what}, got {array.dtype} with {odd[0]!r:.60}. Convert them first.", code=code
    )


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
    """Return whether times are dates in microseconds, or else any other order of integers."""
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
