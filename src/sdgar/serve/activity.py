"""The activity of users: their events since training, and the log of lists that they were shown.

Every server reads the events that any server stored, in the order of their numbers, so that all
servers know the same events a moment later. A server uses its own events at once.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from sdgar.data.feedback import is_negative_kind
from sdgar.serve.store import Database, Event, Impression

_MOST_USERS = 1_000_000
"""The number of users in memory. The least recently active ones are dropped first, and are read
from the store when they are queried."""
_MOST_ITEMS = 1_000
"""The number of a user's newest events that count."""
_MOST_WAITING = 10_000
"""The number of impressions that may wait for the store."""


@dataclass(frozen=True, slots=True)
class RecentFeedback:
    """The positive and negative items of a user since training, oldest first."""

    liked: tuple[str, ...] = ()
    """The items with a positive event last."""
    disliked: tuple[str, ...] = ()
    """The items with a negative event last."""

    def after(self, events: Iterable[Event]) -> RecentFeedback:
        """Return the feedback after these events; the newest event on an item counts."""
        liked, disliked = dict.fromkeys(self.liked), dict.fromkeys(self.disliked)
        for event in events:
            for items in (liked, disliked):
                items.pop(event.item, None)
            (disliked if is_negative(event) else liked)[event.item] = None
        return RecentFeedback(tuple(liked)[-_MOST_ITEMS:], tuple(disliked)[-_MOST_ITEMS:])


def is_negative(event: Event) -> bool:
    """Return whether an event is negative, by its kind or by a weight below 0."""
    return is_negative_kind(event.kind) or (event.weight is not None and event.weight < 0)


class RecentEvents:
    """The newest events of users, in memory within bounds."""

    def __init__(self, read: Callable[[str], Sequence[Event]]) -> None:
        self._read = read
        self._users: OrderedDict[str, RecentFeedback] = OrderedDict()
        self._dropped_some = False
        self._lock = Lock()

    def add(self, events: Sequence[Event]) -> None:
        """Add events; an event may be added more than once."""
        by_user: dict[str, list[Event]] = {}
        for event in events:
            by_user.setdefault(event.user, []).append(event)
        with self._lock:
            for user, own in by_user.items():
                self._users[user] = self._users.pop(user, RecentFeedback()).after(own)
            while len(self._users) > _MOST_USERS:
                self._users.popitem(last=False)
                self._dropped_some = True

    def of(self, user: str) -> RecentFeedback | None:
        """Return the feedback of a user, or None without events."""
        with self._lock:
            found = self._users.get(user)
        if found is None and self._dropped_some:
            events = self._read(user)
            return RecentFeedback().after(events) if events else None
        return found


class ImpressionLog:
    """Impressions on their way to the store: which lists were shown to users, by which model.

    A thread writes them a moment later, in batches. The log is best effort: a server that is
    killed loses the impressions of the last second, and one with a slow store drops and counts
    them.
    """

    def __init__(self, database: Database | None) -> None:
        self._database = database
        self._waiting: deque[Impression] = deque()
        self.dropped = 0
        """The number of impressions that were not logged."""

    def add(self, request: str, lists: Sequence[Mapping[str, Any]]) -> None:
        """Add the ranked lists that answer a request."""
        if self._database is None:
            return
        now = time.time()
        for one in lists:
            if len(self._waiting) >= _MOST_WAITING:
                self.dropped += 1
                continue
            self._waiting.append(
                Impression(
                    request=request,
                    time=now,
                    user=None if one["user"] is None else str(one["user"]),
                    items=tuple(str(entry["item"]) for entry in one["items"]),
                    model=one["model"],
                    variant=one["variant"],
                    basis=one["basis"],
                )
            )

    def flush(self) -> None:
        """Write the waiting impressions; called by a thread every second."""
        if self._database is None or not self._waiting:
            return
        batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
        self._database.add_impressions(batch)
