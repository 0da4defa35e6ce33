"""The output streams of a command, which survive a reader that leaves and missing letters."""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import Any, TextIO

from sdgar.errors import ResourceError

_ALIKE = {
    "·": "-", "…": "...", "–": "-", "±": "+-", "×": "x", "→": "->", "≥": ">=", "≤": "<=",
    "─": "-", "│": "|", "╭": "+", "╮": "+", "╰": "+", "╯": "+", "━": "-", "╸": "-", "╺": "-",
}  # fmt: skip
"""What stands for signs of ours where a stream cannot show them."""


def _nearest(error: UnicodeError) -> tuple[str, int]:
    """A sign like the one that cannot be shown, or its number."""
    assert isinstance(error, UnicodeEncodeError)
    missing = error.object[error.start : error.end]
    said = [_ALIKE.get(c) or c.encode("ascii", "backslashreplace").decode() for c in missing]
    return "".join(said), error.end


codecs.register_error("sdgar-nearest", _nearest)


class _Pipe(io.FileIO):
    """A descriptor to write to.

    When the reader has left, the work goes on and its words are lost. Where something else is
    wrong, such as a full disk, ``strict`` says so, once.
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
                    raise ResourceError(
                        f"standard output cannot be written: {error.strerror}. Free some space, or "
                        "write to another place.",
                        code="disk_full",
                    ) from error
        return memoryview(data).nbytes


def prepare() -> None:
    """Make standard output and error of this process safe to write to, whatever they are.

    Streams that somebody has put in their place, as tests do, are left as they are.
    """
    if sys.stdout is None or sys.stdout is sys.__stdout__:
        sys.stdout = _stream(sys.stdout, strict=True)
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        sys.stderr = _stream(sys.stderr, strict=False)


def _stream(now: TextIO | None, *, strict: bool) -> io.TextIOWrapper:
    if now is None:  # the descriptor is closed: nobody wants to hear
        return io.TextIOWrapper(io.BufferedWriter(io.FileIO(os.devnull, "wb")), encoding="utf-8")
    pipe = _Pipe(now.fileno(), strict=strict)
    return io.TextIOWrapper(
        io.BufferedWriter(pipe),
        encoding=now.encoding,
        errors="sdgar-nearest",
        line_buffering=not strict or pipe.isatty(),
    )
