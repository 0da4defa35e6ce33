"""Options of the commands that train many models: searches and comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sdgar.cli.options.places import folder_for_files, new_file
from sdgar.cli.options.sources import PATH, source
from sdgar.cli.options.training import number

Tuned = Annotated[str, typer.Option("--system", help="Tune this system; see sdgar train.")]
Trials = Annotated[
    int,
    typer.Option(
        "--trials",
        parser=number("--trials", int),
        metavar="INTEGER",
        help="Try so many settings; the first are the defaults.",
    ),
]
Elsewhere = Annotated[
    list[Any] | None,
    typer.Option(
        "--test",
        metavar=PATH,
        parser=source,
        help="Name files of test events, so that none are split off; they are only read to check "
        "that none of them is a training row.",
    ),
]
Study = Annotated[
    Path | None,
    typer.Option(
        "--study",
        parser=new_file,
        metavar="FILE",
        help="Keep the search in this file, and go on with it.",
    ),
]
Fixed = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Fix a hyper-parameter, so that it is not searched; repeatable.",
    ),
]
Systems = Annotated[
    str, typer.Option("--systems", metavar="NAME,NAME…", help="Compare these systems.")
]
Seeds = Annotated[
    int,
    typer.Option(
        "--seeds",
        parser=number("--seeds", int),
        metavar="INTEGER",
        help="Run each system with so many seeds, from --seed upwards.",
    ),
]
SeedsFromZero = Annotated[
    int,
    typer.Option(
        "--seeds",
        parser=number("--seeds", int),
        metavar="INTEGER",
        help="Run each system with so many seeds, from 0 upwards.",
    ),
]
Tune = Annotated[
    int | None,
    typer.Option(
        "--tune",
        parser=number("--tune", int),
        metavar="TRIALS",
        help="First tune each system, with so many trials.",
    ),
]
Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="NAME",
        help="Compare the others with this system; the default is the best one.",
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--out",
        parser=folder_for_files,
        metavar="FOLDER",
        help="Keep everything in this folder, and go on from there.",
    ),
]
Place = Annotated[
    Path,
    typer.Option(
        "--out",
        parser=folder_for_files,
        metavar="FOLDER",
        help="Keep everything in this folder, and go on from there.",
    ),
]
OfSystems = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="[SYSTEM.]KEY=VALUE",
        help="Set a hyper-parameter of one system, or of all that have it; repeatable.",
    ),
]
