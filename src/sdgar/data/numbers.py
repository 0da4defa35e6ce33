"""Check weights and times that a caller gives as arrays, and convert them to one type."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import is_missing, one_dimensional
from sdgar.errors import DataError

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
