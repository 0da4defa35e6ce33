"""The records of a store, and the checks of what goes into it; ids are text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sized
from dataclasses import dataclass, field
from typing import Any, Literal

from sdgar.errors import DataError

Side = Literal["item", "user"]
"""Whether an entry is about an item or about a user."""
SIDES: tuple[Side, Side] = ("item", "user")
ROLES = ("read", "write", "admin")
"""The roles of keys; each role includes the permissions of the roles before it."""


@dataclass(frozen=True, slots=True)
class Event:
    """An interaction of a user with an item."""

    user: str
    """The id of the user."""
    item: str
    """The id of the item."""
    kind: str = "event"
    """The kind of the event, such as view, buy or dislike."""
    time: float | None = None
    """The seconds since 1970; None means the time of arrival."""
    weight: float | None = None
    """The weight of the event; None if it has none."""
    key: str | None = None
    """The key by which a repeated event is recognised; None if it has none."""
    request: str | None = None
    """The id of the request whose answer led to the event; None if unknown."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event in the store."""

    number: int
    """The number of the event; later events have higher ones."""
    user: str
    """The id of the user."""
    item: str
    """The id of the item."""
    kind: str
    """The kind of the event."""
    time: float
    """The seconds since 1970 when it happened."""
    weight: float | None
    """The weight of the event, if it has one."""
    key: str | None
    """The key by which a repeated event is recognised, if it has one."""
    request: str | None
    """The id of the request whose answer led to the event, if known."""
    received: float
    """The seconds since 1970 when it was stored."""


@dataclass(frozen=True, slots=True)
class AddedEvents:
    """The result of adding events."""

    accepted: int
    """The number of stored events."""
    repeated: int
    """The number of events that were not stored, because their key was in the store already."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The description of an item or user: name, picture, categories, features."""

    id: str
    """The id of the item or user."""
    name: str | None = None
    """The display name."""
    picture: str | None = None
    """The address of a picture."""
    categories: tuple[str, ...] = ()
    """The categories, in their original order."""
    features: Mapping[str, float | str] = field(default_factory=dict)
    """Other columns by name, each a number or a text."""
    hidden: bool = False
    """Whether the item is never recommended."""
    updated: float = 0.0
    """The seconds since 1970 of the last change, set by the store."""


@dataclass(frozen=True, slots=True)
class Change:
    """The last change of an entry; deletion is a change too."""

    number: int
    """The number of the change; later changes have higher ones."""
    side: Side
    """Whether the entry is about an item or about a user."""
    id: str
    """The id of the item or user."""


@dataclass(frozen=True, slots=True)
class Key:
    """An API key, without its secret."""

    id: str
    """The public part of the key."""
    name: str
    """The display name."""
    role: str
    """The role of its holder: read, write or admin."""
    hash: str
    """The SHA-256 of the whole secret text, in hexadecimal digits."""
    created: float
    """The seconds since 1970 when it was created."""
    expires: float | None
    """The seconds since 1970 when it expires; None for never."""
    revoked: bool
    """Whether it was revoked."""


@dataclass(frozen=True, slots=True)
class Impression:
    """A ranked list that was shown to a user."""

    request: str
    """The id of the request."""
    time: float
    """The seconds since 1970."""
    user: str | None
    """The id of the user; None if the request named none."""
    items: tuple[str, ...]
    """The ids of the shown items, best first."""
    model: str
    """The version of the model."""
    variant: str
    """The name of the variant that the user belongs to."""
    basis: str
    """The basis of the list: model, feedback, history or popular."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Conversions of one variant: how many of its lists were followed by an event."""

    users: int
    """The number of users who were shown lists of this variant."""
    converted_users: int
    """The number of these users who followed a list."""
    requests: int
    """The number of answered requests."""
    converted_requests: int
    """The number of requests with a list that was followed."""
    impressions: int
    """The number of shown lists; a request may have several."""
    converted_impressions: int
    """The number of lists that were followed."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request that all servers of a group change to a model."""

    number: int
    """The number of the request; the latest request counts."""
    version: str
    """The version of the model."""
    name: str
    """The name of the model, by which servers find it."""
    time: float
    """The seconds since 1970 of the request."""


@dataclass(frozen=True, slots=True)
class ServerReport:
    """The last report of a server on the model that it serves or loads."""

    server: str
    """The name of the server."""
    version: str
    """The version of the model, followed by the number of the request for it."""
    state: str
    """The state of the server, such as serving, ready or refused."""
    reason: str
    """The reason for this state, in words; empty if there is none."""
    time: float
    """The seconds since 1970 of the report."""


MOST_BYTES = 256
"""The maximum size of an id in UTF-8 bytes, the same as in files of events."""
MOST_CHARACTERS = 256
"""The maximum length of a kind, a key, a category or another short text."""
MOST_LONG = 2048
"""The maximum length of a name, of the address of a picture, or of a text feature."""
MICROSECONDS = 1_000_000
"""Microseconds per second; times are stored as integers."""
_LAST_SECOND = 253_402_300_800
"""The beginning of the year 10000, the limit for times in files too."""


def checked_id(value: Any, what: str) -> str:
    """Return an id as text; raise if it is missing, too long, or neither text nor integer."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    text = checked_text(value, what, most=MOST_BYTES)
    if len(text.encode()) > MOST_BYTES:
        raise _refused(what, value, f"has more than {MOST_BYTES} bytes")
    return text


def checked_text(value: Any, what: str, *, most: int = MOST_CHARACTERS) -> str:
    """Return a text; raise if it is empty, too long, or cannot be stored in a database."""
    if not isinstance(value, str):
        raise _refused(what, value, f"has type {type(value).__name__} and must be text")
    if not value:
        raise _refused(what, value, "is empty")
    if len(value) > most:
        raise _refused(what, value, f"has more than {most:,} characters")
    if "\0" in value:
        raise _refused(what, value, "has a NUL character, which databases cannot store")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _refused(what, value, "is not valid Unicode") from None
    return value


def optional_text(value: Any, what: str, *, most: int = MOST_CHARACTERS) -> str | None:
    """Return a checked text, or None if it is missing or empty."""
    return None if value is None or value == "" else checked_text(value, what, most=most)


def searchable(value: Any) -> str:
    """Return a text to search for; an empty one, which no row has, if no store can hold it."""
    text = str(value)
    can_be_stored = "\0" not in text and text.encode(errors="ignore").decode() == text
    return text if can_be_stored else ""


def finite_number(value: Any, what: str) -> float:
    """Return a finite number; raise for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _refused(what, value, "must be a finite number")
    return float(value)


def to_microseconds(seconds: Any, what: str) -> int:
    """Return a time as microseconds since 1970; raise if it is out of range."""
    number = finite_number(seconds, what)
    if not 0 <= number < _LAST_SECOND:
        raise _refused(what, seconds, "must be in seconds since 1970, before the year 10000")
    return round(number * MICROSECONDS)


def require_at_most(values: Sized, most: int, what: str) -> None:
    """Raise if there are too many values."""
    if len(values) > most:
        raise DataError(
            f"there are {len(values):,} {what}, and {most:,} are allowed. Nothing was stored.",
            code="bad_record",
        )


def _refused(what: str, value: Any, why: str) -> DataError:
    return DataError(f"the {what} {value!r:.60} {why}. Nothing was stored.", code="bad_record")
