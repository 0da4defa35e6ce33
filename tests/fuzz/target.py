"""What is fuzzed: a target makes cases and holds the answers against what must be true of them.

A case is some small files. Ingredients one takes nothing but random numbers, so that a seed says it
all; trying one takes nothing but the files, so that a finding can be tried again by itself.
"""

from __future__ import annotations

import importlib
import shutil
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from sdgar.errors import SdgarError

Files = dict[str, bytes]
"""The files of a case by name; a name may have folders in it."""


@dataclass(frozen=True, slots=True)
class Target:
    """One thing that is fuzzed."""

    make: Callable[[Random], Files]
    try_: Callable[[Path], None]
    """Returns if all is well, and raises an ``SdgarError`` if the input is refused."""


MODULES = {
    **dict.fromkeys(("delimited", "json lines", "parquet", "features"), "readers"),
    **dict.fromkeys(("manifests", "tensors", "checkpoints", "runs"), "saved"),
    **dict.fromkeys(("ids", "frames", "questions"), "id_queries"),
}
"""The module of each target; a module is imported when a target of it is needed."""
PLANTED = ("a crash", "a hang", "a flood", "a wrong error")
"""Targets that are bugs themselves, to see that bugs are found."""


def target_of(name: str) -> Target:
    """A target by its name."""
    buffer = importlib.import_module(f".{MODULES.get(name, 'planted')}", __package__)
    found: Target = buffer.TARGETS[name]
    return found


def make(name: str, seed: int, number: int, folder: Path) -> None:
    """Write the files of a case into an empty folder."""
    files = target_of(name).make(Random(f"{seed} {number} {name}"))
    for file, data in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a case."""

    kind: str
    """``right``, ``refused``, or the bug: what was raised, and where."""
    details: str = ""

    @property
    def is_bug(self) -> bool:
        """Whether this should not have happened."""
        return self.kind not in ("right", "refused")


def outcome_of(name: str, folder: Path) -> Outcome:
    """Try a copy of a case; all but a right answer or an ``SdgarError`` with a message is a bug."""
    try:
        with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)  # numbers that are not what they seem
            target_of(name).try_(shutil.copytree(folder, Path(place) / "case"))
    except SdgarError as error:
        if len(str(error)) < 10 or error.code == "out_of_memory":
            return _bug(error)
        return Outcome("refused")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of Rust is no Exception
        return _bug(error)
    return Outcome("right")


def _bug(error: BaseException) -> Outcome:
    """The bug that an exception shows, named by what it is and by the last line of the package."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if "sdgar" in Path(one.filename).parts] or frames
    last = ours[-1]
    where = f"{Path(last.filename).name}:{last.lineno} in {last.name}"
    reported = "".join(traceback.format_exception(error))
    return Outcome(f"{type(error).__name__} at {where}", reported[-6000:])
