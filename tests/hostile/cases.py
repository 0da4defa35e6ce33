"""The table of hostile and unlucky cases: what is done, the exit code, and what the message names.

Every case ends in an error that a user can act on. A case either calls the library, which raises
an ``SdgarError``, or runs a command, which ends with the exit code of that error. In both the
message names the value at fault and the cure, and is free of tracebacks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sdgar.errors import SdgarError

from ..cli.test_cli import Done


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    name: str
    """A sentence that says what happens."""
    exit_code: int
    """2 usage, 3 data, 4 saved model, 5 disk, memory, device or network, 6 numbers."""
    says: tuple[str, ...]
    """Parts of the message: the value at fault and the cure."""
    act: Callable[[Path], Any]
    """Gets an empty folder; raises an ``SdgarError`` or returns what a command ended with."""


def refused(exit_code: int, rows: dict[str, tuple[Any, ...]]) -> list[Case]:
    """Return cases of one exit code by their names: what is done, and parts of the message."""
    return [Case(name, exit_code, tuple(says), act) for name, (act, *says) in rows.items()]


def table(cases: list[Case]) -> pytest.MarkDecorator:
    """Run a test once for each case, under the case's name."""
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


def check(case: Case, folder: Path) -> None:
    """Run a case in an empty folder, and compare the answer with the table."""
    try:
        done = case.act(folder)
    except SdgarError as error:
        code, message = error.exit_code, str(error)
    else:
        assert isinstance(done, Done), f"there was no error, but {done!r}"
        code, message = done.returncode, done.stderr
    assert code == case.exit_code, message
    assert "Traceback" not in message
    for part in case.says:
        assert part in message
