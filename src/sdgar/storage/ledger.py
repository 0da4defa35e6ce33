"""A ledger of work that takes long: measure what has no line yet, append it, wait for the disk.

A ledger is a file of sealed JSON lines, one for each finished piece of work. A process locks it,
reads which pieces are finished, and adds a line for each further one. The same command thus
resumes after an interruption; a line that was changed by hand is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Generic, Self, TypeVar

from sdgar.errors import UsageError
from sdgar.storage import files
from sdgar.storage.files import disk_error
from sdgar.storage.sealed import DamagedError, check_seal, with_seal

Mark = Mapping[str, str | int]
"""The entries of the first line of a file by which it is known to be ours."""


@contextmanager
def locked_lines(path: Path, *, mark: Mark, what: str, empty: bool = False) -> Iterator[IO[bytes]]:
    """Lock a file for this process, make it if there is none, and cut off a torn last line.

    ``mark`` is what the first line of such a file holds; a file without it is not touched.
    ``empty`` throws away what is in it.
    """
    files.require_locks()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
    except OSError as error:
        raise disk_error(path, error) from error
    with file:
        try:
            files.lock(file)
        except BlockingIOError as error:
            raise UsageError(
                f"another process is writing to {path}. Wait for it, or choose another place.",
                code="locked",
            ) from error
        file.seek(0)
        data = file.read()
        if data and not _begins(data, mark):
            raise UsageError(
                f"{path} is there and is not {what}, so it is left as it is. Choose another place, "
                "or remove it.",
                code="out_foreign",
            )
        whole = 0 if empty else data.rfind(b"\n") + 1
        if whole < len(data):
            file.truncate(whole)
        yield file


def _begins(data: bytes, mark: Mark) -> bool:
    try:
        first = json.loads(data.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and all(first.get(key) == value for key, value in mark.items())


Line = dict[str, Any]
Key = TypeVar("Key", bound=Hashable)


class Ledger(Generic[Key]):
    """The lines of a file by their keys; without a path, lines are kept in memory only.

    ``key_of`` returns what distinguishes one line from another, and raises if a line does not
    describe a finished piece of work.
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
        self._open = ExitStack()
        self._file: IO[bytes] | None = None
        self._lines: dict[Key, Line] = {}

    def __enter__(self) -> Self:
        """Take the file, and read what is finished."""
        if self.path is None:
            return self
        mark = {"format": self._format}
        with ExitStack() as opening:
            self._file = opening.enter_context(
                locked_lines(self.path, mark=mark, what=self._what, empty=self._empty)
            )
            self._file.seek(0)
            for number, text in enumerate(self._file, start=1):
                line = self._parsed(text, number, self.path)
                self._lines[self._key_of(line)] = line
            self._open = opening.pop_all()
        return self

    def _parsed(self, text: bytes, number: int, path: Path) -> Line:
        """Return a line; raise if it is not a sealed one of this format."""
        try:
            line = dict(json.loads(text))
        except (TypeError, ValueError, RecursionError) as error:
            raise DamagedError(path, f"line {number} is not a JSON object") from error
        if line.get("format") != self._format:
            raise DamagedError(path, f"a line is not of the format {self._format!r}")
        check_seal(path, line)
        return line

    def __exit__(self, *error: object) -> None:
        """Close the file, which others may lock then."""
        self._open.close()

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
            try:
                self._file.write(json.dumps(with_seal(line), allow_nan=False).encode() + b"\n")
                self._file.flush()
                os.fsync(self._file.fileno())
            except OSError as error:
                raise disk_error(self.path, error) from error
        self._lines[self._key_of(line)] = line
