"""What users did since the model was made, followed from the store of events.

Every server reads the events that any server stored, in the order of their numbers, so that all
know the same a moment later; its own events it knows at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from sdgar.data.kinds import is_against

_MOST_USERS = 1_000_000
"""How many users are remembered; those who did nothing for longest are forgotten first, and are
read again from the store when they are asked about."""
_MOST_ITEMS = 1_000
"""How many of the newest events of a user are looked at."""


class Happened(Protocol):
    """An event of the store."""

    @property
    def user(self) -> str:
        """The user who did it."""
        ...

    @property
    def item(self) -> str:
        """The item that it was done to."""
        ...

    @property
    def kind(self) -> str:
        """What was done."""
        ...

    @property
    def weight(self) -> float | None:
        """How much of it."""
        ...


@dataclass(frozen=True, slots=True)
class Since:
    """The items that a user liked, and those that the user disliked, oldest first."""

    liked: tuple[str, ...] = ()
    """The items that the user liked."""
    disliked: tuple[str, ...] = ()
    """The items that the user disliked."""

    def after(self, events: Iterable[Happened]) -> Since:
        """Return what holds after these events: the newest word on an item counts."""
        liked, disliked = dict.fromkeys(self.liked), dict.fromkeys(self.disliked)
        for event in events:
            for items in (liked, disliked):
                items.pop(event.item, None)
            (disliked if is_negative(event) else liked)[event.item] = None
        return Since(tuple(liked)[-_MOST_ITEMS:], tuple(disliked)[-_MOST_ITEMS:])


def is_negative(event: Happened) -> bool:
    """Tell whether an event speaks against its item: by its kind, or by a weight below 0."""
    return is_against(event.kind) or (event.weight is not None and event.weight < 0)


class Followed:
    """The newest events of users, kept in memory within bounds."""

    def __init__(
        self, read: Callable[[str], Sequence[Happened]], *, most_users: int = _MOST_USERS
    ) -> None:
        self._read, self._most = read, most_users
        self._users: OrderedDict[str, Since] = OrderedDict()
        self._forgotten = False
        self._lock = Lock()

    def take(self, events: Sequence[Happened]) -> None:
        """Learn of events, each of which may come more than once."""
        by_user: dict[str, list[Happened]] = {}
        for event in events:
            by_user.setdefault(event.user, []).append(event)
        with self._lock:
            for user, own in by_user.items():
                self._users[user] = self._users.pop(user, Since()).after(own)
            while len(self._users) > self._most:
                self._users.popitem(last=False)
                self._forgotten = True

    def of(self, user: str) -> Since | None:
        """Return what a user did; None if nothing."""
        with self._lock:
            found = self._users.get(user)
        if found is None and self._forgotten:
            events = self._read(user)
            return Since().after(events) if events else None
        return found
