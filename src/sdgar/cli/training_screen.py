"""The screen of a command that trains: bars, a line for every validation, and how it stops."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from sdgar.cli.console import Screen
from sdgar.show.progress import Complaints, Lines

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from sdgar.runs.watching import Watch
    from sdgar.training.fit import EpochRecord, FitOptions
    from sdgar.training.trained import OnPhase, Phase


@contextmanager
def training(
    screen: Screen, loop: FitOptions | None, *, verbose: bool = False
) -> Iterator[OnPhase]:
    """Draw a bar for the epochs, and print a line for every validation.

    Without a loop there are no epochs, only a sign that something is computed.
    """
    if loop is None:
        with screen.bar() as bar:
            bar.add_task("computing", total=None, unit="")
            yield lambda phase, epoch: None
        return
    screen.line(_heading(loop.metric), style="bold")
    with screen.bar() as bar:
        yield _Epochs(screen, bar, loop, verbose=verbose)


@contextmanager
def work(screen: Screen, pieces: int) -> Iterator[Watch]:
    """Draw a bar for many trials or runs and one for the epochs of each; end each with a line."""
    with screen.bar() as bar:
        yield _Pieces(screen, bar, pieces)


class End:
    """Guesses the last epoch of a run, as if no later validation were better than the best."""

    def __init__(self, loop: FitOptions) -> None:
        self._loop = loop
        self.best = 0
        self._stale = 0

    def after(self, epoch: EpochRecord) -> int:
        """Return the epoch that is likely the last one."""
        loop = self._loop
        if epoch.metric is not None:
            self.best = epoch.epoch if epoch.best else self.best
            self._stale = 0 if epoch.best else self._stale + 1
        if not loop.early_stopping or loop.keep_last:
            return loop.epochs
        likely = (self.best or loop.evaluate_every) + loop.patience * loop.evaluate_every
        return min(loop.epochs, max(likely, epoch.epoch))

    def reached(self, epoch: EpochRecord) -> bool:
        """Return whether the number of epochs is chosen; all rows are trained on next."""
        if self._loop.keep_last:
            return epoch.epoch == self._loop.half and self._loop.early_stopping
        tired = self._stale >= self._loop.patience
        return (tired or epoch.epoch >= self._loop.epochs) and self._loop.early_stopping


def _lines_on(screen: Screen) -> Lines:
    """Return plain lines for a screen on which no bar can be drawn."""

    def write(text: str) -> None:
        if not screen.console.is_terminal:
            screen.say("", text)

    return Lines(write)


class _Pieces:
    """Shows one piece of work after the other; it is a ``Watch``."""

    def __init__(self, screen: Screen, bar: Progress, pieces: int) -> None:
        self._screen = screen
        self._bar = bar
        self._all = bar.add_task("all", total=pieces, unit="pieces")
        self._one: TaskID | None = None
        self._lines = _lines_on(screen)

    def begin(self, what: str, loop: FitOptions) -> OnPhase:
        """Draw a bar for this piece."""
        one = self._one = self._bar.add_task(f"{what}, starting", total=None, unit="")
        end = End(loop)

        def on_epoch(phase: Phase, epoch: EpochRecord) -> None:
            again = phase != "choose" and end.best > 0
            said = f"{what}, on all training rows" if again else what
            last = end.best if again else end.after(epoch)
            self._bar.update(
                one, completed=epoch.epoch, total=last, description=said, unit="epochs"
            )
            self._lines.still(f"{said}: {_how_far(epoch, last, certain=again)}")

        return on_epoch

    def end(self, label: str, said: str) -> None:
        """Print a line instead of the bar."""
        if self._one is not None:
            self._bar.remove_task(self._one)
            self._one = None
        self._bar.advance(self._all)
        self._screen.say(label, said)
        self._lines.written()


_PASSES = {
    "choose": "training",
    "final": "training on all training rows",
    "all": "training on all rows",
}


class _Epochs:
    """Is called after each epoch, and sums the seconds between two lines."""

    def __init__(self, screen: Screen, bar: Progress, loop: FitOptions, *, verbose: bool) -> None:
        self._screen = screen
        self._bar = bar
        self._loop = loop
        self._verbose = verbose
        self._task = bar.add_task("starting", total=None, unit="")
        self._end = End(loop)
        self._again = False
        self._measured = False
        self._lines = _lines_on(screen)
        self._train = 0.0
        self._complaints = Complaints(screen.warn)

    def __call__(self, phase: Phase, epoch: EpochRecord) -> None:
        if phase == "all" and not self._measured:
            self._measured = True
            self._screen.say("", "measured; training as long on all rows, to be saved")
        fixed = self._again and not self._loop.keep_last
        last = self._end.best if fixed else self._end.after(epoch)
        what = _PASSES[phase] if self._again else "training"
        self._bar.update(
            self._task,
            completed=epoch.epoch,
            total=last,
            description=what,
            unit=f"epochs · loss {epoch.loss:.4f}",
        )
        self._train += epoch.train_seconds + epoch.refit_seconds
        self._complaints.of(epoch)
        if epoch.metric is None:
            self._lines.still(f"{what}: {_how_far(epoch, last, certain=self._again)}")
            return
        mark = "best" if epoch.best and not self._loop.keep_last else ""
        health = _generator(epoch) if self._verbose else ""
        self._screen.line(
            f"{epoch.epoch:>8}{epoch.loss:>10.4f}{epoch.metric:>{_wide(self._loop.metric)}.4f}"
            f"{mark:>8}{self._train:>7.1f} s{epoch.evaluate_seconds:>8.1f} s{health}"
        )
        self._train = 0.0
        if self._end.reached(epoch):
            self._again = True
            said = "training as long on all training rows"
            best = f"the best epoch is {self._end.best}; "
            if self._loop.keep_last:
                said, best = "continuing with all training rows", ""
            self._bar.update(self._task, total=None, description=said, unit="")
            self._screen.say("", best + said)
        self._lines.written()


def _heading(metric: str) -> str:
    """Return the heads of the columns of an epoch."""
    return f"{'epoch':>8}{'loss':>10}{metric:>{_wide(metric)}}{'':8}{'train':>9}{'evaluate':>10}"


def _wide(metric: str) -> int:
    return max(10, len(metric) + 2)


def _how_far(epoch: EpochRecord, last: int, *, certain: bool) -> str:
    about = "" if certain else "about "
    return f"epoch {epoch.epoch} of {about}{last} · loss {epoch.loss:.4f}"


def _generator(epoch: EpochRecord) -> str:
    """Return the diagnostics of the sampler, which follow the line of an epoch."""
    said = "" if epoch.effective is None else f"   ess {epoch.effective:.2f}"
    return said + (f" · {epoch.health_line}" if epoch.health_line else "")


class StopRequest:
    """SIGTERM or Ctrl-C: the first one stops after the current epoch, a second one exits at once.

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
        with suppress(OSError):  # the terminal may be closed
            os.write(2, b"\nstopping after this epoch; once more stops at once\n")
