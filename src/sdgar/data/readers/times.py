"""Read times of any spelling as microseconds since 1970."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import polars as pl

from sdgar.data.numbers import COUNTS

_FINER_FROM = tuple(bound for bound, _ in COUNTS)
"""The count from which on a number is of the next finer unit."""
_MICROS = (*(micros for _, micros in COUNTS), 1)
_NANOS = 3
_NO_UNITS = (0,) * (len(_FINER_FROM) + 1)

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


@dataclass(frozen=True, slots=True)
class TimeForm:
    """How the values of a column of times are written, which is decided by most of its rows."""

    written: Literal["dates", "integers", "decimals", "text"]
    """The way that the values are written; text is ISO 8601."""
    unit: int = 0
    """The unit of numbers: 0 for seconds, and one more for each finer one."""


@dataclass(frozen=True, slots=True)
class TimeCounts:
    """Counts of a column of times, or of a part of it, by which its form is decided."""

    rows: int = 0
    """The number of rows."""
    missing: int = 0
    """The number of rows without a value."""
    no_integer: int = 0
    """The number of rows that are missing or no integer."""
    no_decimal: int = 0
    """The number of rows that are missing or no number."""
    integer_units: tuple[int, ...] = _NO_UNITS
    """The number of integers of each unit, by magnitude."""
    decimal_units: tuple[int, ...] = _NO_UNITS
    """The number of numbers of each unit, by magnitude."""

    @classmethod
    def of(cls, raw: pl.Series) -> TimeCounts:
        """Count a column, or a part of it."""
        if raw.dtype.is_temporal():
            return cls(len(raw), raw.null_count(), len(raw), len(raw))
        integers = raw.cast(pl.Int64, strict=False)
        whole = not raw.dtype.is_float() and integers.null_count() == raw.null_count()
        units = _units(integers)
        if whole:
            return cls(len(raw), raw.null_count(), raw.null_count(), raw.null_count(), units, units)
        decimals = raw.cast(pl.Float64, strict=False).fill_nan(None)
        return cls(
            len(raw),
            raw.null_count(),
            integers.null_count(),
            decimals.null_count(),
            units,
            _units(decimals),
        )

    def __add__(self, other: TimeCounts) -> TimeCounts:
        """Return the counts of two parts together."""
        return TimeCounts(
            self.rows + other.rows,
            self.missing + other.missing,
            self.no_integer + other.no_integer,
            self.no_decimal + other.no_decimal,
            _added(self.integer_units, other.integer_units),
            _added(self.decimal_units, other.decimal_units),
        )

    def form(self, dtype: pl.DataType) -> TimeForm:
        """Decide how a column of this type is written.

        Text holds numbers if most of its values are numbers, else ISO 8601; a column is not both.
        """
        if dtype.is_temporal():
            return TimeForm("dates")
        decimal = dtype.is_float()
        if dtype == pl.String:
            decimal = self.no_integer > self.missing and self.no_decimal < self.no_integer
            no_number = self.no_decimal if decimal else self.no_integer
            if no_number * 2 > self.rows + self.missing:
                return TimeForm("text")
        units = self.decimal_units if decimal else self.integer_units
        # The finer unit wins a tie, whatever the order of the rows.
        usual = max(range(len(units)), key=lambda unit: (units[unit], unit)) if any(units) else 0
        return TimeForm("decimals" if decimal else "integers", usual)


def parse_times(raw: pl.Series, form: TimeForm | None = None) -> Times:
    """Read integers, decimals, dates or ISO 8601 text; text without a zone is UTC.

    Integers may count seconds, milliseconds, microseconds or nanoseconds: the unit is that of
    most rows, by magnitude, and a row of another magnitude is out of range. Small integers
    such as the position in a list count as seconds, which keeps their order. ``form`` is that of
    the whole column, where ``raw`` is a part of it.
    """
    form = form or TimeCounts.of(raw).form(raw.dtype)
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
    for spelling in (*_WITH_ZONE, *_WITHOUT_ZONE):
        if found.null_count() == raw.null_count():
            break
        moments = text.str.to_datetime(spelling, time_unit="us", strict=False)
        found = found.fill_null(moments.dt.epoch("us"))
    return _in_range(found)


def _units(counts: pl.Series) -> tuple[int, ...]:
    """Count the numbers of each unit; those below 0 have none."""
    from_bound = [int((counts >= bound).sum()) for bound in (0, *_FINER_FROM)]
    return tuple(low - high for low, high in zip(from_bound, [*from_bound[1:], 0], strict=True))


def _added(mine: tuple[int, ...], theirs: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(sum, zip(mine, theirs, strict=True)))


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
    return Times(times["micros"], times["odd"])


def _in_range(micros: pl.Series) -> Times:
    return Times(micros, (micros < 0) | (micros >= YEAR_10000))
