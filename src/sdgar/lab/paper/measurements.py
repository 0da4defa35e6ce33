"""Measurements of an experiment: each is made once, kept as a line, and never made again.

    OUT/NAME.jsonl    one sealed line a measurement: what it is (its key), what came out, and on
                      what machine it was made

A line counts for a measurement with the same key. So an interrupted experiment resumes with the
same command, and a changed setting is another measurement. If the device belongs to the key, lines
of other devices are shown too.
"""

from __future__ import annotations

import base64
import json
import platform
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sdgar._version import __version__
from sdgar.data.splits import Split
from sdgar.engines.choose import choose_device
from sdgar.lab.paper.chosen import is_real, source
from sdgar.machine import cores
from sdgar.runs.run import fit_by
from sdgar.runs.watching import Work
from sdgar.settings import METRIC
from sdgar.storage.ledger import Ledger
from sdgar.storage.sealed import DamagedError
from sdgar.systems.base import Estimator
from sdgar.systems.names import SYSTEMS
from sdgar.systems.recipe import recipe_of
from sdgar.training.fitting import PAPER_EPOCHS
from sdgar.training.records import FitOptions, OnPhase

if TYPE_CHECKING:
    from sdgar.lab.paper.sheets import Sheet

FORMAT = "sdgar-paper 1"
Row = dict[str, Any]
"""The key of a measurement and its values, side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperOptions:
    """What all experiments share: data, size, device and seeds."""

    data: Path | None = None
    """The folder of the real data sets; missing ones are replaced by synthetic data of their shape.
    None replaces all."""
    quick: bool = False
    """Whether experiments are smaller in every way, as each of them documents."""
    device: str = "auto"
    """The device that computes: auto, cpu or cuda."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """The seeds of the runs."""

    def __post_init__(self) -> None:
        """Raise if the device is not there, before hours are spent."""
        choose_device(self.device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One number, or a few of them, that take a while to measure."""

    key: dict[str, Any]
    """The entries that say what is measured, by which its line is found again."""
    measure: Callable[[OnPhase], dict[str, Any]]
    """The function that measures; it calls its argument after every epoch."""
    epochs: int = 1
    """The most epochs that the measurement may train."""

    @property
    def label(self) -> str:
        """The key in words."""
        rows = "the data set" if self.key.get("real") else "synthetic rows"
        left_out = ("settings", "label", "real")
        shown = {name: value for name, value in self.key.items() if name not in left_out}
        words = [f"{name} {value}" for name, value in shown.items() if value is not None]
        return ", ".join([*words, rows] if "real" in self.key else words)


@dataclass(frozen=True, slots=True)
class Experiment:
    """A table or a figure of the paper: its measurements, and what is written from them."""

    name: str
    """The name of the experiment, of its files, and on the command line."""
    title: str
    """The heading of its table."""
    pieces: Callable[[PaperOptions], list[Piece]]
    """The function that returns what has to be measured."""
    sheet: Callable[[Sequence[Row], PaperOptions], Sheet]
    """The function that returns the table and the picture of the measured rows."""


def measured(wanted: Sequence[Piece], path: Path, device: str, work: Work) -> list[Row]:
    """Return the rows of all measurements, then the rows of other devices.

    What was measured before is read from the file and not measured again.
    """
    with ledger(path) as lines:
        for one in wanted:
            line, label = lines.find(name_of(one.key)), "before"
            if line is None:
                work.require_going()
                loop = FitOptions(epochs=one.epochs, early_stopping=False)
                line, label = measured_line(one, device, work.begin(one.label, loop)), "done"
                lines.add(line)
            work.end(label, f"{one.label}: {line['seconds']:.1f} s")
        found = {name_of(line["key"]): line for line in lines}
    own = {name_of(one.key): _anywhere(one.key) for one in wanted}
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
                return name_of(line["key"])
        raise DamagedError(path, "a line does not describe a measurement")

    return Ledger(path, format=FORMAT, what="measurements of sdgar paper", key_of=key_of)


def measured_line(one: Piece, device: str, on_epoch: OnPhase) -> dict[str, Any]:
    """Make a measurement, and return the line that is kept of it."""
    start = time.perf_counter()
    values = one.measure(on_epoch)
    seconds = round(time.perf_counter() - start, 2)
    kind = choose_device(device).type
    made_on = {
        "sdgar": __version__,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if kind == "cuda" else f"{platform.machine()} CPU",
        "threads": cores.threads(),
    }
    return {"key": one.key, "values": values, "seconds": seconds, "made_on": made_on}


def name_of(key: dict[str, Any]) -> str:
    """Return the text by which the line of a measurement is found."""
    return json.dumps(key, sort_keys=True)


def _anywhere(key: dict[str, Any]) -> str:
    """Return the key without its device; a training, whose result is the same, has none in it."""
    return name_of({**key, "device": None} if "device" in key else key)


_WHOLE = 2**16 - 1


def training(
    system: str,
    data: str,
    seed: int,
    protocol: str,
    settings: dict[str, Any],
    options: PaperOptions,
    *,
    users: bool = False,
    **more: Any,
) -> Piece:
    """Return a measurement that trains by the protocol and reads the test rows once.

    Models are compared as in the paper, without an item memory. With ``users``
    the metric of each user is kept too; ``more`` goes into the key.
    """
    common = {"seed": seed, "device": options.device, "item_memory": 0.0}
    fields = recipe_of(SYSTEMS[system]()).settings
    estimator = SYSTEMS[system](**settings, **{k: v for k, v in common.items() if k in fields})
    loop, epochs = recipe_of(estimator).loop, 1
    if loop is not None:
        # Early stopping ends most runs sooner, and a validated run is trained twice.
        epochs = PAPER_EPOCHS if protocol == "paper" else 2 * loop.epochs // 3
    return Piece(
        key={
            "data": data,
            "real": is_real(data, options.data),
            "system": system,
            "seed": seed if "seed" in fields else None,
            "protocol": protocol,
            "settings": settings,
            **more,
        },
        measure=lambda on_epoch: _train(
            estimator, source(data, options.data), protocol, on_epoch, users=users
        ),
        epochs=epochs,
    )


def _train(
    estimator: Estimator, rows: Split, protocol: str, on_epoch: OnPhase, *, users: bool
) -> dict[str, Any]:
    fit_by(protocol, estimator, rows.train, rows.held_out, None, on_epoch)
    report = estimator.evaluate(rows.held_out, ks=(50,))
    trained = recipe_of(estimator).trained
    values: dict[str, Any] = {
        METRIC: report.means()[METRIC],
        "counts": asdict(report.counts),
        "best_epoch": trained.chosen_epoch,
        "engine": trained.engine,
    }
    if users:
        values["per_user"] = packed(report.per_user[METRIC])
    if trained.epochs:
        values |= {
            "curve": [
                [record.epoch, record.metric]
                for phase, record in trained.log
                if phase == "choose" and record.metric is not None
            ],
            "train_seconds": trained.seconds.train,
            "refit_seconds": trained.seconds.refit,
        }
    return values


def packed(values_T: np.ndarray) -> str:
    """Return numbers in [0, 1] as text of 16 bits each, so that a line stays small."""
    whole_T = np.round(values_T * _WHOLE).astype("<u2")
    return base64.b64encode(zlib.compress(whole_T.tobytes(), 9)).decode()


def unpacked(text: str) -> np.ndarray:
    """Return the numbers that ``packed`` was given, to 16 bits."""
    whole_T = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<u2")
    return whole_T / _WHOLE
