"""Read times of any spelling as microseconds since 1970."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import polars as pl

from sdgar.data.numbers import COUNTS

Times = tuple[pl.Series, pl.Series]
"""Times in microseconds since 1970, missing if a value is no time, and which are out of range."""
_FINER_FROM = tuple(bound for bound, _ in COUNTS)
"""The count from which on a number is of the next finer unit."""
_MICROS = (*(micros for _, micros in COUNTS), 1)
_NANOS = 3

YEAR_10000 = 253_402_300_800_000_000
"""The beginning of the year 10000 in microseconds; later times are taken for mistakes."""

# Tried in turn on text with a blank for `T`, and `+00:00` for `Z` and `UTC`.
_SPELLINGS = (
    "%Y-%m-%d %H:%M:%S%.f%:z",
    "%Y-%m-%d %H:%M%:z",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d",
)


@dataclass(frozen=True, slots=True)
class TimeForm:
    """How the values of a column of times are written, which is decided by most of its rows."""

    written: Literal["dates", "integers", "decimals", "text"]
    """The way that the values are written; text is ISO 8601."""
    unit: int = 0
    """The unit of numbers: 0 for seconds, and one more for each finer one."""


def count_times(raw: pl.Series) -> Counter[str]:
    """Count the rows of a column of times, or of a part of it, by how their values are written.

    The sum of the counts of all parts decides on the form of the column.
    """
    counts = Counter(rows=len(raw), missing=raw.null_count())
    if raw.dtype.is_temporal():
        return counts
    integers = raw.cast(pl.Int64, strict=False)
    counts["no integers"] = integers.null_count()
    _count_units(counts, "integers", integers)
    if raw.dtype.is_float() or counts["no integers"] > counts["missing"]:
        decimals = raw.cast(pl.Float64, strict=False).fill_nan(None)
        counts["no decimals"] = decimals.null_count()
        _count_units(counts, "decimals", decimals)
    else:
        for name in [name for name in counts if "integers" in name]:
            counts[name.replace("integers", "decimals")] = counts[name]
    return counts


def _count_units(counts: Counter[str], written: str, numbers: pl.Series) -> None:
    """Count the numbers of each unit by their magnitude; those below 0 have none."""
    from_bound = [int((numbers >= bound).sum()) for bound in (0, *_FINER_FROM)]
    for unit, (low, high) in enumerate(zip(from_bound, [*from_bound[1:], 0], strict=True)):
        counts[f"{written} {unit}"] = low - high


def time_form(counts: Counter[str], dtype: pl.DataType) -> TimeForm:
    """Decide how a column of this type is written.

    Text holds numbers if most of its values are numbers, else ISO 8601; a column is not both.
    """
    if dtype.is_temporal():
        return TimeForm("dates")
    decimal = dtype.is_float()
    if dtype == pl.String:
        decimal = counts["missing"] < counts["no integers"] > counts["no decimals"]
        no_number = counts["no decimals" if decimal else "no integers"]
        if no_number * 2 > counts["rows"] + counts["missing"]:
            return TimeForm("text")
    written: Literal["decimals", "integers"] = "decimals" if decimal else "integers"
    often = [counts[f"{written} {unit}"] for unit in range(len(_MICROS))]
    # The finer unit wins a tie, whatever the order of the rows.
    usual = max(range(len(often)), key=lambda unit: (often[unit], unit)) if any(often) else 0
    return TimeForm(written, usual)


def parse_times(raw: pl.Series, form: TimeForm | None = None) -> Times:
    """Read integers, decimals, dates or ISO 8601 text; text without a zone is UTC.

    Integers may count seconds, milliseconds, microseconds or nanoseconds: the unit is that of
    most rows, by magnitude, and a row of another magnitude is out of range. Small integers
    such as the position in a list count as seconds, which keeps their order. ``form`` is that of
    the whole column, where ``raw`` is a part of it.
    """
    form = form or time_form(count_times(raw), raw.dtype)
    if form.written == "dates":
        return _in_range(raw.cast(pl.Datetime("us")).dt.epoch("us"))
    if form.written == "text":
        return _parse_text(raw)
    if form.written == "decimals":
        return _from_numbers(raw.cast(pl.Float64, strict=False).fill_nan(None), form.unit)
    return _from_numbers(raw.cast(pl.Int64, strict=False), form.unit)


def _parse_text(raw: pl.Series) -> Times:
    text = (
        raw.str.replace(r"^(\d{4}-\d\d-\d\d)[Tt]", "$1 ")
        .str.replace(r"\s*(?:[Zz]|UTC|GMT)$", "+00:00")
        .str.replace(r"(:\d\d(?:[.,]\d+)?)\s*([+-]\d\d):?(\d\d)?$", "$1$2:${3}")
        .str.replace(r"([+-]\d\d):$", "$1:00")
    )
    found = pl.Series(raw.name, [None] * len(raw), dtype=pl.Int64)
    for spelling in _SPELLINGS:
        if found.null_count() == raw.null_count():
            break
        moments = text.str.to_datetime(spelling, time_unit="us", strict=False)
        found = found.fill_null(moments.dt.epoch("us"))
    return _in_range(found)


def _from_numbers(counts: pl.Series, usual: int) -> Times:
    divisor = 1000 if usual == _NANOS else 1
    count = pl.col("count")
    micros = (
        (count * (_MICROS[usual] / divisor)).round().cast(pl.Int64, strict=False)
        if counts.dtype.is_float()
        else count // divisor * _MICROS[usual]
    )
    odd = count < (0, *_FINER_FROM)[usual]
    if usual < len(_FINER_FROM):
        odd |= count >= _FINER_FROM[usual]
    frame = counts.to_frame("count")
    times = frame.select(micros=pl.when(odd).then(0).otherwise(micros), odd=odd)
    return times["micros"], times["odd"]


def _in_range(micros: pl.Series) -> Times:
    return micros, (micros < 0) | (micros >= YEAR_10000)
