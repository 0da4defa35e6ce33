"""The process of a command: its streams, its exit code, and Ctrl-C.

Exit codes: 0 done, 1 a bug, 2 usage, 3 data, 4 saved model, 5 disk, RAM, device or network, 6 NaN
or infinity, 7 the new model was rejected and the old one kept, 130 interrupted, 143 terminated.
"""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, TextIO

_ALLOCATIONS = 20_000
"""The garbage collector's first threshold: imports create many objects and no garbage, and with
Python's default collection takes a tenth of their time."""
_IMPORT = "<frozen importlib._bootstrap>"
"""The name of the code that imports modules, as frames have it."""

Handler = Callable[[int, FrameType | None], None]


def run_process(on_interrupt: Handler) -> None:
    """Run the command line, and end the process as soon as it is done.

    Python would first destroy all modules, which takes a second for torch's. atexit runs functions
    in reverse order: ``_end`` is last, after threads. ``on_interrupt`` handled Ctrl-C until here.
    """
    found: list[int] = []
    atexit.register(_end, found)
    try:
        run(on_interrupt)
    except SystemExit as end:
        if isinstance(end.code, int):
            found.append(end.code)
        raise


def _end(found: list[int]) -> None:
    """End the process with the exit code that was found; without one, let Python end it."""
    if found:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # what could not be written was reported before
                stream.flush()
        os._exit(found[0])


def run(on_interrupt: Handler | None = None) -> None:
    """Run the command line, and exit with its code."""
    gc.set_threshold(_ALLOCATIONS)
    interrupts = _Interrupts(on_interrupt)
    try:
        prepare_streams()
        from sdgar.cli.app import answer

        code = answer(lambda: interrupts.interrupted)
    except BaseException as error:
        # After Ctrl-C any exception can come out of the interrupted code.
        if isinstance(error, SystemExit) or not interrupts.interrupted:
            raise
        code = 130
    finally:
        interrupts.restore()
    if interrupts.interrupted and code == 130:
        sys.stderr.write("interrupted\n")
    sys.exit(code)


class _Interrupts:
    """Turns Ctrl-C into KeyboardInterrupt, and remembers it.

    During an import Ctrl-C ends the process at once, by ``on_interrupt``: a KeyboardInterrupt
    raised within code in C could abort Python.
    """

    def __init__(self, on_interrupt: Handler | None) -> None:
        self.interrupted = False
        self._on_interrupt = on_interrupt
        self._handler = signal.getsignal(signal.SIGINT)
        if self._handler in (signal.default_int_handler, on_interrupt):
            signal.signal(signal.SIGINT, self._on_sigint)

    def restore(self) -> None:
        """Restore the handler that was there before."""
        if signal.getsignal(signal.SIGINT) == self._on_sigint:
            signal.signal(signal.SIGINT, self._handler)

    def _on_sigint(self, number: int, frame: FrameType | None) -> None:
        self.interrupted = True
        if self._on_interrupt is not None and _is_importing(frame):
            self._on_interrupt(number, frame)
        raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a frame is part of an import."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT:
            return True
        frame = frame.f_back
    return False


class _OutputDescriptor(io.FileIO):
    """A descriptor to write to.

    If the reader closes the pipe, the work continues and further output is discarded. Any other
    fault, such as a full disk, is raised once if ``strict``.
    """

    def __init__(self, descriptor: int, *, strict: bool) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._strict = strict
        self._lost = False

    def write(self, data: Any, /) -> int:
        if not self._lost:
            try:
                return super().write(data) or 0
            except BrokenPipeError:
                self._lost = True
            except OSError as error:
                self._lost = True
                if self._strict:
                    from sdgar.errors import ResourceError

                    full = error.errno == errno.ENOSPC
                    advice = "Free some space" if full else "Check where the output goes"
                    raise ResourceError(
                        f"standard output cannot be written: {error.strerror}. {advice}.",
                        code="disk_full",
                    ) from error
        return memoryview(data).nbytes


def prepare_streams() -> None:
    """Make standard output and error of this process safe to write to, whatever they are.

    Streams that were replaced before, as tests do, stay as they are.
    """
    if sys.stdout is None or sys.stdout is sys.__stdout__:
        sys.stdout = _stream(sys.stdout, strict=True)
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        sys.stderr = _stream(sys.stderr, strict=False)


def _stream(now: TextIO | None, *, strict: bool) -> io.TextIOWrapper:
    if now is None:  # the descriptor is closed
        return io.TextIOWrapper(io.BufferedWriter(io.FileIO(os.devnull, "wb")), encoding="utf-8")
    output = _OutputDescriptor(now.fileno(), strict=strict)
    return io.TextIOWrapper(
        io.BufferedWriter(output),
        encoding=now.encoding,
        errors="backslashreplace",
        line_buffering=not strict or output.isatty(),
    )
