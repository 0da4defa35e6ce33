"""What a store holds, as records; ids are text, an integer in its plain spelling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Side = Literal["item", "user"]
"""Whether an entry is about an item or about a user."""
SIDES: tuple[Side, Side] = ("item", "user")
ROLES = ("read", "write", "admin")
"""The roles of keys; each may do what those before it may."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a user did with an item."""

    user: str
    """The id of the user."""
    item: str
    """The id of the item."""
    kind: str = "event"
    """The kind of the event, such as view, buy or dislike."""
    time: float | None = None
    """The seconds since 1970; None stands for the time of arrival."""
    weight: float | None = None
    """The weight of the event; None if it has none."""
    key: str | None = None
    """The key by which an event that is sent again is known; None if it has none."""
    request: str | None = None
    """The id of the request whose answer led to the event; None if it is not known."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An event as the store has it."""

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
    """The key by which it is known when it is sent again."""
    request: str | None
    """The id of the request whose answer led to it."""
    received: float
    """The seconds since 1970 when it was stored."""


@dataclass(frozen=True, slots=True)
class Added:
    """What became of events that were given to the store."""

    accepted: int
    """The number of events that were stored."""
    repeated: int
    """The number of events whose key was known already, which were not stored again."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What people know of an item or of a user."""

    id: str
    """The id of the item or user."""
    name: str | None = None
    """The name for people."""
    picture: str | None = None
    """The address of a picture."""
    categories: tuple[str, ...] = ()
    """The categories, in the order given."""
    features: Mapping[str, float | str] = field(default_factory=dict)
    """More facts by name, each a number or a text."""
    hidden: bool = False
    """Whether it is kept out of all lists."""
    updated: float = 0.0
    """The seconds since 1970 of the last change, which the store sets."""


@dataclass(frozen=True, slots=True)
class Change:
    """The last change of an entry, which may be that it was deleted."""

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
    """The public part of the key, which names it."""
    name: str
    """The name for people."""
    role: str
    """The role of its holder: read, write or admin."""
    hash: str
    """The SHA-256 of the whole secret text, in hexadecimal digits."""
    created: float
    """The seconds since 1970 when it was made."""
    expires: float | None
    """The seconds since 1970 when it ends; None if it never does."""
    revoked: bool
    """Whether it was taken back."""


@dataclass(frozen=True, slots=True)
class Impression:
    """A list that was shown."""

    request: str
    """The id of the request that it answered."""
    time: float
    """The seconds since 1970."""
    user: str | None
    """The id of the user; None if the request named none."""
    items: tuple[str, ...]
    """The ids of the items that were shown, best first."""
    model: str
    """The version of the model."""
    variant: str
    """The name of the variant that the user belongs to."""
    basis: str
    """What the list was made from: model, feedback, history or popular."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How often a variant's lists were followed by an event."""

    users: int
    """The number of users who were shown lists of this variant."""
    converted_users: int
    """The number of those who followed one."""
    requests: int
    """The number of requests that it answered."""
    converted_requests: int
    """The number of requests with a list that was followed."""
    impressions: int
    """The number of lists; a request may ask for several."""
    converted_impressions: int
    """The number of lists that were followed."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The model that all servers should serve."""

    number: int
    """The number of the wish; a later one counts."""
    version: str
    """The version of the model."""
    name: str
    """The name of the model, as servers find it."""
    time: float
    """The seconds since 1970 when it was wished for."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a server says of the model that it serves."""

    server: str
    """The name of the server."""
    version: str
    """The version of the model, followed by the number of the wish for it."""
    state: str
    """The state that it is in, such as serving, loading or refused."""
    reason: str
    """The reason for that state, in words; empty if there is none."""
    time: float
    """The seconds since 1970 of the report."""
