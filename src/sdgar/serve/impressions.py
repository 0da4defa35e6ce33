"""What was shown to whom, by which model: the log that comparisons of variants are made from.

Impressions are written by a thread a moment later, many at once. They are a log and no promise: a
server that is killed loses those of the last second, and one whose store is too slow drops them
and counts how many.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sdgar.serve.store import Database, Impression

_MOST_WAITING = 10_000


class Impressions:
    """Impressions on their way to the store."""

    def __init__(self, database: Database | None, *, on: bool = True) -> None:
        self._database = database if on else None
        self._waiting: deque[Impression] = deque()
        self.dropped = 0

    def shown(self, request: str, lists: Sequence[Mapping[str, Any]]) -> None:
        """Remember what a request was answered with."""
        if self._database is None:
            return
        from sdgar.serve.store import Impression

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
        """Write what waits; called by a thread every second."""
        if self._database is None or not self._waiting:
            return
        batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
        self._database.add_impressions(batch)
