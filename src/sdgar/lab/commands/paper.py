"""``sdgar paper``: the paper's tables and figures, measured here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from sdgar.cli.console import Screen
from sdgar.cli.options.option import Option
from sdgar.cli.options.shared import Json
from sdgar.cli.options.values import folder_for_files
from sdgar.cli.training_screen import stop_signals, work
from sdgar.errors import UsageError
from sdgar.lab.commands.compare import seeds_from


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions:
    """The data, the size and the device of experiments."""

    data: Annotated[Path | None, Option(metavar="FOLDER")] = None
    """Read the real data sets (citeulike-t, gowalla, movielens-10m) here, each with train.parquet
    and test.parquet, or interactions.parquet; or of NAME.npz. Others are synthetic."""
    quick: bool = False
    """Measure less, in minutes on two cores."""
    seeds: int = 3
    """Run each system with so many seeds, from 0 upwards."""
    device: str = "auto"
    """The device that computes: auto, cpu or cuda."""


def paper(
    name: Annotated[
        str,
        Option(
            "Name one: table1, table2, trend, time, items, sensitivity, or all.", is_argument=True
        ),
    ],
    out: Annotated[
        Path,
        Option(
            "Keep everything in this folder, and resume from it.", "FOLDER", parse=folder_for_files
        ),
    ],
    as_json: Json = False,
    *,
    how: ExperimentOptions,
) -> None:
    """Regenerate a table or a figure of the paper: data first, then Markdown and PNG from it.

    What is measured is kept in OUT/NAME.jsonl; the same command resumes after an interruption.
    """
    from sdgar.lab import paper as experiments

    screen = Screen(as_json=as_json)
    seeds = seeds_from(0, how.seeds)
    if how.data is not None and not how.data.is_dir():
        raise UsageError(
            f"--data {how.data} is not a folder. Give the folder that holds the folders of the "
            "data sets, or leave it out to use synthetic data for all of them.",
            code="no_such_folder",
        )
    options = experiments.PaperOptions(
        data=how.data, quick=how.quick, device=how.device, seeds=seeds
    )
    chosen = experiments.named(name)
    todo = {experiment.title: experiment.pieces(options) for experiment in chosen}
    for title, pieces in todo.items():
        screen.say("plan", f"{title}: {len(pieces)} pieces")
    with stop_signals() as stop, work(screen, len(todo) + sum(map(len, todo.values()))) as watch:
        written = experiments.run(chosen, out, options, watch=watch, stop=stop)
    for path in written:
        screen.say("saved", str(path))
    screen.result({"experiments": [e.name for e in chosen], "files": [str(p) for p in written]})
