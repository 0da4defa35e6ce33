"""The screen of a command that trains: bars, a line for every validation, and how it stops."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from sdgar.cli.console import Screen
from sdgar.runs.watching import Stop, Watch
from sdgar.show.progress import EpochDisplay

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from sdgar.training.records import EpochRecord, FitOptions, OnPhase, Phase


@contextmanager
def training(
    screen: Screen, loop: FitOptions | None, *, verbose: bool = False
) -> Iterator[OnPhase]:
    """Draw a bar for the epochs, and print a line for every validation.

    Without a loop there are no epochs, only a sign that something is computed.
    """
    with screen.bar() as bar:
        if loop is None:
            bar.add_task("computing", total=None, unit="")
            yield lambda phase, epoch: None
        else:
            screen.line(_heading(loop.metric), style="bold")
            yield _Epochs(screen, bar, loop, verbose=verbose)


@contextmanager
def work(screen: Screen, pieces: int) -> Iterator[Watch]:
    """Draw a bar for many trials or runs, and end each with a line."""
    with screen.bar() as bar:
        yield _Pieces(screen, bar, bar.add_task("starting", total=pieces, unit="pieces"))


class _Pieces(Watch):
    """Shows one piece of work after the other, as commands that train many models do."""

    def __init__(self, screen: Screen, bar: Progress, task: TaskID) -> None:
        self._screen, self._bar, self._task = screen, bar, task

    def begin(self, what: str, loop: FitOptions | None) -> OnPhase:
        """Show this piece, and its epochs, next to the bar."""
        self._bar.update(self._task, description=what)
        if loop is None:
            return super().begin(what, loop)
        return _watch(self._screen, self._bar, self._task, what, loop, moves_bar=False)

    def end(self, label: str, said: str) -> None:
        """Move the bar, and print a line."""
        self._bar.advance(self._task)
        self._screen.say(label, said)


def _watch(
    screen: Screen, bar: Progress, task: TaskID, what: str, loop: FitOptions, *, moves_bar: bool
) -> EpochDisplay:
    """Return what shows epochs by a bar on a terminal, and by plain lines elsewhere."""

    def show(text: str, done: int, total: int) -> None:
        epochs: Any = {"completed": done, "total": total, "unit": "epochs"} if moves_bar else {}
        bar.update(task, description=text, **epochs)

    def write(text: str) -> None:
        screen.say("", text)

    shown = show if screen.console.is_terminal else None
    return EpochDisplay(what, loop.epochs, loop.metric, show=shown, write=write, warn=screen.warn)


class _Epochs:
    """Is called after each epoch, and sums the seconds between two lines."""

    def __init__(self, screen: Screen, bar: Progress, loop: FitOptions, *, verbose: bool) -> None:
        self._screen, self._loop, self._verbose = screen, loop, verbose
        task = bar.add_task("starting", total=None, unit="")
        self._watch = _watch(screen, bar, task, "training", loop, moves_bar=True)
        self._phase: Phase | None = None
        self._train = 0.0

    def __call__(self, phase: Phase, epoch: EpochRecord) -> None:
        if self._phase not in (None, phase):
            self._screen.say("", self._next(phase))
        self._phase = phase
        self._watch(phase, epoch)
        self._train += epoch.train_seconds + epoch.refit_seconds
        if epoch.metric is None:
            return
        mark = "best" if epoch.best and not self._loop.keep_last else ""
        self._screen.line(
            f"{epoch.epoch:>8}{epoch.loss:>10.4f}{epoch.metric:>{_wide(self._loop.metric)}.4f}"
            f"{mark:>8}{self._train:>7.1f} s{epoch.evaluate_seconds:>8.1f} s"
            + (_generator(epoch) if self._verbose else "")
        )
        self._train = 0.0
        self._watch.lines.written()

    def _next(self, phase: Phase) -> str:
        """Return what the pass that begins is for."""
        if phase == "all":
            return "measured; training as long on all rows, to be saved"
        if self._loop.keep_last:
            return "continuing with all training rows"
        return f"the best epoch is {self._watch.best}; training as long on all training rows"


def _heading(metric: str) -> str:
    """Return the heads of the columns of an epoch."""
    return f"{'epoch':>8}{'loss':>10}{metric:>{_wide(metric)}}{'':8}{'train':>9}{'evaluate':>10}"


def _wide(metric: str) -> int:
    return max(10, len(metric) + 2)


def _generator(epoch: EpochRecord) -> str:
    """Return the diagnostics of the sampler, which follow the line of an epoch."""
    said = "" if epoch.effective is None else f"   ess {epoch.effective:.2f}"
    return said + (f" · {epoch.health_line}" if epoch.health_line else "")


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Yield the function that returns SIGTERM or SIGINT once one has come; a second exits at once.

    The handlers that were there before are back when the block ends.
    """
    came: list[signal.Signals] = []

    def take(number: int, frame: FrameType | None) -> None:
        if came:
            raise SystemExit(128 + number)
        came.append(signal.Signals(number))
        # Not through the console: the handler may have interrupted it in the middle of a line.
        with suppress(OSError):  # the terminal may be closed
            os.write(2, b"\nstopping after this epoch; once more stops at once\n")

    before = {number: signal.signal(number, take) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield lambda: came[0] if came else None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
