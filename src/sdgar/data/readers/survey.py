"""Find what must be known of all rows of an input before one of them can be checked.

A load in memory finds it in all chunks at once. Here it is added up chunk by chunk, with the same
result: the type of each column, the form of times, and the least positive rating.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sdgar.data.read_options import ReadOptions
from sdgar.data.readers.chunks import Chunk, FoundTypes, Types, all_types, common_types, types_of
from sdgar.data.readers.cleaning import needs_threshold, ratings_of, with_threshold, without_empty
from sdgar.data.readers.columns import Columns
from sdgar.data.readers.times import TimeForm, count_times, time_form
from sdgar.errors import ResourceError

_MOST_RATINGS = 10_000_000
"""The most different ratings that are kept in memory."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What was decided by all rows of an input."""

    rows: int
    """The number of rows."""
    types: Types
    """The type of each used column."""
    form: TimeForm | None
    """The form of the times, if there are times."""
    min_rating: float | None
    """The least positive rating, if it was found from the ratings."""

    def options(self, options: ReadOptions) -> ReadOptions:
        """Return the options with what was decided."""
        return options if self.min_rating is None else replace(options, min_rating=self.min_rating)


class Survey:
    """The counts of the chunks that were looked at so far."""

    def __init__(self, columns: Columns, options: ReadOptions, *, untyped: bool = False) -> None:
        self._untyped = untyped
        self._columns = columns
        self._options = options
        self._types: FoundTypes = {}
        self._times: Counter[str] = Counter()
        self._rating_E = np.empty(0)
        self._count_E = np.empty(0, np.int64)
        self.rows = 0

    def add(self, chunk: Chunk) -> None:
        """Look at a chunk."""
        frame = without_empty(chunk.frame)
        self.rows += frame.height
        self._types = all_types([self._types, types_of(chunk)])
        if "time" in frame.columns:
            self._times += count_times(frame["time"])
        if needs_threshold(self._columns, self._options):
            self._add_ratings(ratings_of(frame))

    def _add_ratings(self, rating_E: NDArray[np.float64]) -> None:
        values, counts = np.unique(rating_E, return_counts=True)
        both = np.concatenate((self._rating_E, values))
        self._rating_E, at = np.unique(both, return_inverse=True)
        self._count_E = np.bincount(at, np.concatenate((self._count_E, counts))).astype(np.int64)
        if len(self._rating_E) > _MOST_RATINGS:
            raise ResourceError(
                f"column {self._columns.rating!r} has more than {_MOST_RATINGS:,} different "
                "ratings, too many to find in RAM which are positive. Set --min-rating.",
                code="out_of_memory",
            )

    def decided(self) -> Decided:
        """Decide by all chunks; raise if the types of a column do not go together."""
        types = common_types([self._types], untyped=self._untyped)
        form = time_form(self._times, types["time"]) if "time" in types else None
        least = None
        if needs_threshold(self._columns, self._options):
            found = with_threshold(self._columns, self._options, self._rating_E, self._count_E)
            least = float(str(found.min_rating))
        return Decided(self.rows, types, form, least)
