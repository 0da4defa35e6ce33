"""Options of the commands that train many models: searches and comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sdgar.cli.options.places import folder_for_files, new_file
from sdgar.cli.options.training import number

Tuned = Annotated[str, typer.Option("--system", help="What to tune; see sdgar train.")]
Trials = Annotated[
    int,
    typer.Option(
        "--trials",
        parser=number("--trials", int),
        metavar="INTEGER",
        help="Settings to try; the first are the defaults.",
    ),
]
Elsewhere = Annotated[
    list[Path] | None,
    typer.Option(
        "--test",
        help="Events held out elsewhere, so that nothing is split off; they are only looked "
        "at to see that none of them is a training row.",
    ),
]
Study = Annotated[
    Path | None,
    typer.Option(
        "--study", parser=new_file, metavar="FILE", help="Keep the search here, and go on with it."
    ),
]
Fixed = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A hyper-parameter that stays as it is."),
]
Systems = Annotated[str, typer.Option("--systems", metavar="NAME,NAME…", help="What to compare.")]
Seeds = Annotated[
    int,
    typer.Option(
        "--seeds",
        parser=number("--seeds", int),
        metavar="INTEGER",
        help="Runs of each system; from --seed upwards.",
    ),
]
SeedsFromZero = Annotated[
    int,
    typer.Option(
        "--seeds",
        parser=number("--seeds", int),
        metavar="INTEGER",
        help="Runs of each system; from 0 upwards.",
    ),
]
Tune = Annotated[
    int | None,
    typer.Option(
        "--tune",
        parser=number("--tune", int),
        metavar="TRIALS",
        help="First tune each system, all as long.",
    ),
]
Against = Annotated[
    str | None,
    typer.Option("--against", metavar="NAME", help="Hold the others against this; the best."),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--out",
        parser=folder_for_files,
        metavar="FOLDER",
        help="Folder to keep everything in, and go on from.",
    ),
]
Place = Annotated[
    Path,
    typer.Option(
        "--out",
        parser=folder_for_files,
        metavar="FOLDER",
        help="Folder to keep everything in, and go on from.",
    ),
]
OfSystems = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="[SYSTEM.]KEY=VALUE",
        help="A hyper-parameter of one system, or of all that have it.",
    ),
]
