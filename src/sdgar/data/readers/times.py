"""Read times of any spelling as microseconds since 1970."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sdgar.data.moments import COUNTS

_FINER_FROM = tuple(bound for bound, _ in COUNTS)
"""The count from which on a number is of the next finer unit."""
_MICROS = (*(micros for _, micros in COUNTS), 1)
_NANOS = 3

YEAR_10000 = 253_402_300_800_000_000
"""The beginning of the year 10000 in microseconds; later times are taken for mistakes."""

# Tried in turn on text with a blank for `T`, and `+00:00` for `Z` and `UTC`.
_WITH_ZONE = ("%Y-%m-%d %H:%M:%S%.f%:z", "%Y-%m-%d %H:%M%:z")
_WITHOUT_ZONE = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d")


@dataclass(frozen=True, slots=True)
class Times:
    """Times in microseconds, null if a value is no time, and which of them are out of range."""

    micros: pl.Series
    """The times in microseconds since 1970."""
    out_of_range: pl.Series
    """True for a time that is out of range."""


def parse_times(raw: pl.Series) -> Times:
    """Read integers, decimals, dates or ISO 8601 text; text without a zone is UTC.

    Integers may count seconds, milliseconds, microseconds or nanoseconds: the unit is that of
    most rows, by magnitude, and a row of another magnitude is out of range. Small integers
    such as the position in a list count as seconds, which keeps their order.
    """
    if raw.dtype == pl.String:
        return _parse_text(raw)
    if raw.dtype.is_temporal():
        return _in_range(raw.cast(pl.Datetime("us")).dt.epoch("us"))
    return _from_numbers(raw)


def _parse_text(raw: pl.Series) -> Times:
    """Read numbers if most values are numbers, else ISO 8601; a column is not both."""
    numbers: pl.Series = raw.cast(pl.Int64, strict=False)
    if numbers.null_count() > raw.null_count():
        decimals = raw.cast(pl.Float64, strict=False).fill_nan(None)
        numbers = decimals if decimals.null_count() < numbers.null_count() else numbers
    if numbers.null_count() * 2 <= len(raw) + raw.null_count():
        return _from_numbers(numbers)
    text = (
        raw.str.replace(r"^(\d{4}-\d\d-\d\d)[Tt]", "$1 ")
        .str.replace(r"\s*(?:[Zz]|UTC|GMT)$", "+00:00")
        .str.replace(r"(:\d\d(?:[.,]\d+)?)\s*([+-]\d\d):?(\d\d)?$", "$1$2:${3}")
        .str.replace(r"([+-]\d\d):$", "$1:00")
    )
    found = pl.Series(raw.name, [None] * len(raw), dtype=pl.Int64)
    for spelling in (*_WITH_ZONE, *_WITHOUT_ZONE):
        if found.null_count() == raw.null_count():
            break
        moments = text.str.to_datetime(spelling, time_unit="us", strict=False)
        found = found.fill_null(moments.dt.epoch("us"))
    return _in_range(found)


def _from_numbers(counts: pl.Series) -> Times:
    is_float = counts.dtype.is_float()
    counts = (
        counts.cast(pl.Float64).fill_nan(None) if is_float else counts.cast(pl.Int64, strict=False)
    )
    unit = pl.sum_horizontal([(counts >= bound).cast(pl.UInt8) for bound in _FINER_FROM])
    frame = pl.select(counts.alias("count"), unit.alias("unit"))
    usual = _most_common(frame.filter(pl.col("count") >= 0)["unit"])
    divisor = 1000 if usual == _NANOS else 1
    micros = (
        (pl.col("count") * (_MICROS[usual] / divisor)).round().cast(pl.Int64, strict=False)
        if is_float
        else pl.col("count") // divisor * _MICROS[usual]
    )
    odd = (pl.col("count") < 0) | (pl.col("unit") != usual)
    times = frame.select(micros=pl.when(odd).then(0).otherwise(micros), odd=odd)
    return Times(times["micros"], times["odd"])


def _most_common(units: pl.Series) -> int:
    if units.is_empty():
        return 0
    # The finer unit wins a tie, whatever the order of the rows.
    counts = units.value_counts().sort("count", "unit")
    return int(counts["unit"][-1])


def _in_range(micros: pl.Series) -> Times:
    return Times(micros, (micros < 0) | (micros >= YEAR_10000))
