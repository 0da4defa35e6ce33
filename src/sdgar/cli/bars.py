"""The bars that move on the screen while models are trained, and a line for every look."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sdgar.cli.console import Screen

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from sdgar.runs.run import Watch
    from sdgar.training.fit import EpochRecord, FitOptions
    from sdgar.training.trained import OnPhase, Phase

_EVERY = 5.0
"""The seconds between two lines about work that goes on, where no bar can be drawn."""


@contextmanager
def training(
    screen: Screen, loop: FitOptions | None, *, verbose: bool = False
) -> Iterator[OnPhase]:
    """Draw a bar for the epochs, and print a line for every look at the held-out rows.

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
    """Guess where a run will end, as if no later look were better than the best one so far."""

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
        """Tell whether the number of epochs is chosen; then all rows are trained on."""
        if self._loop.keep_last:
            return epoch.epoch == self._loop.half and self._loop.early_stopping
        tired = self._stale >= self._loop.patience
        return (tired or epoch.epoch >= self._loop.epochs) and self._loop.early_stopping


class _Lines:
    """Prints a plain line every few seconds, where no bar can be drawn."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._last = time.monotonic()

    def go_on(self, text: str) -> None:
        """Say how far the work is, unless something was said just before."""
        if not self._screen.console.is_terminal and time.monotonic() - self._last >= _EVERY:
            self._screen.say("", text)
            self.said()

    def said(self) -> None:
        """Note that something was said just now."""
        self._last = time.monotonic()


class _Pieces:
    """Shows one piece of work after the other; it is a ``Watch``."""

    def __init__(self, screen: Screen, bar: Progress, pieces: int) -> None:
        self._screen = screen
        self._bar = bar
        self._all = bar.add_task("all", total=pieces, unit="pieces")
        self._one: TaskID | None = None
        self._lines = _Lines(screen)

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
            self._lines.go_on(f"{said}: {_how_far(epoch, last, certain=again)}")

        return on_epoch

    def end(self, label: str, said: str) -> None:
        """Print a line instead of the bar."""
        if self._one is not None:
            self._bar.remove_task(self._one)
            self._one = None
        self._bar.advance(self._all)
        self._screen.say(label, said)
        self._lines.said()


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
        self._lines = _Lines(screen)
        self._train = 0.0
        self._complaints: set[str] = set()

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
        kind = (epoch.complaint or "").partition(":")[0]
        if kind and kind not in self._complaints:
            # Once a run: the line of every look shows the same numbers.
            self._complaints.add(kind)
            self._screen.warn(str(epoch.complaint))
        if epoch.metric is None:
            self._lines.go_on(f"{what}: {_how_far(epoch, last, certain=self._again)}")
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
                said, best = "going on with all training rows", ""
            self._bar.update(self._task, total=None, description=said, unit="")
            self._screen.say("", best + said)
        self._lines.said()


def _heading(metric: str) -> str:
    """Return the heads of the columns of an epoch."""
    return f"{'epoch':>8}{'loss':>10}{metric:>{_wide(metric)}}{'':8}{'train':>9}{'evaluate':>10}"


def _wide(metric: str) -> int:
    return max(10, len(metric) + 2)


def _how_far(epoch: EpochRecord, last: int, *, certain: bool) -> str:
    about = "" if certain else "about "
    return f"epoch {epoch.epoch} of {about}{last} · loss {epoch.loss:.4f}"


def _generator(epoch: EpochRecord) -> str:
    """Say how the generator is, behind the line of an epoch."""
    said = "" if epoch.effective is None else f"   ess {epoch.effective:.2f}"
    return said + (f" · {epoch.health_line}" if epoch.health_line else "")
