"""The entry of the command ``sdgar``: it imports nothing heavy, so that Ctrl-C is heard at once.

Exit codes: 0 done, 1 a bug, 2 usage, 3 data, 4 saved model, 5 disk, memory, device or
network, 6 numbers that are not finite, 7 a model that is not replaced, 130 interrupted, 143 told
to end.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

_ALLOCATIONS = 20_000
"""The objects after which garbage is searched for. Imports leave none, and make so many objects
that Python's own 700 would cost a tenth of their time."""


def command() -> None:
    """Be the process of a command: run the command line, and end at once when it is done.

    Python would first take all modules apart, which takes a second for those of torch.
    """
    try:
        run()
    except SystemExit as end:
        if isinstance(end.code, int):
            _leave(end.code)
        raise


def _leave(code: int) -> None:
    """Do what Python does at the end of a process, but for taking it apart."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # what could not be written was told before
            stream.flush()
    os._exit(code)


def run() -> None:
    """Run the command line, and exit with its code."""
    gc.set_threshold(_ALLOCATIONS)
    interrupts = _Interrupts()
    try:
        from sdgar.cli.streams import prepare

        prepare()
        from sdgar.cli.app import answer

        code = answer(lambda: interrupts.came)
    except BaseException as error:
        # What is interrupted in the middle of an import may end in any exception.
        if isinstance(error, SystemExit) or not interrupts.came:
            raise
        code = 130
    finally:
        interrupts.forget()
    if interrupts.came and code == 130:
        sys.stderr.write("interrupted\n")
    sys.exit(code)


class _Interrupts:
    """Remembers that Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.came = False
        self._handler = signal.getsignal(signal.SIGINT)
        self._hook = sys.unraisablehook
        if self._handler is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._take)
            sys.unraisablehook = self._again

    def forget(self) -> None:
        """Put back what was there."""
        sys.unraisablehook = self._hook
        if signal.getsignal(signal.SIGINT) == self._take:
            signal.signal(signal.SIGINT, self._handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        raise KeyboardInterrupt

    def _again(self, unraisable: Any) -> None:
        """Interrupt once more where the first was lost, in a callback that cannot raise."""
        if self.came and unraisable.exc_type is KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)
        else:
            self._hook(unraisable)
