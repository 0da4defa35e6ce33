"""Periodic tasks of a server: following the store, and looking for new models."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread

log = logging.getLogger("sdgar.serve")


@dataclass
class PeriodicTask:
    """A function that is called again and again."""

    name: str
    """The name in messages about failures."""
    every: float
    """The seconds between two calls."""
    run: Callable[[], None]
    """The function to call."""
    due: float = 0.0
    """The monotonic time of the next call."""
    error: str | None = None
    """The error of the last call, or None."""


class BackgroundTasks:
    """A thread that runs periodic tasks; a task that fails is logged and tried again."""

    def __init__(self, tasks: list[PeriodicTask]) -> None:
        self._tasks = tasks
        self._stopped = Event()
        self._thread = Thread(target=self._loop, name="sdgar-background", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and run every task a last time."""
        self._stopped.set()
        self._thread.join(timeout=10)
        for task in self._tasks:
            self._run(task)

    def failures(self) -> dict[str, str]:
        """Return the tasks that fail now, with their errors."""
        return {task.name: task.error for task in self._tasks if task.error is not None}

    def _loop(self) -> None:
        while not self._stopped.is_set():
            now = time.monotonic()
            for task in self._tasks:
                if task.due <= now and not self._stopped.is_set():
                    self._run(task)
                    task.due = time.monotonic() + task.every
            wait = min(task.due for task in self._tasks) - time.monotonic()
            self._stopped.wait(max(0.01, wait))

    def _run(self, task: PeriodicTask) -> None:
        try:
            task.run()
        except Exception as error:
            if task.error is None:
                log.warning("%s fails: %s", task.name, error)
            task.error = str(error)
        else:
            if task.error is not None:
                log.info("%s works again", task.name)
            task.error = None
