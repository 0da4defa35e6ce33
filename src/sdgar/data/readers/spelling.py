"""Find out if texts spell integers, as Python writes them: 7 and -7, but none of 007, +7 and -0."""

from __future__ import annotations

import numpy as np
import polars as pl

_SOME = 1000
"""The texts that are looked at before a whole column is."""


def spelled_integers(values: pl.Series, dtype: pl.DataType) -> pl.Series | None:
    """Return integers, or texts that spell them, as integers of a type; None if some are not."""
    is_text = values.dtype == pl.String
    for part in (values.head(_SOME), values) if is_text else (values,):
        integers = part.cast(dtype, strict=False)
        if integers.null_count() > part.null_count():
            return None
    # 007, +7 and -0 are read as integers, but are others as text, and longer than need be.
    same = not is_text or values.str.len_bytes().sum() == _least_length(integers.drop_nulls())
    return integers if same else None


def _least_length(integers: pl.Series) -> int:
    """Return the number of characters of all integers, each written as Python does."""
    number_N = integers.to_numpy()
    if not len(number_N):
        return 0
    lowest, highest = int(number_N.min()), int(number_N.max())
    length, bound = len(number_N), 10
    if lowest < 0:
        length += int(np.count_nonzero(number_N < 0))
    while bound <= max(highest, -lowest):
        if bound <= highest:
            length += int(np.count_nonzero(number_N >= bound))
        if bound <= -lowest:
            length += int(np.count_nonzero(number_N <= -bound))
        bound *= 10
    return length
