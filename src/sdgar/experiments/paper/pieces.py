"""An experiment as pieces: each is measured once, kept as a line, and never measured again.

    OUT/NAME.jsonl    one sealed line a piece: what it is (its key), what came out, on what it was
                      made

A line counts for a piece whose key is the same, so an interrupted experiment goes on with the same
command, and a changed setting is another piece. Where the device belongs to the key, what other
devices left in the file is shown beside.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import sdgar
from sdgar.engines.choose import choose_device
from sdgar.experiments.watch import Stop, Watch, at_once, require_going, stoppable
from sdgar.machine import cores
from sdgar.storage import lines
from sdgar.storage.folders import DamagedError, require_sealed, sealed
from sdgar.training.protocols import OnPhase

FORMAT = "sdgar-paper 1"
_UNSEALED = ("format", "key", "values", "seconds", "made_on")
"""What a line could hold before there were seals."""

Row = dict[str, Any]
"""What a piece is and what came out, side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How the experiments are run."""

    data: Path | None = None
    """Folder of the real data sets; those that are not in it are made up in their shape."""
    quick: bool = False
    """Smaller in every way, as each experiment says."""
    device: str = "auto"
    seeds: tuple[int, ...] = (0, 1, 2)

    def __post_init__(self) -> None:
        """Refuse a device that is not there before hours are spent."""
        choose_device(self.device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One measurement."""

    key: dict[str, Any]
    measure: Callable[[OnPhase], dict[str, Any]]
    seconds: float
    """What it may take on two cores, roughly."""
    epochs: int = 1

    @property
    def label(self) -> str:
        """The key as words."""
        words = [_said(name, value) for name, value in self.key.items()]
        return ", ".join(dict.fromkeys(word for word in words if word))


@dataclass(slots=True)
class Pace:
    """How long the rest will take here, as far as the pieces before it can tell."""

    guessed: float
    """Seconds of the pieces that are left, by the guesses made beforehand."""
    tried: float = 0.0
    """Seconds of those that were measured now, by the same guesses."""
    taken: float = 0.0
    """Seconds that they took."""

    def passed(self, piece: Piece, seconds: float | None) -> None:
        """A piece is over; without seconds, it was measured earlier."""
        self.guessed -= piece.seconds
        if seconds is not None:
            self.tried += piece.seconds
            self.taken += seconds

    @property
    def sentence(self) -> str:
        """What is left, in words."""
        if not self.tried or self.guessed < 1e-9:
            return ""
        minutes = self.guessed * self.taken / self.tried / 60
        return f" · some {minutes:.0f} minutes left" if minutes >= 1 else " · under a minute left"


def measured(
    pieces: Sequence[Piece],
    path: Path,
    setting: Setting,
    *,
    watch: Watch,
    stop: Stop,
    pace: Pace | None = None,
) -> list[Row]:
    """The rows of all pieces, then those of other devices; what was measured before is read."""
    pace = pace or Pace(sum(piece.seconds for piece in pieces))
    kept = f"What is finished is kept in {path}; the same command goes on."
    with lines.locked(path, mark={"format": FORMAT}, what="measurements of sdgar paper") as file:
        read = [_described(path, line) for line in lines.read(file, path)]
        found = {_name(line["key"]): line for line in read}
        for piece in pieces:
            line = found.get(_name(piece.key))
            before = line is not None
            if line is None:
                require_going(stop, kept)
                hear = stoppable(watch.begin(piece.label, at_once(piece.epochs)), stop, kept)
                line = measured_line(piece, setting.device, hear)
                lines.append(file, path, sealed(line))
                found[_name(piece.key)] = line
            pace.passed(piece, None if before else line["seconds"])
            label = "before" if before else "done"
            watch.end(label, f"{piece.label}: {line['seconds']:.1f} s{pace.sentence}")
    own = {_name(piece.key): _anywhere(piece.key) for piece in pieces}
    other = (
        n for n, line in found.items() if n not in own and _anywhere(line["key"]) in own.values()
    )
    return [
        {**line["key"], **line["values"], "made_on": line["made_on"]}
        for line in (found[name] for name in (*own, *other))
    ]


def _described(path: Path, line: dict[str, Any]) -> dict[str, Any]:
    """A line of the file, if it is as it was written."""
    require_sealed(path, line, _UNSEALED)
    match line:
        case {"key": dict(), "values": dict(), "seconds": int() | float(), "made_on": dict()}:
            return line
    raise DamagedError(path, "a line does not describe a measurement")


def measured_line(piece: Piece, device: str, hear: OnPhase) -> dict[str, Any]:
    """Measure a piece: the line that is kept of it."""
    start = time.perf_counter()
    values = piece.measure(hear)
    return {
        "format": FORMAT,
        "key": piece.key,
        "values": values,
        "seconds": round(time.perf_counter() - start, 2),
        "made_on": made_on(device),
    }


def made_on(device: str) -> dict[str, Any]:
    """The machine and the version."""
    kind = choose_device(device).type
    return {
        "sdgar": sdgar.__version__,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if kind == "cuda" else f"{platform.machine()} CPU",
        "threads": cores.threads(),
    }


def _said(name: str, value: Any) -> str:
    """One value of a key as people say it."""
    match name, value:
        case (_, None | dict()) | ("real", True):
            return ""
        case "real", _:
            return "made up"
        case "users" | "items" | "interactions", _:
            return f"{value:,} {name}"
        case "seed", _:
            return f"seed {value}"
        case "protocol", _:
            return f"protocol {value}"
        case "like", _:
            return f"the shape of {value}"
        case "device", _:
            return f"on {value}"
    return str(value)


def _name(key: dict[str, Any]) -> str:
    return json.dumps(key, sort_keys=True)


def _anywhere(key: dict[str, Any]) -> str:
    """The key for any device; that of a training, whose result does not depend on it, is as is."""
    return _name({**key, "device": None} if "device" in key else key)
