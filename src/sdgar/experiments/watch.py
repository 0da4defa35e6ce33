"""Progress callbacks for commands that train many models, and how a signal stops them."""

from __future__ import annotations

from collections.abc import Callable
from signal import Signals
from typing import Protocol

from sdgar.errors import StoppedError
from sdgar.training.fit import EpochRecord, FitOptions
from sdgar.training.protocols import OnPhase, Phase

Stop = Callable[[], Signals | None]
"""A function that returns the signal that asks for an end; None while there is none."""


class Watch(Protocol):
    """Is told of one piece of work after the other: a trial of a search, a run of a comparison."""

    def begin(self, what: str, loop: FitOptions) -> OnPhase:
        """Hear that a piece of work begins; return the function to call after each epoch."""
        ...

    def end(self, label: str, said: str) -> None:
        """Hear that a piece of work is over, now or before an interruption, and what came of it."""
        ...


class Unwatched:
    """A watch that shows nothing."""

    def begin(self, what: str, loop: FitOptions) -> OnPhase:
        """Return a function that does nothing."""
        return lambda phase, epoch: None

    def end(self, label: str, said: str) -> None:
        """Do nothing."""


def at_once(epochs: int = 1) -> FitOptions:
    """Return the loop of a piece of work that runs all its epochs, or has none."""
    return FitOptions(epochs=epochs, early_stopping=False)


def never() -> Signals | None:
    """Return None: no signal asks for an end."""
    return None


def require_going(stop: Stop, kept: str) -> None:
    """Raise if a signal asks for an end; ``kept`` says what is not lost and how to go on."""
    signal = stop()
    if signal is not None:
        raise StoppedError(f"stopped by {signal.name}. {kept}", signal=signal)


def stoppable(hear: OnPhase, stop: Stop, kept: str) -> OnPhase:
    """Tell of every epoch, then let a signal that has come end the training."""

    def on_epoch(phase: Phase, epoch: EpochRecord) -> None:
        hear(phase, epoch)
        require_going(stop, kept)

    return on_epoch
