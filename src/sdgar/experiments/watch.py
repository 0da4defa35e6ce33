"""Who looks on while many models are trained, and how they are stopped between two epochs."""

from __future__ import annotations

from collections.abc import Callable
from signal import Signals
from typing import Protocol

from sdgar.errors import StoppedError
from sdgar.training.fit import EpochRecord, FitOptions
from sdgar.training.protocols import OnPhase, Phase

Stop = Callable[[], Signals | None]
"""The signal that has come and asks for an end, if one has."""


class Watch(Protocol):
    """Hears of one piece of work after the other: a trial of a search, a run of a comparison."""

    def begin(self, what: str, loop: FitOptions) -> OnPhase:
        """A piece begins, with such epochs; returns who wants to hear of them."""
        ...

    def end(self, label: str, said: str) -> None:
        """A piece is over, or was over before an interruption; and what came of it."""
        ...


class Unwatched:
    """Nobody looks on."""

    def begin(self, what: str, loop: FitOptions) -> OnPhase:
        """Nobody hears."""
        return lambda phase, epoch: None

    def end(self, label: str, said: str) -> None:
        """Nobody hears."""


def at_once(epochs: int = 1) -> FitOptions:
    """The loop of a piece that runs all its epochs, or has none."""
    return FitOptions(epochs=epochs, early_stopping=False)


def never() -> Signals | None:
    """No signal comes."""
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
