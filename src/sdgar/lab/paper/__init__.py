"""The paper's tables and figures, one module each: what is measured, and how it is written.

An experiment is a module with NAME, TITLE, ``measurements(setting)`` and ``write(rows, out,
setting)``. Measurements are made once and kept (``measurements.py``); tables and pictures come from
their rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from sdgar.errors import unknown_name
from sdgar.lab.paper import items, sensitivity, table1, table2, times, trend
from sdgar.lab.paper.measurements import Pace, Setting, measured
from sdgar.runs.watch import Stop, Watch, at_once
from sdgar.storage.folders import in_the_way

__all__ = ["EXPERIMENTS", "Setting", "named", "run"]

EXPERIMENTS: dict[str, ModuleType] = {
    module.NAME: module for module in (table1, table2, trend, times, items, sensitivity)
}


def named(name: str) -> list[ModuleType]:
    """Return the experiment of that name, or all of them."""
    if name == "all":
        return list(EXPERIMENTS.values())
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, ("all", *EXPERIMENTS))
    return [EXPERIMENTS[name]]


def run(
    experiments: Sequence[ModuleType], out: Path, setting: Setting, *, watch: Watch, stop: Stop
) -> list[Path]:
    """Measure what is not measured yet, then write NAME.json, .csv, .md and, if drawn, .png."""
    for experiment in experiments:
        _require_free(out, experiment.NAME)
    todo = {experiment.NAME: experiment.measurements(setting) for experiment in experiments}
    pace = Pace(sum(one.seconds for several in todo.values() for one in several))
    written = []
    for experiment in experiments:
        rows = measured(
            todo[experiment.NAME], out / f"{experiment.NAME}.jsonl", setting,
            watch=watch, stop=stop, pace=pace,
        )  # fmt: skip
        watch.begin(f"{experiment.NAME}: tables and figures", at_once())
        experiment.write(rows, out, setting)
        watch.end("written", str(out / f"{experiment.NAME}.md"))
        files = sorted(out.glob(f"{experiment.NAME}*"))
        written += [file for file in files if file.suffix in (".md", ".csv", ".json", ".png")]
    return written


def _require_free(out: Path, name: str) -> None:
    """Raise if files of the same names are there and no measurement says that they are ours."""
    if any((out / f"{name}.{suffix}").exists() for suffix in ("jsonl", "json")):
        return
    taken = [f"{name}.{s}" for s in ("csv", "md", "png") if (out / f"{name}.{s}").exists()]
    if taken:
        raise in_the_way(out, taken, f"is not from `sdgar paper` (there is no {name}.json)")
