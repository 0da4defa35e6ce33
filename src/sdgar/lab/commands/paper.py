"""``sdgar data download``, ``prepare`` and ``synthetic``, and ``sdgar paper``: data and results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from sdgar.cli.console import Screen
from sdgar.cli.options.option import Option
from sdgar.cli.options.shared import Json, Overwrite, Seed
from sdgar.cli.options.values import folder_for_files, new_file, require_new_table
from sdgar.cli.training_screen import stop_signals, work
from sdgar.errors import UsageError
from sdgar.lab.commands.compare import seeds_from
from sdgar.show.printed import command

_NAMES = "citeulike, gowalla, movielens, amazon or echonest"
_Name = Annotated[str, Option(f"Name one: {_NAMES}.", is_argument=True)]


def download(
    name: _Name,
    out: Annotated[
        Path, Option("Put the raw file into this folder.", "FOLDER", parse=folder_for_files)
    ] = Path("data/raw"),
    as_json: Json = False,
) -> None:
    """Download the raw file of one of the paper's data sets, and check its digest."""
    from sdgar.lab import datasets

    screen = Screen(as_json=as_json)
    dataset = datasets.find(name)
    screen.say("terms", dataset.terms)
    file = datasets.download(dataset, out)
    screen.say("saved", str(file))
    if not (dataset.sha256 or dataset.md5):
        screen.say("note", "No digest is published for this file, so it was not checked.")
    words = ("sdgar", "data", "prepare", name, "--raw", file, "--out", f"data/{name}")
    screen.say("next", command(*words))
    screen.result({"path": str(file), "bytes": file.stat().st_size})


def prepare(
    name: _Name,
    raw: Annotated[Path, Option("Read the publisher's file here.")],
    out: Annotated[
        Path,
        Option("Write interactions.parquet into this folder.", "FOLDER", parse=folder_for_files),
    ],
    allow_bad_rows: Annotated[
        bool, Option("Leave malformed rows out and count them, instead of refusing the file.")
    ] = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Prepare one of the paper's data sets from its raw file, as the paper does."""
    from sdgar.lab import prepare as preparing

    preparing.require_free(out, overwrite=overwrite)
    screen = Screen(as_json=as_json)
    prepared = preparing.prepare(name, raw, allow_bad_rows=allow_bad_rows)
    data = prepared.interactions
    screen.say("data", f"{prepared.dataset.title}: {data.size_text()}")
    screen.say("rows", data.account.sentence())
    for note in prepared.notes:
        screen.say("note", note)
    folder = preparing.write_prepared(prepared, out, overwrite=overwrite)
    screen.say("saved", str(folder))
    file = folder / "interactions.parquet"
    screen.say("next", command("sdgar", "train", file, "--split", "paper", "--out", "RUN"))
    screen.result(data.stats() | {"rows": data.account.as_dict(), "out": str(folder)})


def synthetic(
    preset: Annotated[str, Option(f"Name one: demo, {_NAMES}.", is_argument=True)],
    out: Annotated[
        Path,
        Option("Write this .parquet, .csv, .tsv or .jsonl file.", "FILE", "-o --out", new_file),
    ],
    seed: Seed = 0,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Make up events with the size and skew of a known data set."""
    from sdgar.data.synthetic import synthetic as make
    from sdgar.data.tables import events, write_table

    require_new_table(out, overwrite=overwrite)
    screen = Screen(as_json=as_json)
    data = make(preset, seed=seed)
    write_table(events(data), out)
    screen.say("saved", f"{out}: {data.size_text()}, synthetic, seed {seed}")
    screen.say("next", command("sdgar", "train", out, "--out", "RUN"))
    screen.result(data.stats() | {"out": str(out)})


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
