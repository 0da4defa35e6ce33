"""Progress callbacks for commands that train many models, and how a signal stops them."""

from __future__ import annotations

from collections.abc import Callable
from signal import Signals
from typing import Protocol

from sdgar.errors import StoppedError
from sdgar.training.fit import EpochRecord, FitOptions
from sdgar.training.trained import OnPhase, Phase

Stop = Callable[[], Signals | None]
"""A function that returns the signal that asks for an end; None while there is none."""


class Watch(Protocol):
    """A watcher is told of one piece of work after the other, such as a trial or a run."""

    def begin(self, what: str, loop: FitOptions) -> OnPhase:
        """Take note that a piece of work begins; return the function to call after each epoch."""
        ...

    def end(self, label: str, said: str) -> None:
        """Take note that a piece of work is over, now or earlier, and of its result."""
        ...


class Unwatched:
    """A watcher that shows nothing."""

    def begin(self, what: str, loop: FitOptions) -> OnPhase:
        """Return a function that does nothing."""
        return lambda phase, epoch: None

    def end(self, label: str, said: str) -> None:
        """Show nothing of the end."""


def at_once(epochs: int = 1) -> FitOptions:
    """Return the loop of a piece of work that runs all its epochs, or has none."""
    return FitOptions(epochs=epochs, early_stopping=False)


def never() -> Signals | None:
    """Return None, as no signal asks for an end."""
    return None


def require_going(stop: Stop, kept: str) -> None:
    """Raise if a signal asks for an end; ``kept`` says what is not lost and how to go on."""
    signal = stop()
    if signal is not None:
        raise StoppedError(f"stopped by {signal.name}. {kept}", signal=signal)


def stoppable(hear: OnPhase, stop: Stop, kept: str) -> OnPhase:
    """Pass every epoch on, then let a signal that has come end the training."""

    def on_epoch(phase: Phase, epoch: EpochRecord) -> None:
        hear(phase, epoch)
        require_going(stop, kept)

    return on_epoch
