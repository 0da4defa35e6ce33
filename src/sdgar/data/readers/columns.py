"""Which column is what: named by the caller, or guessed from the names people use."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from sdgar.data import contexts
from sdgar.data.interactions import Duplicates
from sdgar.data.weighting import WEIGHTINGS, Weighting
from sdgar.errors import DataError, UsageError, unknown_name

Role = Literal["user", "item", "weight", "time", "rating"]
FIELD = "field:"
"""Before the name of a column that is a field of the context."""

# Names are compared without case, spaces, underscores and a `:type` suffix.
_KNOWN_NAMES: dict[Role, str] = {
    "user": """
        user userid uid customer customerid custid client clientid visitor visitorid member
        memberid account accountid session sessionid reviewer reviewerid buyer buyerid person
        personid profile profileid viewer viewerid listener listenerid household householdid
        householdkey""",
    "item": """
        item itemid iid product productid sku skuid asin movie movieid film filmid book bookid
        song songid track trackid artist artistid article articleid business businessid location
        locationid venue venueid poi poiid game gameid app appid video videoid news newsid
        recipe recipeid anime animeid stockcode isbn gmapid""",
    "time": """
        time timestamp ts date datetime at eventtime eventtimestamp createdat occurredat
        unixreviewtime unixtime utctime""",
    "weight": """
        weight count plays playcount nplays listens clicks views purchases hours hoursplayed
        quantity qty frequency confidence""",
    "rating": """
        rating ratings rate score stars star overall overallrating reviewoverall starrating
        userrating userratings bookrating movierating filmrating itemrating productrating
        gamerating songrating animerating reciperating reviewrating reviewscore reviewstars
        reviewerrating customerrating myrating myscore userscore userstars ratingscore
        ratingvalue ratingstars givenrating recommended isrecommended votedup liked thumbsup""",
}
_KNOWN = {role: frozenset(names.split()) for role, names in _KNOWN_NAMES.items()}

_TRUE_OR_FALSE = frozenset(("recommended", "isrecommended", "votedup", "liked", "thumbsup"))
"""Names of ratings that are mostly true or false, which count as 1 and 0."""

TWO_MARKS = "::"
"""What MovieLens writes between fields: the one delimiter of more than one character."""

_MOST_UNPACKED = 64 << 30
_MAX_LISTED = 30
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d.*)?")
_KEY = re.compile(r"[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_GREATEST_RATING = 10
_LEAST_TIME = 10**8


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read interactions. What is not said is guessed from the column names."""

    user: str | None = None
    """Column of the user ids; ``None`` guesses."""
    item: str | None = None
    weight: str | None = None
    """Column of the weights. Without it every row counts once, also where a column looks like a
    weight, unless ``weights`` asks for it; ``"none"`` says so aloud."""
    weights: Weighting | None = None
    """How the weights are used: ``"log"``, ``"bm25"``, ``"raw"``, or ``"auto"``, which takes them
    as they are unless they range too widely, and then ``"log"``. See ``sdgar.data.weighting``."""
    time: str | None = None
    rating: str | None = None
    """Column that ``min_rating`` looks at."""
    min_rating: float | Literal["auto", "unset"] | None = "auto"
    """Learn from rows rated at least so. ``"auto"`` takes 0.7 of the highest rating (see
    ``sdgar.data.ratings``), ``None`` counts every row, ``"unset"`` refuses ratings."""
    delimiter: str | None = None
    """One character, ``"tab"`` or ``"::"``; ``None`` takes it from the file extension."""
    header_columns: tuple[str, ...] | None = None
    """Names of the columns of files that have no header line."""
    duplicates: Duplicates = "error"
    """What to do with rows of one (user, item) whose weights differ."""
    allow_bad_rows: bool = False
    """Leave out and count rows that cannot be used, instead of refusing the input."""
    context: tuple[str, ...] = contexts.USER
    """Fields of a context: user, columns by name, and hour, weekday or daypart of the time."""
    seen_by: contexts.SeenBy = "user"
    """Whether what a user has is left out of their lists in all contexts, or with "context" only in
    the one that has it."""
    max_uncompressed: int | None = None
    """Bytes a gz, zst or Parquet file may unpack to; ``None``: this machine's memory, or 64 GiB."""

    def __post_init__(self) -> None:
        """Refuse what cannot work, before any file is opened."""
        if self.duplicates not in get_args(Duplicates):
            raise UsageError(
                f"duplicates must be one of {', '.join(get_args(Duplicates))}, "
                f"got {self.duplicates!r}.",
                code="bad_option",
            )
        if self.delimiter is not None and not _fit_delimiter(self.delimiter):
            raise UsageError(
                f"delimiter must be one character (or 'tab', or '::'), got {self.delimiter!r}.",
                code="bad_option",
            )
        if self.weights is not None and self.weights not in WEIGHTINGS:
            raise unknown_name("weighting", str(self.weights), WEIGHTINGS)
        if self.weights is not None and self.weight == "none":
            raise UsageError(
                f"weights={self.weights!r} asks for weights and weight='none' for none. Leave one "
                "of them out.",
                code="bad_option",
            )
        limit = self.max_uncompressed
        if limit is not None and (type(limit) is not int or limit < 1):
            raise UsageError(
                f"max_uncompressed must be a number of bytes of at least 1, got {limit!r}.",
                code="bad_option",
            )
        named = self.min_rating not in (None, "auto", "unset")
        if named and not (
            isinstance(self.min_rating, (int, float)) and math.isfinite(self.min_rating)
        ):
            raise UsageError(
                f"min_rating must be a number or none, got {self.min_rating!r}.", code="bad_option"
            )
        contexts.require_fields(self.context)
        contexts.require_seen_by(self.seen_by)
        if self.seen_by == "context" and self.context == contexts.USER:
            raise UsageError(
                "--seen-by context needs contexts of several fields: name them with --context.",
                code="bad_option",
            )
        if twice := _repeated(self.header_columns or ()):
            raise UsageError(f"--columns names {twice} more than once.", code="bad_option")

    @property
    def separator(self) -> str | None:
        """The delimiter as the character itself."""
        return "\t" if self.delimiter in ("tab", "\\t") else self.delimiter

    @property
    def unpack_limit(self) -> int:
        """Bytes a file may unpack to: what was said, or what this machine could hold."""
        return self.max_uncompressed or min(_MOST_UNPACKED, _memory())


@dataclass(frozen=True)
class Columns:
    """Which column plays which part, and which of them were guessed."""

    user: str
    item: str
    weight: str | None = None
    time: str | None = None
    rating: str | None = None
    guessed: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    """Columns that are fields of the context, beside the user."""
    offered: tuple[str, ...] = ()
    """Columns that look like a weight and are not used."""

    @property
    def used(self) -> dict[str, str]:
        """The parts that are played, with their columns."""
        played = {
            role: name for role in get_args(Role) if (name := getattr(self, role)) is not None
        }
        return played | {FIELD + name: name for name in self.fields}

    def sentence(self) -> str:
        """One line for people: the roles that a column has."""
        parts = [f"{role}={name}" for role in get_args(Role) if (name := getattr(self, role))]
        if not self.guessed:
            return " ".join(parts)
        flags = ", ".join(f"--{role}" for role in self.guessed)
        return f"{' '.join(parts)} (guessed: {', '.join(self.guessed)}; set with {flags})"

    def offer(self) -> str:
        """How to use a column that looks like a weight and is not used."""
        if not self.offered:
            return ""
        which = " and ".join(map(repr, self.offered))
        looks = "look like weights" if len(self.offered) > 1 else "looks like a weight"
        return (
            f"every row counts once. {which} {looks}, and --weight {self.offered[0]} "
            f"(weight={self.offered[0]!r} in Python) uses it"
        )


def resolve(names: Sequence[str], options: ReadOptions) -> tuple[Columns, tuple[str, ...]]:
    """Find the part of each column, and what a person should be told about the guess."""
    check_distinct(names)
    named = {role: _named(role, names, options) for role in get_args(Role)}
    given: dict[Role, str] = {role: name for role, name in named.items() if name}
    if "user" in given and given["user"] == given.get("item"):
        raise UsageError(
            f"column {given['user']!r} cannot be both the user and the item.", code="same_column"
        )
    guess = _Guess(names, taken=set(given.values()))
    notes: list[str] = []
    optional = {role: guess.optional(role, notes) for role in _optional(options, given)}
    if options.weights is not None and not (given.get("weight") or optional.get("weight")):
        raise UsageError(
            f"--weights {options.weights} needs a column of weights, and no single column looks "
            f"like one. Name it with --weight NAME. Columns: {_listed(names)}.",
            code="missing_column",
        )
    parts: dict[Role, str | None] = {**given, **optional, **_rating_part(guess, options, given)}
    user = given.get("user") or guess.needed("user")
    item = given.get("item") or guess.needed("item")
    if guess.by_position:
        notes.append(
            f"the two columns {names[0]!r} and {names[1]!r} are taken as user and item, by "
            "position; say otherwise with --user and --item."
        )
    columns = Columns(user, item, parts.get("weight"), parts.get("time"), parts["rating"])
    guessed = tuple(role for role in columns.used if role not in given)
    unused = columns.weight is None and options.weight is None
    offered = tuple(n for n in guess.alike("weight") if n not in columns.used.values())
    columns = replace(columns, guessed=guessed, offered=offered if unused else ())
    return replace(columns, fields=_fields(names, options)), tuple(notes)


def column_of(role: Literal["user", "item"], names: Sequence[str], options: ReadOptions) -> str:
    """The column of users or of items in a table that need not have both."""
    check_distinct(names)
    named = _named(role, names, options)
    if named or len(names) == 1:
        return named or names[0]
    return _Guess(names, taken=()).needed(role)


def _fields(names: Sequence[str], options: ReadOptions) -> tuple[str, ...]:
    """Columns that the context asks for by name; a derived field is taken from the time."""
    found = []
    for field in options.context:
        if field == "user" or (field in contexts.DERIVED and field not in names):
            continue
        if field not in names:
            raise UsageError(
                f"there is no column {field!r} (--context). Columns: {_listed(names)}; derived "
                f"from the time: {', '.join(contexts.DERIVED)}.",
                code="missing_column",
            )
        found.append(field)
    return tuple(found)


def check_distinct(names: Sequence[str]) -> None:
    """Refuse a column name that occurs twice; nameless columns may."""
    twice = _repeated(names)
    if twice:
        raise DataError(
            f"the input has more than one column named {twice}. Rename or remove one of them.",
            code="duplicate_columns",
        )


def _repeated(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name, n in Counter(names).items() if name and n > 1)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_LISTED:,} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more


def check_header(first: Sequence[str], where: str, options: ReadOptions) -> None:
    """Refuse a header that is data, and data (with ``header_columns``) that is a header."""
    line = ", ".join(first)[:80]
    if options.header_columns is None:
        chosen = options.user in first and options.item in first
        if all(_NUMBER.fullmatch(name) for name in first) and not chosen:
            raise _no_header(first, where)
        return
    expected = {_squash(name) for name in options.header_columns}.union(*_KNOWN.values())
    if any(_squash(field) in expected for field in first):
        raise DataError(
            f"the first line of {where} looks like a header: {line}. "
            "Leave out --columns, which is for files without one.",
            code="unexpected_header",
        )
    if len(first) != len(options.header_columns):
        raise DataError(
            f"--columns names {len(options.header_columns)} columns, but the first line of "
            f"{where} has {len(first)} fields: {line}. Name every column, or check --delimiter.",
            code="columns_mismatch",
        )


class _Guess:
    """Columns that look like a part and are not taken by another one."""

    def __init__(self, names: Sequence[str], taken: Collection[str]) -> None:
        self._names = names
        self._taken = taken
        self.by_position = (
            len(names) == 2
            and not taken
            and not any(_squash(name) in known for name in names for known in _KNOWN.values())
            and all(name.isprintable() and re.fullmatch(r"[^\W\d][^\d]*", name) for name in names)
        )

    def alike(self, role: Role) -> list[str]:
        """Free columns named like a part."""
        known = _KNOWN[role]
        return [n for n in self._names if _squash(n) in known and n not in self._taken]

    def optional(self, role: Role, notes: list[str]) -> str | None:
        """The one column that looks like the part; with several, none and a note."""
        found = self.alike(role)
        if len(found) > 1:
            notes.append(
                f"{' and '.join(found)} all look like a {role}, so none is used; "
                f"choose with --{role}."
            )
        return found[0] if len(found) == 1 else None

    def needed(self, role: Literal["user", "item"]) -> str:
        """The one column that looks like the part, or an error that lists what there is."""
        if self.by_position:
            return self._names[0 if role == "user" else 1]
        found = self.alike(role)
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(
                f"{' and '.join(map(repr, found))} could all be the {role}. "
                f"Choose one with --{role} NAME ({role}=… in Python).",
                code="ambiguous_column",
            )
        if any(pattern.fullmatch(n) for pattern in (_NUMBER, _TIME, _KEY) for n in self._names):
            raise _no_header(self._names, "the input")
        raise UsageError(
            f"cannot tell which column is the {role}. Columns: {_listed(self._names)}. "
            f"Name it with --{role} NAME ({role}=… in Python).",
            code="missing_column",
        )


def _named(role: Role, names: Sequence[str], options: ReadOptions) -> str | None:
    """The column the caller named; an empty text where the part shall not be played."""
    name: str | None = getattr(options, role)
    if name is None or name in names:
        return name
    if name == "none" and role not in ("user", "item"):
        return ""
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise UsageError(
        f"there is no column {name!r} (--{role}). {hint}Columns: {_listed(names)}.",
        code="missing_column",
    )


def _optional(options: ReadOptions, given: Collection[Role]) -> list[Role]:
    wanted: list[Role] = []
    if options.weights is not None:
        wanted.append("weight")
    if options.time != "none":
        wanted.append("time")
    return [role for role in wanted if role not in given]


def _rating_part(
    guess: _Guess, options: ReadOptions, given: dict[Role, str]
) -> dict[Role, str | None]:
    """The column of ratings, if a threshold looks at one."""
    alike = guess.alike("rating")
    if options.min_rating is None:
        return {"rating": None}
    if options.min_rating in ("auto", "unset"):
        rated = given.get("rating") or (alike[0] if alike else None)
        if rated is None or _squash(given.get("weight", "")) in _KNOWN["rating"]:
            return {"rating": None}
        if options.min_rating == "unset":
            raise threshold_required(rated)
    if "rating" in given:
        return {"rating": given["rating"]}
    if _squash(given.get("weight", "")) in _KNOWN["rating"]:
        return {"rating": given["weight"]}
    if len(alike) == 1:
        return {"rating": alike[0]}
    what = f"{' and '.join(alike)} all look like one" if alike else "no column looks like one"
    raise UsageError(
        f"--min-rating needs a rating, and {what}. "
        "Name it with --rating NAME (rating=… in Python).",
        code="ambiguous_column" if alike else "missing_column",
    )


def threshold_required(column: str, why: str = "a low rating is not a liking") -> UsageError:
    """The error for ratings that nobody can tell likings from."""
    return UsageError(
        f"column {column!r} looks like a rating, and {why}. Say what is meant: "
        f"{_threshold_for(column)}, --min-rating none counts every row, --weight {column} uses "
        "the rating as the weight.",
        code="threshold_required",
    )


def _threshold_for(column: str) -> str:
    if _squash(column) in _TRUE_OR_FALSE:
        return "--min-rating 1 keeps rows where it is true (or 1)"
    return "--min-rating 4 keeps ratings of 4 and above"


def _no_header(first: Sequence[str], where: str) -> DataError:
    names = ",".join(_fitting_names(first))
    return DataError(
        f"{where} seems to have no header: its first line is {', '.join(first)[:80]}. "
        f"Name the {len(first)} columns in their order, such as --columns {names} "
        f"(header_columns={tuple(names.split(','))!r} in Python).",
        code="no_header",
    )


def _fitting_names(first: Sequence[str]) -> list[str]:
    """Names that would fit the fields of a line, each once: what is no time is user, then item."""
    names: list[str] = []
    for place, text in enumerate(first, 1):
        needed = next((role for role in ("user", "item") if role not in names), None)
        name = needed if needed and not _TIME.fullmatch(text) else _name_by_value(text)
        names.append(name if name and name not in names else f"column{place}")
    return names


def _name_by_value(text: str) -> str:
    """What a value looks like beside the ids; nothing if it could be anything."""
    if _TIME.fullmatch(text):
        return "timestamp"
    if not _NUMBER.fullmatch(text):
        return ""
    if float(text) >= _LEAST_TIME:
        return "timestamp"
    return "rating" if float(text) <= _GREATEST_RATING else "weight"


def _memory() -> int:
    """Bytes of memory of this machine; Windows does not say it in this way."""
    if not hasattr(os, "sysconf"):
        return _MOST_UNPACKED
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _squash(name: str) -> str:
    return re.sub(r"[\W_]", "", name.split(":")[0]).lower()


def _fit_delimiter(text: str) -> bool:
    return text in ("tab", "\\t", TWO_MARKS) or (
        len(text) == 1 and text.isascii() and text not in '"\r\n\0'
    )
