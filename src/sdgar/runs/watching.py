"""Pieces of work, such as trials or runs: who watches them, and how a signal ends them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from signal import Signals
from typing import TYPE_CHECKING

from sdgar.errors import StoppedError

if TYPE_CHECKING:
    from sdgar.training.records import EpochRecord, FitOptions, OnPhase, Phase

Stop = Callable[[], Signals | None]
"""A function that returns the signal that requests the end; None while there is none."""


def never() -> Signals | None:
    """Return None, as no signal requests the end."""
    return None


class Watch:
    """A watcher of pieces of work, one after the other; this one shows nothing."""

    def begin(self, what: str, loop: FitOptions | None) -> OnPhase:
        """Take note that a piece of work begins; return the function to call after each epoch.

        Without epochs there is no ``loop``.
        """
        return lambda phase, epoch: None

    def end(self, label: str, said: str) -> None:
        """Take note that a piece of work is over, now or earlier, and of its result."""


@dataclass(frozen=True, slots=True)
class Work:
    """Pieces of work that are watched, and that end after an epoch if a signal has come."""

    watch: Watch
    """The watcher of all pieces."""
    stop: Stop
    """The function that returns the signal that requests the end."""
    kept: str
    """What is not lost if a signal comes, and how to resume, as a sentence."""

    def require_going(self) -> None:
        """Raise if a signal requests the end."""
        signal = self.stop()
        if signal is not None:
            raise StoppedError(f"stopped by {signal.name}. {self.kept}", signal=signal)

    def begin(self, what: str, loop: FitOptions | None) -> OnPhase:
        """Begin a piece; return the function to call after each epoch, which may raise."""
        watched = self.watch.begin(what, loop)

        def on_epoch(phase: Phase, epoch: EpochRecord) -> None:
            watched(phase, epoch)
            self.require_going()

        return on_epoch

    def end(self, label: str, said: str) -> None:
        """End a piece, or take note that it was over before."""
        self.watch.end(label, said)
