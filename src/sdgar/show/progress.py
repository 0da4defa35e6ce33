"""Tell what a call does while it works: by a bar on a screen, else by plain lines.

Every line goes to the logger ``sdgar`` at the level INFO. Who has set logging up to show that level
reads it there; everyone else sees it on stderr, until it is turned off by ``verbose=False``, by
``sdgar.set_verbose(False)`` or by the environment variable SDGAR_VERBOSE=0. Child processes tell
nothing unless they are asked, and the command line has a screen of its own.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sdgar.errors import UsageError
from sdgar.show.printed import visible

if TYPE_CHECKING:
    from sdgar.training.fit import EpochRecord
    from sdgar.training.trained import OnPhase, Phase

_LOGGER = logging.getLogger("sdgar")
_VARIABLE = "SDGAR_VERBOSE"
_SECONDS = 5.0
"""The seconds between two plain lines."""
_NOTEBOOK_SECONDS = 0.2
"""The seconds between two changes of the line in a notebook."""
_BAR = 24
"""The number of characters of the bar in a notebook."""

Show = Callable[[str, int, int], None]
"""A function that shows a text, the epochs or parts that are done, and their number in all."""


class _Setting:
    """The setting for calls that do not say themselves whether they tell what they do."""

    def __init__(self) -> None:
        self.on: bool | None = None
        """True or False once it is set; None leaves it to the environment."""


_setting = _Setting()


def set_verbose(on: bool) -> None:
    """Set whether reading and fitting tell what they do, for calls that do not say it themselves.

    >>> sdgar.set_verbose(False)
    >>> model = sdgar.MostPopular().fit(sdgar.synthetic("demo"))  # says nothing
    """
    if not isinstance(on, bool):
        raise UsageError(f"verbose must be True or False, got {on!r}.", code="bad_setting")
    _setting.on = on


@contextmanager
def silenced() -> Iterator[None]:
    """Tell nothing within this block, as something else speaks to the user."""
    before, _setting.on = _setting.on, False
    try:
        yield
    finally:
        _setting.on = before


def is_verbose(asked: bool | None) -> bool:
    """Tell whether a call says what it does: as asked, as set, or else not in child processes."""
    if asked is not None:
        return bool(asked)
    if _setting.on is not None:
        return _setting.on
    import multiprocessing  # here, as commands that only show help need none of it

    return _environment() and multiprocessing.current_process().name == "MainProcess"


def _environment() -> bool:
    text = os.environ.get(_VARIABLE, "").strip().lower()
    if text in ("0", "false", "no", "off"):
        return False
    if text in ("", "1", "true", "yes", "on"):
        return True
    raise UsageError(
        f"the environment variable {_VARIABLE} must be 0 or 1, got {text!r}.", code="bad_setting"
    )


def tell(text: str, *, verbose: bool | None = None) -> None:
    """Write a line to the logger, and to stderr if the logger shows nothing."""
    _LOGGER.info("%s", text)
    if _is_shown(verbose) and sys.stderr is not None:
        sys.stderr.write(f"sdgar: {visible(text)}\n")
        sys.stderr.flush()


def _is_shown(verbose: bool | None) -> bool:
    heard = _LOGGER.isEnabledFor(logging.INFO) and _LOGGER.hasHandlers()
    return is_verbose(verbose) and not heard


@contextmanager
def training(
    what: str,
    rows: str,
    epochs: int,
    *,
    metric: str,
    verbose: bool | None,
    on_epoch: OnPhase | None = None,
) -> Iterator[OnPhase]:
    """Tell of a training while it lasts; the caller passes every epoch to what this yields."""
    tell(f"training {what} on {rows}", verbose=verbose)
    with _screen(_is_shown(verbose)) as show:
        watch = _Watch(what, epochs, metric, show, lambda text: tell(text, verbose=verbose))

        def both(phase: Phase, epoch: EpochRecord) -> None:
            watch(phase, epoch)
            if on_epoch is not None:
                on_epoch(phase, epoch)

        yield both


@contextmanager
def working(what: str, *, verbose: bool | None) -> Iterator[Show]:
    """Tell of work in steps while it lasts.

    The caller passes the name of a step, what is done of it and all of it to what this yields.
    """
    said = time.monotonic()
    with _screen(_is_shown(verbose)) as show:

        def step(name: str, done: int, total: int) -> None:
            nonlocal said
            if show is not None:
                show(f"{what}: {name}", done, total)
            elif time.monotonic() - said >= _SECONDS:
                said = time.monotonic()
                tell(f"{what}: {name}, {done / max(total, 1):.0%}", verbose=verbose)

        yield step


class _Watch:
    """A watcher that turns epochs into a bar, or into a line every few seconds."""

    def __init__(
        self, what: str, epochs: int, metric: str, show: Show | None, say: Callable[[str], None]
    ) -> None:
        self._what, self._epochs, self._metric = what, epochs, metric
        self._show, self._say = show, say
        self._best: EpochRecord | None = None
        self._complaints: set[str] = set()
        self._said = time.monotonic()

    def __call__(self, phase: Phase, epoch: EpochRecord) -> None:
        if epoch.best:
            self._best = epoch
        self._complain(epoch)
        again = phase == "final" and self._best is not None
        total = self._best.epoch if again and self._best is not None else self._epochs
        text = f"{self._what}{' on all rows' if again else ''}: epoch {epoch.epoch} of "
        text += f"{'' if again else 'at most '}{total}, loss {epoch.loss:.4f}"
        if self._best is not None and not again:
            text += f", best {self._metric} {self._best.metric:.4f} in epoch {self._best.epoch}"
        if self._show is not None:
            self._show(text, epoch.epoch, total)
        elif time.monotonic() - self._said >= _SECONDS:
            self._said = time.monotonic()
            self._say(text)

    def _complain(self, epoch: EpochRecord) -> None:
        """Warn once for each kind of problem with a generator."""
        kind = (epoch.complaint or "").partition(":")[0]
        if kind and kind not in self._complaints:
            self._complaints.add(kind)
            self._say(str(epoch.complaint))


@contextmanager
def _screen(shown: bool) -> Iterator[Show | None]:
    """Yield a bar for a notebook or a terminal; None where there is neither."""
    if not shown or sys.stderr is None:
        yield None
        return
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_jupyter:
        yield _notebook_line()
    elif console.is_terminal:
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


def _notebook_line() -> Show:
    """Yield a line of a notebook that changes in its place, with IPython alone."""
    from IPython.display import display

    handle = display({"text/plain": "…"}, raw=True, display_id=True)
    last = 0.0

    def show(text: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if handle is None or (now - last < _NOTEBOOK_SECONDS and done < total):
            return
        last = now
        full = _BAR * done // max(total, 1)
        bar = "█" * full + "░" * (_BAR - full)
        handle.update({"text/plain": f"{bar} {text}"}, raw=True)

    return show
