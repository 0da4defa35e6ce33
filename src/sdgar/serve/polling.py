"""What a server does beside answering: it follows the store and looks for new models."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread

log = logging.getLogger("sdgar.serve")


@dataclass
class Chore:
    """Something that is done again and again."""

    name: str
    """The name by which failures are told."""
    every: float
    """The seconds from one time to the next."""
    do: Callable[[], None]
    """The function that does it."""
    due: float = 0.0
    """The time at which it is done next, by a clock that never goes back."""
    failed: str | None = None
    """Why it failed the last time; None if it did not."""


class Chores:
    """A thread that does what is due; one that fails is told of, and tried again."""

    def __init__(self, chores: list[Chore]) -> None:
        self._chores = chores
        self._over = Event()
        self._thread = Thread(target=self._run, name="sdgar-chores", daemon=True)

    def start(self) -> None:
        """Begin to do what is due."""
        self._thread.start()

    def stop(self) -> None:
        """Do everything a last time, and end."""
        self._over.set()
        self._thread.join(timeout=10)
        for chore in self._chores:
            self._do(chore)

    def failures(self) -> dict[str, str]:
        """Return what fails now, and why."""
        return {chore.name: chore.failed for chore in self._chores if chore.failed is not None}

    def _run(self) -> None:
        while not self._over.is_set():
            now = time.monotonic()
            for chore in self._chores:
                if chore.due <= now and not self._over.is_set():
                    self._do(chore)
                    chore.due = time.monotonic() + chore.every
            wait = min(chore.due for chore in self._chores) - time.monotonic()
            self._over.wait(max(0.01, wait))

    def _do(self, chore: Chore) -> None:
        try:
            chore.do()
        except Exception as error:
            if chore.failed is None:
                log.warning("%s fails: %s", chore.name, error)
            chore.failed = str(error)
        else:
            if chore.failed is not None:
                log.info("%s works again", chore.name)
            chore.failed = None
