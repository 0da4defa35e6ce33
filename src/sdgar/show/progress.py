"""Show the progress of a call: by a bar on a screen, else by plain lines.

Every line goes to the logger ``sdgar`` at the level INFO. If the program has set logging up to show
that level, it appears there; otherwise on stderr, unless ``verbose=False``,
``sdgar.set_verbose(False)`` or the environment variable SDGAR_VERBOSE=0 turns it off. Child
processes print nothing by default, and the command line has a screen with the parts of this module.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sdgar.errors import UsageError
from sdgar.show.printed import visible

_LOGGER = logging.getLogger("sdgar")
_VARIABLE = "SDGAR_VERBOSE"
SECONDS = 5.0
"""The seconds between two plain lines."""
_BAR = 24
"""The number of characters of the bar."""

Show = Callable[[str, int, int], None]
"""A function that shows a text, the epochs or parts that are done, and their number in all."""


OnStep = Callable[[Any, Any], None]
"""A function that is called after each epoch, with the name of the pass and the record."""

_on: bool | None = None
"""The setting for calls without ``verbose``; None leaves it to the environment."""


def set_verbose(on: bool) -> None:
    """Set whether reading and fitting show their progress, for calls without ``verbose``.

    >>> sdgar.set_verbose(False)
    >>> model = sdgar.MostPopular().fit(sdgar.synthetic("demo"))  # prints nothing
    """
    if not isinstance(on, bool):
        raise UsageError(f"verbose must be True or False, got {on!r}.", code="bad_setting")
    global _on
    _on = on


@contextmanager
def silenced() -> Iterator[None]:
    """Show nothing within this block, as the caller has its own screen."""
    global _on
    before, _on = _on, False
    try:
        yield
    finally:
        _on = before


def is_verbose(verbose: bool | None) -> bool:
    """Return whether a call shows its progress; by default child processes show none."""
    if verbose is not None:
        return bool(verbose)
    if _on is not None:
        return _on
    import multiprocessing  # here, as commands that only show help need none of it

    said = os.environ.get(_VARIABLE) or "1"
    if said not in ("0", "1"):
        raise UsageError(
            f"the environment variable {_VARIABLE} must be 0 or 1, got {said!r}.",
            code="bad_setting",
        )
    return said == "1" and multiprocessing.current_process().name == "MainProcess"


def report(text: str, *, verbose: bool | None = None) -> None:
    """Write a line to the logger, and to stderr if the logger shows nothing."""
    _LOGGER.info("%s", text)
    if _is_shown(verbose) and sys.stderr is not None:
        sys.stderr.write(f"sdgar: {visible(text)}\n")
        sys.stderr.flush()


def _is_shown(verbose: bool | None) -> bool:
    logged = _LOGGER.isEnabledFor(logging.INFO) and _LOGGER.hasHandlers()
    return is_verbose(verbose) and not logged


class Lines:
    """Plain lines about work that continues, one every few seconds."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._last = time.monotonic()

    def still(self, text: str) -> None:
        """Write how far the work is, unless a line was written just before."""
        if time.monotonic() - self._last >= SECONDS:
            self._write(text)
            self.written()

    def written(self) -> None:
        """Note that another line was written just now."""
        self._last = time.monotonic()


@contextmanager
def training(
    what: str,
    rows: str,
    epochs: int,
    *,
    metric: str,
    verbose: bool | None,
    on_epoch: OnStep | None = None,
) -> Iterator[OnStep]:
    """Show a training while it lasts; the caller passes every epoch to what this yields."""
    report(f"training {what} on {rows}", verbose=verbose)
    with _screen(_is_shown(verbose)) as show:

        def write(text: str) -> None:
            report(text, verbose=verbose)

        watch = EpochDisplay(what, epochs, metric, show=show, write=write, warn=write)

        def both(phase: str, step: Any) -> None:
            watch(phase, step)
            if on_epoch is not None:
                on_epoch(phase, step)

        yield both


@contextmanager
def working(what: str, *, verbose: bool | None) -> Iterator[Show]:
    """Show work in steps while it lasts.

    The caller passes the name of a step, what is done of it and all of it to what this yields.
    """
    lines = Lines(lambda text: report(text, verbose=verbose))
    with _screen(_is_shown(verbose)) as show:

        def step(name: str, done: int, total: int) -> None:
            if show is not None:
                show(f"{what}: {name}", done, total)
            else:
                lines.still(f"{what}: {name}, {done / max(total, 1):.0%}")

        yield step


class EpochDisplay:
    """Turns epochs into a bar, or into a line every few seconds; each kind of complaint once."""

    def __init__(
        self,
        what: str,
        epochs: int,
        metric: str,
        *,
        show: Show | None,
        write: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        self._what, self._epochs, self._metric = what, epochs, metric
        self._show, self._warn = show, warn
        self.lines = Lines(write)
        """The plain lines, if there is no bar."""
        self.best = 0
        """The epoch with the best metric; 0 before the first validation."""
        self._best_metric = 0.0
        self._complaints: set[str] = set()

    def __call__(self, phase: str, step: Any) -> None:
        """Show an epoch."""
        if step.best and step.metric is not None:
            self.best, self._best_metric = step.epoch, step.metric
        kind = (step.complaint or "").partition(":")[0]
        if kind and kind not in self._complaints:  # later ones have the same numbers
            self._complaints.add(kind)
            self._warn(str(step.complaint))
        again = phase != "choose" and self.best > 0
        certain = again and step.epoch <= self.best
        total = self.best if certain else self._epochs
        text = f"{self._what}{' on all rows' if again else ''}: epoch {step.epoch} of "
        text += f"{'' if certain else 'at most '}{total}, loss {step.loss:.4f}"
        if self.best and not again:
            text += f", best {self._metric} {self._best_metric:.4f} in epoch {self.best}"
        if self._show is not None:
            self._show(text, step.epoch, total)
        else:
            self.lines.still(text)


@contextmanager
def _screen(shown: bool) -> Iterator[Show | None]:
    """Yield a bar for a terminal; None elsewhere."""
    if not shown or sys.stderr is None:
        yield None
        return
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal and not console.is_jupyter:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(_BAR), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("", total=None)

            def show(text: str, done: int, total: int) -> None:
                from rich.markup import escape

                progress.update(task, description=escape(text), completed=done, total=total)

            yield show
    else:
        yield None
