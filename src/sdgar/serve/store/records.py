"""The records of a store; ids are text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent(Event):
    """An event in the store, which has a time."""

    number: int
    """The number of the event; later events have higher ones."""
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
    revoked: bool = False
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
    group: str = ""
    """The name of the group of servers."""


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
