"""The options of reading: everything that a caller may say about an input.

The fields of ``ReadOptions`` are also options of the command line, and the texts under them its
help. Nothing heavy is imported here, as a help page needs this file.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sdgar.arguments import one_of
from sdgar.errors import UsageError, unknown_name

Duplicates = Literal["error", "sum", "max", "last"]
"""The rule for rows of one (user, item) pair whose weights differ."""
Weighting = Literal["auto", "raw", "log", "bm25"]
"""The transformation of weights."""
WEIGHTINGS: tuple[str, ...] = get_args(Weighting)
SeenBy = Literal["user", "context"]
"""The rule for what recommendations leave out: the items of the user in any context, or of the
context alone."""
USER = ("user",)
"""The fields of a context unless others are named: the user alone."""

TWO_MARKS = "::"
"""The only delimiter of more than one character, which MovieLens writes between fields."""

COUNTED = (
    "weight", "weights", "rating", "min_rating", "kind", "kinds", "dislike_kinds", "dislike_below",
)  # fmt: skip
"""The options that say which rows are learned from, and how much each counts."""

_MOST_UNPACKED = 64 << 30


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """The options of reading. Columns that are not named are guessed from the names people use."""

    user: str | None = None
    """The column of users; guessed if none is named."""
    item: str | None = None
    """The column of items; guessed if none is named."""
    weight: str | None = None
    """The column of weights. Without it every row counts once, unless --weights is given; none:
    no weights."""
    weights: Weighting | None = None
    """Transform the weights: log, bm25, raw, or auto (raw, or log if they range widely)."""
    time: str | None = None
    """The column of times; guessed if none is named; none: no times."""
    rating: str | None = None
    """The column of ratings, to which --min-rating applies."""
    min_rating: float | Literal["auto", "unset"] | None = "auto"
    """Train on rows with at least this rating; auto: 0.7 of the highest one; none: on all rows."""
    kind: str | None = None
    """The column of kinds of events, such as view and buy; guessed if none is named; none: no
    kinds."""
    kinds: tuple[str, ...] | None = None
    """Train on events of these kinds only. Without it, on all but dislike, skip, hide, return and
    similar words."""
    dislike_kinds: tuple[str, ...] | None = None
    """Take events of these kinds as dislikes, in addition to dislike, skip, hide, return and
    similar words."""
    dislike_below: float | None = None
    """Take ratings below this as dislikes, and ignore ratings from here to --min-rating. Without
    ratings it applies to weights."""
    delimiter: str | None = None
    """The separator of fields in text files: one character, tab or ::."""
    header_columns: tuple[str, ...] | None = None
    """The names of the columns of files without a header, as user,item,time."""
    duplicates: Duplicates = "error"
    """The rule for repeated (user, item) pairs with different weights: error, sum, max or last."""
    allow_bad_rows: bool = False
    """Leave malformed rows out and count them, instead of refusing the file."""
    context: tuple[str, ...] = USER
    """The fields of a context: user, or user and other columns, as user,city; hour, weekday and
    daypart are made from the time."""
    seen_by: SeenBy = "user"
    """With several fields in the context, leave out the items that a user has in any context
    (user), or only in this one (context)."""
    max_uncompressed: int | None = None
    """The most bytes that a gz, zst or Parquet file may unpack to, as 8G; by default the RAM of
    this machine, at most 64 GiB."""

    def counted(self) -> dict[str, Any]:
        """Return what was said of the rows that are learned from, and of how much each counts.

        >>> from sdgar.data.readers import ReadOptions
        >>> ReadOptions(user="who", min_rating=4.0).counted()
        {'min_rating': 4.0}
        """
        usual = ReadOptions()
        said = {name: getattr(self, name) for name in COUNTED}
        return {name: value for name, value in said.items() if value != getattr(usual, name)}

    def __post_init__(self) -> None:
        """Raise if options cannot work, before any file is opened."""
        one_of("duplicates", self.duplicates, get_args(Duplicates))
        one_of("seen_by", self.seen_by, get_args(SeenBy))
        if self.weights is not None and self.weights not in WEIGHTINGS:
            raise unknown_name("weighting", str(self.weights), WEIGHTINGS)
        if self.context != USER:
            from sdgar.data.contexts import require_fields

            require_fields(self.context)
        for wrong in self._faults():
            raise UsageError(wrong, code="bad_option")

    def _faults(self) -> Iterator[str]:
        """Yield what is wrong with single options, and with options together."""
        if self.delimiter is not None and not _fit_delimiter(self.delimiter):
            yield f"delimiter must be one character (or 'tab', or '::'), got {self.delimiter!r}."
        limit = self.max_uncompressed
        if limit is not None and (type(limit) is not int or limit < 1):
            yield f"max_uncompressed must be a number of bytes of at least 1, got {limit!r}."
        if self.min_rating not in (None, "auto", "unset") and not _is_number(self.min_rating):
            yield f"min_rating must be a number or none, got {self.min_rating!r}."
        low = self.dislike_below
        if low is not None and not _is_number(low):
            yield f"dislike_below must be a number, got {low!r}."
        if low is not None and _is_number(self.min_rating) and low > float(self.min_rating or 0):
            yield (
                f"ratings below {low:g} cannot count against an item (--dislike-below) if "
                f"ratings of {self.min_rating:g} and above count as positive (--min-rating). Lower "
                "the first, or raise the second."
            )
        if twice := repeated(self.header_columns or ()):
            yield f"--columns names {twice} more than once."
        if self.seen_by == "context" and self.context == USER:
            yield "--seen-by context needs contexts of several fields: name them with --context."
        if self.kinds is not None and (not self.kinds or not all(self.kinds)):
            yield "--kinds names no kind. Write --kinds view,buy."
        if self.dislike_kinds is not None and not all(self.dislike_kinds or [""]):
            yield "--dislike-kinds names no kind. Write --dislike-kinds skip,return."
        if both := sorted({*(self.kinds or ())} & {*(self.dislike_kinds or ())}):
            yield (
                f"the kind {both[0]!r} cannot be learned from (--kinds) and count against an item "
                "(--dislike-kinds). Leave it out of one of them."
            )

    @property
    def separator(self) -> str | None:
        """The delimiter as the character itself."""
        return "\t" if self.delimiter in ("tab", "\\t") else self.delimiter

    @property
    def unpack_limit(self) -> int:
        """The bytes that a file may unpack to, with the default of this machine."""
        ram = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return self.max_uncompressed or min(_MOST_UNPACKED, ram)


def repeated(names: Sequence[str]) -> str:
    """Return the names that occur more than once, for people; empty names do not count."""
    return ", ".join(repr(name) for name, n in Counter(names).items() if name and n > 1)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _fit_delimiter(text: str) -> bool:
    return text in ("tab", "\\t", TWO_MARKS) or (
        len(text) == 1 and text.isascii() and text not in '"\r\n\0'
    )
