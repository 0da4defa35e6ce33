"""A ledger of work that takes long: measure what has no line yet, append it, wait for the disk.

A ledger is a file of sealed JSON lines, one for each finished piece of work. Whoever opens it holds
it alone, reads what is finished, and adds a line for each piece that is finished now. The same
command thus goes on after an interruption; a line that was changed by hand is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Generic, Self, TypeVar

from sdgar.storage import lines
from sdgar.storage.folders import DamagedError, require_sealed, sealed

Line = dict[str, Any]
Key = TypeVar("Key", bound=Hashable)


class Ledger(Generic[Key]):
    """The lines of a file by their keys; without a path, lines are kept in memory only.

    ``key_of`` says what tells one line from another, and raises if a line does not describe a
    finished piece of work.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        format: str,
        what: str,
        key_of: Callable[[Line], Key],
        empty: bool = False,
    ) -> None:
        self.path = path
        self._format = format
        self._what = what
        self._key_of = key_of
        self._empty = empty
        self._stack = ExitStack()
        self._file: IO[bytes] | None = None
        self._lines: dict[Key, Line] = {}

    def __enter__(self) -> Self:
        """Take the file, and read what is finished."""
        if self.path is None:
            return self
        with ExitStack() as opening:
            held = lines.locked(
                self.path, mark={"format": self._format}, what=self._what, empty=self._empty
            )
            self._file = opening.enter_context(held)
            for line in lines.read(self._file, self.path):
                if line.get("format") != self._format:
                    raise DamagedError(self.path, f"a line is not of the format {self._format!r}")
                require_sealed(self.path, line)
                self._lines[self._key_of(line)] = line
            self._stack = opening.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Give the file back."""
        self._stack.close()

    def __iter__(self) -> Iterator[Line]:
        """Go over all lines, in the order in which they were finished."""
        return iter(self._lines.values())

    def find(self, key: Key) -> Line | None:
        """Return the line of a finished piece of work; None if it is not finished."""
        return self._lines.get(key)

    def add(self, line: Line) -> None:
        """Keep a finished piece of work, and wait until the disk has it."""
        line = {"format": self._format, **line}
        if self._file is not None and self.path is not None:
            lines.append(self._file, self.path, sealed(line))
        self._lines[self._key_of(line)] = line
