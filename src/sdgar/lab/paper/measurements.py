"""Measurements of an experiment: each is made once, kept as a line, and never made again.

    OUT/NAME.jsonl    one sealed line a measurement: what it is (its key), what came out, and on
                      what machine it was made

A line counts for a measurement whose key is the same, so an interrupted experiment goes on with the
same command, and a changed setting is another measurement. If the device belongs to the key, what
other devices left in the file is shown beside.
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

from sdgar._version import __version__
from sdgar.engines.choose import choose_device
from sdgar.machine import cores
from sdgar.runs.watch import Stop, Watch, at_once, require_going, stoppable
from sdgar.storage.folders import DamagedError
from sdgar.storage.ledger import Ledger
from sdgar.training.trained import OnPhase

FORMAT = "sdgar-paper 1"
_UNSEALED = ("format", "key", "values", "seconds", "made_on")
"""The entries of a line from before there were seals."""

Row = dict[str, Any]
"""The key of a measurement and its values, side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The setting of all experiments: data, size, device and seeds."""

    data: Path | None = None
    """The folder of the real data sets; those that are not in it are made up in their shape. None
    makes up all."""
    quick: bool = False
    """Whether experiments are smaller in every way, as each of them says."""
    device: str = "auto"
    """The device that computes: auto, cpu or cuda."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """The seeds of the runs."""

    def __post_init__(self) -> None:
        """Raise if the device is not there, before hours are spent."""
        choose_device(self.device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One number, or a few of them, that take a while to measure."""

    key: dict[str, Any]
    """The entries that say what is measured, by which its line is found again."""
    measure: Callable[[OnPhase], dict[str, Any]]
    """The function that measures; it is told of epochs."""
    seconds: float
    """The seconds that the measurement takes on two cores, roughly."""
    epochs: int = 1
    """The most epochs that the measurement may train."""

    @property
    def label(self) -> str:
        """The key in words."""
        words = [_said(name, value) for name, value in self.key.items()]
        return ", ".join(dict.fromkeys(word for word in words if word))


@dataclass(slots=True)
class Pace:
    """Guess how long the rest will take, by the measurements so far."""

    guessed: float
    """The seconds of the measurements that are left, by guesses made beforehand."""
    tried: float = 0.0
    """The seconds that were guessed for the measurements that were made now."""
    taken: float = 0.0
    """The seconds that the measurements made now really took."""

    def passed(self, one: Measurement, seconds: float | None) -> None:
        """Note that a measurement is over; without seconds, it was made earlier."""
        self.guessed -= one.seconds
        if seconds is not None:
            self.tried += one.seconds
            self.taken += seconds

    @property
    def sentence(self) -> str:
        """Say what is left, in words."""
        if not self.tried or self.guessed < 1e-9:
            return ""
        minutes = self.guessed * self.taken / self.tried / 60
        return f" · some {minutes:.0f} minutes left" if minutes >= 1 else " · under a minute left"


def measured(
    wanted: Sequence[Measurement],
    path: Path,
    setting: Setting,
    *,
    watch: Watch,
    stop: Stop,
    pace: Pace | None = None,
) -> list[Row]:
    """Return the rows of all measurements, then those of other devices.

    What was measured before is read from the file and not measured again.
    """
    pace = pace or Pace(sum(one.seconds for one in wanted))
    kept = f"What is finished is kept in {path}; the same command goes on."
    with ledger(path) as kept_lines:
        for one in wanted:
            line = kept_lines.find(_name(one.key))
            before = line is not None
            if line is None:
                require_going(stop, kept)
                hear = stoppable(watch.begin(one.label, at_once(one.epochs)), stop, kept)
                line = measured_line(one, setting.device, hear)
                kept_lines.add(line)
            pace.passed(one, None if before else line["seconds"])
            label = "before" if before else "done"
            watch.end(label, f"{one.label}: {line['seconds']:.1f} s{pace.sentence}")
        found = {_name(line["key"]): line for line in kept_lines}
    own = {_name(one.key): _anywhere(one.key) for one in wanted}
    other = (
        n for n, line in found.items() if n not in own and _anywhere(line["key"]) in own.values()
    )
    return [
        {**line["key"], **line["values"], "made_on": line["made_on"]}
        for line in (found[name] for name in (*own, *other))
    ]


def ledger(path: Path) -> Ledger[str]:
    """Return the ledger of an experiment: a line for each measurement, by its key."""

    def key_of(line: Row) -> str:
        match line:
            case {"key": dict(), "values": dict(), "seconds": int() | float(), "made_on": dict()}:
                return _name(line["key"])
        raise DamagedError(path, "a line does not describe a measurement")

    return Ledger(
        path,
        format=FORMAT,
        what="measurements of sdgar paper",
        key_of=key_of,
        unsealed=_UNSEALED,
    )


def is_kept(found: Ledger[str], one: Measurement) -> bool:
    """Tell whether a measurement has a line already."""
    return found.find(_name(one.key)) is not None


def measured_line(one: Measurement, device: str, hear: OnPhase) -> dict[str, Any]:
    """Make a measurement, and return the line that is kept of it."""
    start = time.perf_counter()
    values = one.measure(hear)
    return {
        "key": one.key,
        "values": values,
        "seconds": round(time.perf_counter() - start, 2),
        "made_on": made_on(device),
    }


def made_on(device: str) -> dict[str, Any]:
    """Say on what machine and by what version a measurement is made."""
    kind = choose_device(device).type
    return {
        "sdgar": __version__,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if kind == "cuda" else f"{platform.machine()} CPU",
        "threads": cores.threads(),
    }


def _said(name: str, value: Any) -> str:
    """Say one value of a key as people do."""
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
    """Return the key without its device; a training, whose result is the same, has none in it."""
    return _name({**key, "device": None} if "device" in key else key)
