"""Find which column plays which part: named by the caller, or guessed from the names people use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from sdgar.data import contexts
from sdgar.data.read_options import ReadOptions, repeated
from sdgar.errors import DataError, UsageError, did_you_mean

Role = Literal["user", "item", "weight", "time", "rating", "kind"]
"""The part that a column plays."""

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
    "kind": "kind eventkind eventtype",
}
KNOWN = {role: frozenset(names.split()) for role, names in _KNOWN_NAMES.items()}


def squash(name: str) -> str:
    """Return a name without case, spaces, underscores and a `:type` suffix."""
    return re.sub(r"[\W_]", "", name.split(":")[0]).lower()


NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
TIME = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d.*)?")
KEY = re.compile(r"[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_GREATEST_RATING = 10
_LEAST_TIME = 10**8


def check_distinct(names: Sequence[str]) -> None:
    """Raise if a column name occurs twice; columns without a name may."""
    twice = repeated(names)
    if twice:
        raise DataError(
            f"the input has more than one column named {twice}. Rename or remove one of them.",
            code="duplicate_columns",
        )


def no_header(first: Sequence[str], where: str) -> DataError:
    """Build the error for an input without a header, with names that would fit its columns."""
    names = ",".join(_fitting_names(first))
    return DataError(
        f"{where} seems to have no header: its first line is {', '.join(first)[:80]}. "
        f"Name the {len(first)} columns in their order, such as --columns {names} "
        f"(header_columns={tuple(names.split(','))!r} in Python).",
        code="no_header",
    )


def _fitting_names(first: Sequence[str]) -> list[str]:
    """Return names that would fit the fields of a line: a time, else first user, then item."""
    names: list[str] = []
    for place, text in enumerate(first, 1):
        needed = next((role for role in ("user", "item") if role not in names), None)
        name = needed if needed and not TIME.fullmatch(text) else _name_by_value(text)
        names.append(name if name and name not in names else f"column{place}")
    return names


def _name_by_value(text: str) -> str:
    """Return what a value other than an id looks like; empty if it could be anything."""
    if TIME.fullmatch(text):
        return "timestamp"
    if not NUMBER.fullmatch(text):
        return ""
    if float(text) >= _LEAST_TIME:
        return "timestamp"
    return "rating" if float(text) <= _GREATEST_RATING else "weight"


FIELD = "field:"
"""The prefix of the part that a field of the context plays; the column's name follows."""
_MAX_LISTED = 30


@dataclass(frozen=True)
class Columns:
    """The columns that play the parts, and which of them were guessed."""

    user: str
    """The column of the user ids."""
    item: str
    """The column of the item ids."""
    weight: str | None = None
    """The column of the weights, if one is used."""
    time: str | None = None
    """The column of the times, if one is used."""
    rating: str | None = None
    """The column of the ratings, if one is used."""
    kind: str | None = None
    """The column of the kinds of events, if one is used."""
    guessed: tuple[str, ...] = ()
    """The parts whose column was guessed."""
    fields: tuple[str, ...] = ()
    """The columns that are fields of the context, except the user."""
    offered: tuple[str, ...] = ()
    """The columns that look like a weight and are not used."""

    @property
    def used(self) -> dict[str, str]:
        """The columns that are used, by the part they play."""
        played = {
            role: name for role in get_args(Role) if (name := getattr(self, role)) is not None
        }
        return played | {FIELD + name: name for name in self.fields}

    def sentence(self) -> str:
        """Return one line for people: the part of each used column."""
        parts = [f"{role}={name}" for role in get_args(Role) if (name := getattr(self, role))]
        if not self.guessed:
            return " ".join(parts)
        flags = ", ".join(f"--{role}-column" for role in self.guessed)
        return f"{' '.join(parts)} (guessed: {', '.join(self.guessed)}; set with {flags})"

    def offer(self) -> str:
        """Return how to use a column that looks like a weight and is not used, if there is one."""
        if not self.offered:
            return ""
        which = " and ".join(map(repr, self.offered))
        looks = "look like weights" if len(self.offered) > 1 else "looks like a weight"
        return (
            f"every row counts once. {which} {looks}, and --weight-column {self.offered[0]} "
            f"(weight={self.offered[0]!r} in Python) uses it"
        )


def resolve(names: Sequence[str], options: ReadOptions) -> tuple[Columns, tuple[str, ...]]:
    """Return the part of each column, and notes on the guess for people."""
    check_distinct(names)
    named = {role: _named(role, names, options) for role in get_args(Role)}
    given: dict[Role, str] = {role: name for role, name in named.items() if name}
    if "user" in given and given["user"] == given.get("item"):
        raise UsageError(
            f"column {given['user']!r} cannot be both the user and the item.", code="same_column"
        )
    free = [name for name in names if name not in given.values()]
    notes: list[str] = []
    parts: dict[Role, str | None] = dict(given)
    for role in _optional(options):
        parts.setdefault(role, _guess(role, free, notes))
    parts["rating"] = _rating_column(free, options, given)
    _require_parts(parts, names, options)
    columns = Columns(
        given.get("user") or _needed("user", free, names),
        given.get("item") or _needed("item", free, names),
        *(parts.get("weight"), parts.get("time"), parts["rating"], parts.get("kind")),
        fields=_fields(names, options),
    )
    unused = columns.weight is None and options.weight is None
    offered = [n for n in _alike("weight", free) if unused and n not in columns.used.values()]
    guessed = tuple(r for r in get_args(Role) if getattr(columns, r) and r not in given)
    return replace(columns, guessed=guessed, offered=tuple(offered)), tuple(notes)


def _optional(options: ReadOptions) -> list[Role]:
    """Return the parts that are guessed if one column looks like them."""
    likely: list[Role] = ["time", "kind"] if options.weights is None else ["weight", "time", "kind"]
    return [role for role in likely if getattr(options, role) != "none"]


def _require_parts(
    parts: dict[Role, str | None], names: Sequence[str], options: ReadOptions
) -> None:
    """Raise if an option needs a column that is not there."""
    needs: dict[str, tuple[Role, ...]] = {
        "weights": ("weight",),
        "kinds": ("kind",),
        "dislike-kinds": ("kind",),
        "dislike-below": ("rating", "weight"),
    }
    for option, roles in needs.items():
        value = getattr(options, option.replace("-", "_"))
        if value is not None and not any(parts.get(role) for role in roles):
            said = ",".join(value) if isinstance(value, tuple) else value
            what = " or of ".join(f"{role}s" for role in roles)
            flags = " or ".join(f"--{role}-column NAME" for role in roles)
            raise _missing(
                f"--{option} {said} needs a column of {what}, and no single column looks like one. "
                f"Name it with {flags}.",
                names,
            )


def column_of(role: Literal["user", "item"], names: Sequence[str], options: ReadOptions) -> str:
    """Return the column of users or of items in a table that need not have both."""
    check_distinct(names)
    named = _named(role, names, options)
    if named or len(names) == 1:
        return named or names[0]
    return _needed(role, names, names)


def _fields(names: Sequence[str], options: ReadOptions) -> tuple[str, ...]:
    """Return the columns that the context names; a derived field comes from the time instead."""
    found = []
    for field in options.context:
        if field == "user" or (field in contexts.DERIVED and field not in names):
            continue
        if field not in names:
            from_time = f"derived from the time: {', '.join(contexts.DERIVED)}"
            raise _missing(f"there is no column {field!r} (--context); {from_time}.", names)
        found.append(field)
    return tuple(found)


def _missing(what: str, names: Sequence[str]) -> UsageError:
    """Build the error for a column that is not there, with the columns that are."""
    more = f" and {len(names) - _MAX_LISTED:,} more" if len(names) > _MAX_LISTED else ""
    listed = ", ".join(names[:_MAX_LISTED]) + more
    return UsageError(f"{what} Columns: {listed}.", code="missing_column")


def _alike(role: Role, free: Sequence[str]) -> list[str]:
    """Return the free columns that are named like a part."""
    known = KNOWN[role]
    return [name for name in free if squash(name) in known]


def _guess(role: Role, free: Sequence[str], notes: list[str]) -> str | None:
    """Return the one free column that looks like the part; of several none, with a note."""
    found = _alike(role, free)
    if len(found) > 1:
        notes.append(
            f"{' and '.join(found)} are all named like a {role}, so none is used; "
            f"choose with --{role}-column."
        )
    return found[0] if len(found) == 1 else None


def _needed(role: Role, free: Sequence[str], names: Sequence[str]) -> str:
    """Return the one free column that looks like the part; raise if there is none or several."""
    found = _alike(role, free)
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{' and '.join(map(repr, found))} could all be the {role}. "
            f"Choose one with --{role}-column NAME ({role}=… in Python).",
            code="ambiguous_column",
        )
    if any(pattern.fullmatch(n) for pattern in (NUMBER, TIME, KEY) for n in names):
        raise no_header(names, "the input")
    raise _missing(
        f"cannot find which column is the {role}. Name it with --{role}-column NAME "
        f"({role}=… in Python).",
        names,
    )


def _named(role: Role, names: Sequence[str], options: ReadOptions) -> str | None:
    """Return the column that the caller named; "" if the part is not wanted."""
    name: str | None = getattr(options, role)
    if name is None or name in names:
        return name
    if name == "none" and role not in ("user", "item"):
        return ""
    hint = did_you_mean(name, names)
    raise _missing(f"there is no column {name!r} (--{role}-column).{hint}", names)


def _rating_column(free: Sequence[str], options: ReadOptions, given: dict[Role, str]) -> str | None:
    """Return the column of ratings, if a threshold needs one."""
    if options.min_rating is None:
        return None
    alike = _alike("rating", free)
    is_weight = squash(given.get("weight", "")) in KNOWN["rating"]
    if options.min_rating in ("auto", "unset"):
        rated = given.get("rating") or (alike[0] if alike else None)
        if rated is None or is_weight:
            return None
        if options.min_rating == "unset":
            raise threshold_required(rated)
    if "rating" in given or is_weight:
        return given["rating" if "rating" in given else "weight"]
    if len(alike) == 1:
        return alike[0]
    what = f"{' and '.join(alike)} are all named like one" if alike else "no column looks like one"
    raise UsageError(
        f"--min-rating needs a rating, and {what}. "
        "Name it with --rating-column NAME (rating=… in Python).",
        code="ambiguous_column" if alike else "missing_column",
    )


def threshold_required(column: str, why: str = "a low rating is not positive") -> UsageError:
    """Build the error for ratings that do not show which rows are positive."""
    return UsageError(
        f"column {column!r} looks like a rating, and {why}. Say what is meant: --min-rating 4 "
        "keeps ratings of 4 and above (1 is true), --min-rating none counts every row, "
        f"--weight-column {column} uses the rating as the weight.",
        code="threshold_required",
    )
