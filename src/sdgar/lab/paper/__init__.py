"""The paper's tables and figures: what is measured, and how it is written.

Measurements are made once and kept (``measurements.py``); tables and figures come from their rows
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sdgar.arguments import one_of
from sdgar.lab.paper.accuracy import SENSITIVITY, TABLE1, TABLE2, TREND
from sdgar.lab.paper.measurements import Experiment, PaperOptions, measured
from sdgar.lab.paper.seconds import BY_ITEMS, TIME
from sdgar.runs.watching import Stop, Watch, Work
from sdgar.storage.folders import in_the_way

__all__ = ["EXPERIMENTS", "PaperOptions", "named", "run"]

EXPERIMENTS = {one.name: one for one in (TABLE1, TABLE2, TREND, TIME, BY_ITEMS, SENSITIVITY)}


def named(name: str) -> list[Experiment]:
    """Return the experiment of that name, or all of them."""
    one_of("experiment", name, ("all", *EXPERIMENTS))
    return [one for one in EXPERIMENTS.values() if name in ("all", one.name)]


def run(
    experiments: Sequence[Experiment], out: Path, options: PaperOptions, *, watch: Watch, stop: Stop
) -> list[Path]:
    """Measure what is not measured yet, then write NAME.json, .md and, if drawn, .png."""
    for experiment in experiments:
        _require_free(out, experiment.name)
    todo = {experiment.name: experiment.pieces(options) for experiment in experiments}
    written = []
    for experiment in experiments:
        name = experiment.name
        path = out / f"{name}.jsonl"
        work = Work(watch, stop, f"What is finished is kept in {path}; the same command resumes.")
        rows = measured(todo[name], path, options.device, work)
        experiment.sheet(rows, options).write(out, name, experiment.title, rows)
        work.end("written", str(out / f"{name}.md"))
        files = sorted(out.glob(f"{name}*"))
        written += [file for file in files if file.suffix in (".md", ".json", ".png")]
    return written


def _require_free(out: Path, name: str) -> None:
    """Raise if files of the same names are there and no measurement says that they are ours."""
    if any((out / f"{name}.{suffix}").exists() for suffix in ("jsonl", "json")):
        return
    taken = [f"{name}.{s}" for s in ("md", "png") if (out / f"{name}.{s}").exists()]
    if taken:
        raise in_the_way(out, taken, f"is not from `sdgar paper` (there is no {name}.json)")
