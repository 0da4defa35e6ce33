"""SIGTERM and SIGINT while a command trains: first a request to stop, then an order."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self


class HeldBack:
    """Note the first signal for the run to see between two epochs; a second one exits at once.

    The handlers that were there before are back when the block ends.
    """

    def __init__(self) -> None:
        self._first: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __call__(self) -> signal.Signals | None:
        """Return the signal that has come, if one has."""
        return self._first

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self._first is not None:
            raise SystemExit(128 + number)
        self._first = signal.Signals(number)
        # Not through the console: the handler may have interrupted it in the middle of a line.
        with suppress(OSError):  # nobody may be there to hear it
            os.write(2, b"\nstopping after this epoch; once more stops at once\n")
